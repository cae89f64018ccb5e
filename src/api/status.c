/*
 * status.c - asks the store something, once, and waits for the answer: owners, waiters, and the
 * forced release of a mutex.
 */
#include "api/client.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "core/owner.h"

#include <string.h>

#define RELEASES_MAX 5 /* attempts of a forced release, against an owner that renews meanwhile */

/* ---- One request and its answer -------------------------------------------------------------- */

struct answer {
    struct simba_mutex_status *list; /* one entry, unless all mutexes or waiters were asked for */
    size_t count;
    uint64_t revision; /* of the record, if one mutex was asked for */
};

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
    struct answer answer;
};

static void free_question(struct question *q)
{
    sb_free(q->answer.list);
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
    if (reply->owner != NULL && reply->owner[0] != '\0' && reply->transition_left_ms >= 0)
        one->owner = sb_owner_in_time_left(reply->owner, simba_now_ms(), reply->ttl_left_ms,
                                           reply->transition_left_ms,
                                           sb_engine_timing(q->engine)->ttl_ms, reply->fence);
    q->answer = (struct answer){one, 1, reply->revision};
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
    q->answer = (struct answer){list, reply->list_count, 0};
    return SIMBA_OK;
}

static void copy_reply(struct question *q, const struct simba_reply *reply)
{
    enum simba_op op = q->base.wire.op;

    q->code = reply->code;
    if (q->code == SIMBA_OK)
        q->code =
            op == SIMBA_OP_LIST || op == SIMBA_OP_QUEUE ? copy_list(q, reply) : copy_one(q, reply);
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

    sb_request_send(q->engine, &q->base);
}

static bool is_answered(void *argument)
{
    return ((struct question *)argument)->answered;
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

/* Sends the request and waits at most wire->timeout_ms. Copies the strings of `wire`. The caller
 * frees the list of the answer. */
static int ask(simba_client *client, const struct simba_request *wire, struct answer *ret_answer,
               struct simba_error *error)
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
    answered = sb_engine_wait_locked(engine, is_answered, q, until_ms, NULL);
    q->abandoned = !answered;
    sb_engine_unlock(engine);
    if (!answered) /* the request under way frees it */
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "the store did not answer within %lld ms",
                            (long long)wire->timeout_ms);
    code = q->code;
    if (code == SIMBA_OK) {
        *ret_answer = q->answer;
        q->answer.list = NULL;
    } else if (error != NULL) {
        *error = q->error;
    }
    free_question(q);
    return code;
}

