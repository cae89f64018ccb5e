/*
 * status.c - asks the store something, once, and waits for the answer; first of all who owns what.
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "core/owner.h"

#include <string.h>

/* Shared by the thread that asks and the request under way; the last of them frees it. */
struct question {
    struct sb_request base; /* first */
    struct simba_task task;
    struct sb_engine *engine;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
    /* Under the engine's lock: */
    bool answered;
    bool abandoned;
    int code;
    struct simba_error error;
    struct simba_mutex_status *list;
    size_t count;
    uint64_t revision;
};

static void free_question(struct question *q)
{
    sb_free(q->list);
    sb_free(q);
}

/* One mutex: the reply's owner in time left becomes a list of one. */
static int take_one(struct question *q, const struct simba_reply *reply)
{
    struct simba_mutex_status *one = sb_alloc_zero(sizeof *one);

    if (one == NULL)
        return SIMBA_ENOMEM;
    sb_text_copy(one->mutex, sizeof one->mutex, q->mutex);
    one->waiters = reply->waiters;
    if (reply->owner != NULL && reply->owner[0] != '\0' && reply->transition_left_ms >= 0)
        one->owner = sb_owner_in_time_left(reply->owner, simba_now_ms(), reply->ttl_left_ms,
                                           reply->transition_left_ms,
                                           sb_engine_timing(q->engine)->ttl_ms, reply->fence);
    q->list = one;
    q->count = 1;
    q->revision = reply->revision;
    return SIMBA_OK;
}

static int take_list(struct question *q, const struct simba_reply *reply)
{
    size_t size = reply->list_count * sizeof *q->list;

    q->list = sb_alloc(size > 0 ? size : 1);
    if (q->list == NULL)
        return SIMBA_ENOMEM;
    if (size > 0)
        memcpy(q->list, reply->list, size);
    q->count = reply->list_count;
    return SIMBA_OK;
}

static bool is_about_many(const struct question *q)
{
    return q->base.wire.op == SIMBA_OP_LIST || q->base.wire.op == SIMBA_OP_QUEUE;
}

static void take_answer(struct question *q, const struct simba_reply *reply)
{
    q->code = reply->code;
    if (q->code == SIMBA_OK)
        q->code = is_about_many(q) ? take_list(q, reply) : take_one(q, reply);
    if (q->code != SIMBA_OK) {
        if (reply->error != NULL)
            q->error = *reply->error;
        else
            sb_error_plain(&q->error, q->code);
    }
}

static void on_answered(struct sb_request *base, const struct simba_reply *reply)
{
    struct question *q = (struct question *)base;
    struct sb_engine *engine = q->engine;
    bool abandoned;

    sb_engine_lock(engine);
    abandoned = q->abandoned;
    if (!abandoned)
        take_answer(q, reply);
    q->answered = true;
    sb_engine_unlock_after_progress(engine);
    if (abandoned)
        free_question(q);
    sb_engine_pending_remove(engine);
}

static void run_ask(struct simba_task *task)
{
    struct question *q = SB_CONTAINER(struct question, task, task);

    sb_request_send(q->engine, &q->base);
}

static bool is_answered(void *argument)
{
    struct question *q = argument;

    return q->answered;
}

/* Waits for the answer. Returns false when the question was given up; then it is not ours any
 * more. */
static bool wait_answered(struct question *q, int64_t timeout_ms)
{
    struct sb_engine *engine = q->engine;
    int64_t until_ms = sb_later(simba_now_ms(), timeout_ms);
    bool answered;

    sb_engine_lock(engine);
    answered = sb_engine_wait_locked(engine, is_answered, q, until_ms, NULL);
    q->abandoned = !answered;
    sb_engine_unlock(engine);
    return answered;
}

static struct question *make_question(simba_client *client, const struct simba_request *wire)
{
    struct question *q = sb_alloc_zero(sizeof *q);

    if (q == NULL)
        return NULL;
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
    return q;
}

int sb_client_ask(simba_client *client, const struct simba_request *wire,
                  struct sb_store_answer *ret_answer, struct simba_error *error)
{
    int64_t timeout_ms = wire->timeout_ms;
    struct question *q = make_question(client, wire);
    int code;

    if (q == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_engine_pending_add(client->engine); /* a close must wait for it from here on */
    sb_engine_push(client->engine, &q->task);
    if (!wait_answered(q, timeout_ms))
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "the store did not answer within %lld ms",
                            (long long)timeout_ms);
    code = q->code;
    if (code == SIMBA_OK) {
        *ret_answer = (struct sb_store_answer){q->list, q->count, q->revision};
        q->list = NULL;
    } else if (error != NULL) {
        *error = q->error;
    }
    free_question(q);
    return code;
}

int sb_client_check_question(simba_client *client, const char *mutex, int64_t timeout_ms,
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

int simba_client_status(simba_client *client, const char *mutex, int64_t timeout_ms,
                        struct simba_mutex_status **ret_list, size_t *ret_count,
                        struct simba_error *error)
{
    const struct simba_request wire = {
        .op = mutex != NULL ? SIMBA_OP_READ : SIMBA_OP_LIST,
        .mutex = mutex,
        .timeout_ms = timeout_ms,
    };
    struct sb_store_answer answer;
    int code;

    if (client == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_status needs a client, ret_list and ret_count");
    code = sb_client_check_question(client, mutex, timeout_ms, error);
    if (code == SIMBA_OK)
        code = sb_client_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    *ret_list = answer.list;
    *ret_count = answer.count;
    return SIMBA_OK;
}

/* ---- Who waits ------------------------------------------------------------------------------- */

static struct simba_waiter *make_waiters(const struct simba_mutex_status *list, size_t count)
{
    struct simba_waiter *waiters = sb_alloc_zero((count + 1) * sizeof *waiters);

    for (size_t i = 0; waiters != NULL && i < count; i++)
        sb_text_copy(waiters[i].id, sizeof waiters[i].id, list[i].owner.id);
    return waiters;
}

int simba_client_queue(simba_client *client, const char *mutex, int64_t timeout_ms,
                       struct simba_waiter **ret_list, size_t *ret_count, struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_QUEUE, .mutex = mutex, .timeout_ms = timeout_ms};
    struct sb_store_answer answer = {.list = NULL};
    struct simba_waiter *waiters;
    int code;

    if (client == NULL || mutex == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_queue needs a client, a mutex, ret_list and ret_count");
    code = sb_client_check_question(client, mutex, timeout_ms, error);
    if (code == SIMBA_OK && sb_engine_has_queue(client->engine))
        code = sb_client_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    waiters = make_waiters(answer.list, answer.count);
    sb_free(answer.list);
    if (waiters == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    *ret_list = waiters;
    *ret_count = answer.count;
    return SIMBA_OK;
}
