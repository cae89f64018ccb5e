/*
 * question.c - asks the store something, once, and waits for the answer. Owns the request under
 * way; must not know what is asked.
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "core/owner.h"

#include <string.h>

/* Shared by the thread that asks and the request under way; the last of them frees it. */
struct question {
    struct sb_request base; /* first */
    struct simba_task task;
    struct sb_engine *engine;
    const struct sb_client *client; /* for the thread that asks */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
    char property[SIMBA_PROPERTY_NAME_MAX + 1];
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
    /* Under the engine's lock: */
    bool answered;
    bool abandoned;
    int code;
    struct simba_error error;
    struct sb_question_answer answer;
};

static void free_question(struct question *q)
{
    sb_free(q->answer.list);
    sb_free(q->answer.findings);
    sb_free(q->answer.environment);
    sb_free(q);
}

/* The owner of one mutex, in time left, becomes a list of one. */
static int copy_one(struct question *q, const struct simba_reply *reply)
{
    struct simba_mutex_status *one = sb_alloc_zero(sizeof *one);

    if (one == NULL)
        return SIMBA_ENOMEM;
    sb_text_copy(one->mutex, sizeof one->mutex, q->mutex);
    one->waiters = reply->waiters;
    if (reply->owner != NULL && reply->owner[0] != '\0' && reply->transition_left_ms >= 0) {
        int64_t now_ms = simba_now_ms();

        one->owner = sb_owner_in_time_left(reply->owner, now_ms, reply->ttl_left_ms,
                                           reply->transition_left_ms,
                                           sb_engine_timing(q->engine)->ttl_ms, reply->fence);
        if (reply->held_ms >= 0)
            one->since_ms = sb_max(1, sb_later(now_ms, -reply->held_ms));
    }
    q->answer = (struct sb_question_answer){
        .list = one, .count = 1, .revision = reply->revision, .missed = reply->missed};
    return SIMBA_OK;
}

static int copy_list(struct question *q, const struct simba_reply *reply)
{
    size_t size = reply->list_count * sizeof *reply->list;
    struct simba_mutex_status *list = sb_alloc(size > 0 ? size : 1);

    if (list == NULL)
        return SIMBA_ENOMEM;
    if (size > 0)
        memcpy(list, reply->list, size);
    q->answer = (struct sb_question_answer){.list = list, .count = reply->list_count};
    return SIMBA_OK;
}

static int copy_property(struct question *q, const struct simba_reply *reply)
{
    if (reply->property != NULL)
        q->answer.property = *reply->property;
    return SIMBA_OK;
}

static int copy_findings(struct question *q, const struct simba_reply *reply)
{
    size_t size = reply->findings_count * sizeof *reply->findings;
    struct simba_finding *findings = sb_alloc(size > 0 ? size : 1);

    if (findings == NULL)
        return SIMBA_ENOMEM;
    if (size > 0)
        memcpy(findings, reply->findings, size);
    q->answer =
        (struct sb_question_answer){.findings = findings, .findings_count = reply->findings_count};
    return SIMBA_OK;
}

static int copy_environment(struct question *q, const struct simba_reply *reply)
{
    const char *words = reply->environment != NULL ? reply->environment : "";
    const char *end = words;

    while (*end != '\0')
        end += strlen(end) + 1;
    q->answer.environment = sb_alloc((size_t)(end - words) + 1);
    if (q->answer.environment == NULL)
        return SIMBA_ENOMEM;
    memcpy(q->answer.environment, words, (size_t)(end - words) + 1);
    return SIMBA_OK;
}

static int copy_answer(struct question *q, const struct simba_reply *reply)
{
    switch (q->base.wire.op) {
    case SIMBA_OP_LIST:
    case SIMBA_OP_QUEUE:
        return copy_list(q, reply);
    case SIMBA_OP_GET_PROPERTY:
    case SIMBA_OP_SET_PROPERTY:
        return copy_property(q, reply);
    case SIMBA_OP_INSPECT:
        return copy_findings(q, reply);
    case SIMBA_OP_ENVIRONMENT:
        return copy_environment(q, reply);
    default:
        return copy_one(q, reply);
    }
}