/* Whether the client, the name (NULL: all) and the time-out allow a question. */
static int check_question(simba_client *client, const char *mutex, int64_t timeout_ms,
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

/* ---- Status and queue ------------------------------------------------------------------------ */

int simba_client_status(simba_client *client, const char *mutex, int64_t timeout_ms,
                        struct simba_mutex_status **ret_list, size_t *ret_count,
                        struct simba_error *error)
{
    const struct simba_request wire = {
        .op = mutex != NULL ? SIMBA_OP_READ : SIMBA_OP_LIST,
        .mutex = mutex,
        .timeout_ms = timeout_ms,
    };
    struct answer answer;
    int code;

    if (client == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_status needs a client, ret_list and ret_count");
    code = check_question(client, mutex, timeout_ms, error);
    if (code == SIMBA_OK)
        code = ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    *ret_list = answer.list;
    *ret_count = answer.count;
    return SIMBA_OK;
}

int simba_client_queue(simba_client *client, const char *mutex, int64_t timeout_ms,
                       struct simba_waiter **ret_list, size_t *ret_count, struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_QUEUE, .mutex = mutex, .timeout_ms = timeout_ms};
    struct answer answer = {.list = NULL};
    struct simba_waiter *waiters;
    int code;

    if (client == NULL || mutex == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_queue needs a client, a mutex, ret_list and ret_count");
    code = check_question(client, mutex, timeout_ms, error);
    if (code == SIMBA_OK && !sb_engine_has_queue(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED, "this store keeps no queue of waiters");
    if (code == SIMBA_OK)
        code = ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    waiters = sb_alloc_zero((answer.count + 1) * sizeof *waiters);
    for (size_t i = 0; waiters != NULL && i < answer.count; i++) {
        sb_text_copy(waiters[i].id, sizeof waiters[i].id, answer.list[i].owner.id);
        waiters[i].since_ms = answer.list[i].owner.acquired_at_ms;
    }
    sb_free(answer.list);
    if (waiters == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    *ret_list = waiters;
    *ret_count = answer.count;
    return SIMBA_OK;
}

/* ---- Forced release -------------------------------------------------------------------------- */

/*
 * The release that the owner itself would send: for its id and the revision of its record. So it
 * ends the term that was seen and no other.
 *
 *     read: owner A, revision 7 --> release A, 7 --> nobody owns, the next waiter is woken
 *                                   A has renewed meanwhile (revision 8): read again
 *                                   B owns by now: nothing is taken
 */
struct target {
    simba_client *client;
    const char *mutex;
    int64_t until_ms;
    struct simba_owner owner; /* as the store told it last; an empty id: nobody */
    uint64_t revision;
};

/* Sends a READ, or the RELEASE of the owner that was seen, and takes over the answer. A record that
 * another library has written may have no revision; for it any number but 0 will do. */
static int ask_owner(struct target *t, enum simba_op op, struct simba_error *error)
{
    int64_t left_ms = t->until_ms - simba_now_ms();
    struct simba_request wire = {
        .op = op, .mutex = t->mutex, .timeout_ms = left_ms > 0 ? left_ms : 0};
    struct answer answer = {.list = NULL};
    int code;

    if (op == SIMBA_OP_RELEASE) {
        wire.id = t->owner.id;
        wire.revision = t->revision > 0 ? t->revision : 1;
    }
    code = ask(t->client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    SB_CHECK(answer.count == 1, "a question about one mutex has one answer");
    t->owner = answer.list[0].owner;
    t->revision = answer.revision;
    sb_free(answer.list);
    return SIMBA_OK;
}

static bool is_same_term(const struct simba_owner *one, const struct simba_owner *other)
{
    if (strcmp(one->id, other->id) != 0)
        return false;
    return one->fence == other->fence || one->fence == 0 || other->fence == 0;
}

/* One attempt. The answer tells who owns after the release; but a store that knows only its own
 * contenders may say that nobody does, so the store is read once more. */
static int take_once(struct target *t, const struct simba_owner *owner, bool *ret_taken,
                     struct simba_error *error)
{
    uint64_t tried = t->revision;
    bool taken;
    int code = ask_owner(t, SIMBA_OP_RELEASE, error);

    if (code != SIMBA_OK)
        return code;
    taken = t->owner.id[0] == '\0';
    code = ask_owner(t, SIMBA_OP_READ, error);
    if (code != SIMBA_OK)
        return code;
    if (strcmp(t->owner.id, owner->id) == 0 && t->revision == tried)
        return sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "the store lets nobody but the owner release '%s'", t->mutex);
    if (!taken && t->owner.id[0] == '\0')
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "the owner of '%s' let go by itself; nothing was taken", t->mutex);
    if (!taken && !is_same_term(&t->owner, owner))
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "'%s' is owned by %s by now, from whom nothing was taken", t->mutex,
                            t->owner.id);
    *ret_taken = taken;
    return SIMBA_OK;
}

int simba_client_force_release(simba_client *client, const char *mutex, int64_t timeout_ms,
                               struct simba_owner *ret_owner, struct simba_error *error)
{
    struct target t = {.client = client, .mutex = mutex};
    struct simba_owner owner;
    bool taken;
    int code;

    if (client == NULL || mutex == NULL || ret_owner == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_force_release needs a client, a mutex and ret_owner");
    code = check_question(client, mutex, timeout_ms, error);
    if (code != SIMBA_OK)
        return code;
    t.until_ms = sb_later(simba_now_ms(), timeout_ms);
    code = ask_owner(&t, SIMBA_OP_READ, error);
    if (code != SIMBA_OK)
        return code;
    owner = t.owner;
    taken = owner.id[0] == '\0';
    for (int i = 0; i < RELEASES_MAX && !taken; i++) {
        code = take_once(&t, &owner, &taken, error);
        if (code != SIMBA_OK)
            return code;
    }
    if (!taken)
        return sb_error_set(error, SIMBA_ECONTENDED, "%s renewed '%s' whenever it was being taken",
                            owner.id, mutex);
    *ret_owner = owner;
    return SIMBA_OK;
}