static void copy_reply(struct question *q, const struct simba_reply *reply)
{
    q->code = reply->code;
    if (q->code == SIMBA_OK)
        q->code = copy_answer(q, reply);
    if (q->code == SIMBA_OK)
        return;
    if (reply->error != NULL)
        q->error = *reply->error;
    else
        sb_error_plain(&q->error, q->code);
}

static void on_answered(struct sb_request *base, const struct simba_reply *reply)
{
    struct question *q = (struct question *)base;
    struct sb_engine *engine = q->engine;
    bool abandoned;

    SB_CHECK(sb_loop_is_current(sb_engine_loop(engine)), "an answer comes on the loop thread");
    sb_engine_lock(engine);
    SB_CHECK(!q->answered, "a question is answered once");
    abandoned = q->abandoned;
    if (!abandoned)
        copy_reply(q, reply);
    q->answered = true;
    sb_engine_unlock_after_progress(engine);
    if (abandoned)
        free_question(q);
    sb_engine_pending_remove(engine);
}

static void run_ask(struct simba_task *task)
{
    struct question *q = SB_CONTAINER(struct question, task, task);

    SB_CHECK(sb_loop_is_current(sb_engine_loop(q->engine)),
             "a question is sent on the loop thread");
    sb_request_send(q->engine, &q->base);
}

static bool is_answered_or_closing(void *argument)
{
    const struct question *q = argument;

    return q->answered || atomic_load(&q->client->closing);
}

static struct question *make_question(struct sb_client *client, const struct simba_request *wire)
{
    struct question *q = sb_alloc_zero(sizeof *q);

    if (q == NULL)
        return NULL;
    q->client = client;
    q->engine = client->engine;
    q->task.run = run_ask;
    q->base.answered = on_answered;
    q->base.wire = *wire;
    if (wire->mutex != NULL) {
        sb_text_copy(q->mutex, sizeof q->mutex, wire->mutex);
        q->base.wire.mutex = q->mutex;
    }
    if (wire->id != NULL) {
        sb_text_copy(q->id, sizeof q->id, wire->id);
        q->base.wire.id = q->id;
    }
    if (wire->property != NULL) {
        sb_text_copy(q->property, sizeof q->property, wire->property);
        q->base.wire.property = q->property;
    }
    if (wire->value != NULL) {
        sb_text_copy(q->value, sizeof q->value, wire->value);
        q->base.wire.value = q->value;
    }
    return q;
}

int sb_question_ask(struct sb_client *client, const struct simba_request *wire,
                    struct sb_question_answer *ret_answer, struct simba_error *error)
{
    int64_t until_ms = sb_later(simba_now_ms(), wire->timeout_ms);
    struct sb_engine *engine = client->engine;
    struct question *q = make_question(client, wire);
    bool answered;
    int code;

    if (q == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_engine_pending_add(engine); /* a close must wait for it from here on */
    sb_loop_push(sb_engine_loop(engine), &q->task);
    sb_engine_lock(engine);
    sb_engine_wait_locked(engine, is_answered_or_closing, q, until_ms, NULL);
    answered = q->answered;
    q->abandoned = !answered;
    sb_engine_unlock(engine);
    if (!answered && atomic_load(&client->closing))
        return sb_error_set(error, SIMBA_ECLOSED, "the client is being closed");
    if (!answered) /* the request under way frees it */
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "the store did not answer within %lld ms",
                            (long long)wire->timeout_ms);
    code = q->code;
    if (code == SIMBA_OK) {
        *ret_answer = q->answer;
        q->answer.list = NULL;
        q->answer.findings = NULL;
        q->answer.environment = NULL;
    } else if (error != NULL) {
        *error = q->error;
    }
    free_question(q);
    return code;
}

int sb_question_check(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                      struct simba_error *error)
{
    int code = sb_engine_check_process(client->engine, error);

    if (code == SIMBA_OK && mutex != NULL)
        code = simba_mutex_validate(mutex, error);
    if (code == SIMBA_OK && timeout_ms < 0)
        code = sb_error_set(error, SIMBA_EINVAL, "a time-out of %lld ms is negative",
                            (long long)timeout_ms);
    return code;
}
