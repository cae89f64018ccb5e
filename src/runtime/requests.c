/*
 * requests.c - carries requests to the backend, and answers back. Must not know services.
 *
 * Requests that become due within one turn of the loop leave in one batch. Answers may come on any
 * thread; they are acted upon on the loop thread only.
 */
#include "runtime/requests.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/text.h"
#include "runtime/engine_state.h"
#include "runtime/looks.h"

#include <string.h>

/* ---- Sending --------------------------------------------------------------------------------- */

void sb_request_send(struct sb_engine *engine, struct sb_request *request)
{
    sb_request_send_as_of(engine, request, sb_clock_us());
}

void sb_request_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us)
{
    SB_CHECK(sb_loop_is_current(engine->loop), "requests are sent on the loop thread");
    request->engine = engine;
    request->sent_at_us = now_us;
    request->sent_at_ms = now_us / 1000;
    request->round = sb_starts_count_request(&engine->starts);
    request->wire.next = NULL;
    *engine->batch_end = &request->wire;
    engine->batch_end = &request->wire.next;
    sb_engine_pending_add(engine);
}

/* The end of a turn. Answers that come from within submit may bring new requests. */
void sb_requests_flush(void *argument)
{
    struct sb_engine *engine = argument;

    while (engine->batch != NULL) {
        struct simba_request *batch = engine->batch;

        SB_CHECK(engine->backend != NULL, "requests are sent when the engine is complete");
        engine->batch = NULL;
        engine->batch_end = &engine->batch;
        sb_looks_end_turn(engine->looks);
        engine->ops->submit(engine->backend, batch);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer(struct sb_request *request, const struct simba_reply *reply)
{
    struct sb_engine *engine = request->engine;
    struct sb_request *sharer = request->sharers; /* the request is gone once it is answered */
    struct sb_look *look = request->look;
    int64_t now_us = sb_clock_us();

    SB_CHECK(sb_loop_is_current(engine->loop), "answers are acted upon on the loop thread");
    request->answered_at_us = now_us;
    sb_metrics_observe(&engine->metrics.operation, request->answered_at_us - request->sent_at_us);
    if (reply->code != SIMBA_OK)
        sb_metrics_count(&engine->metrics.errors);
    sb_starts_count_answer(&engine->starts, request->round);
    request->answered(request, reply);
    while (sharer != NULL) {
        struct sb_request *next = sharer->sharers;

        sharer->answered_at_us = now_us;
        sharer->answered(sharer, reply);
        sharer = next;
    }
    if (look != NULL)
        sb_looks_end(look);
    sb_starts_go_on(&engine->starts);
    sb_engine_pending_remove(engine);
}

static void run_answer(struct simba_task *task)
{
    struct sb_request *request = SB_CONTAINER(struct sb_request, task, task);
    struct simba_reply reply = request->reply; /* the request is gone once it is answered */
    bool is_own = reply.owner == request->wire.id;

    answer(request, &reply);
    if (!is_own)
        sb_free((void *)reply.owner);
    sb_free((void *)reply.list);
    sb_free((void *)reply.error);
}

static void *copy_of(const void *bytes, size_t size)
{
    void *copy = sb_alloc(size);

    if (copy != NULL)
        memcpy(copy, bytes, size);
    return copy;
}

void sb_request_drop_owner(enum simba_op op, struct simba_reply *reply)
{
    reply->owner = NULL;
    if (op != SIMBA_OP_GUARD && op != SIMBA_OP_RELEASE)
        reply->code = SIMBA_ENOMEM;
}

/* A contender that owns needs no memory for its own name: a renewal gets through when there is
 * none. */
static void keep_owner(struct sb_request *request, const char *owner)
{
    const char *id = request->wire.id;
    char *copy;

    if (id != NULL && strcmp(owner, id) == 0) {
        request->reply.owner = id;
        return;
    }
    copy = sb_alloc(SIMBA_ID_MAX + 1);
    if (copy == NULL) {
        sb_request_drop_owner(request->wire.op, &request->reply);
        return;
    }
    sb_text_copy(copy, SIMBA_ID_MAX + 1, owner);
    request->reply.owner = copy;
}

static void keep_list(struct sb_request *request, const struct simba_reply *reply)
{
    request->reply.list = copy_of(reply->list, reply->list_count * sizeof *reply->list);
    if (request->reply.list == NULL) {
        request->reply.list_count = 0;
        request->reply.code = SIMBA_ENOMEM;
    }
}

/* Keeps what the answer points to, because the backend's memory is its own again when reply
 * returns. */
static void keep_answer(struct sb_request *request, const struct simba_reply *reply)
{
    request->reply = *reply;
    request->reply.owner = NULL;
    request->reply.list = NULL;
    request->reply.error = NULL;
    if (reply->owner != NULL && reply->owner[0] != '\0')
        keep_owner(request, reply->owner);
    if (reply->list_count > 0)
        keep_list(request, reply);
    if (reply->error != NULL) /* without memory the code has to do */
        request->reply.error = copy_of(reply->error, sizeof *reply->error);
}

void sb_requests_reply(const struct simba_backend_host *host, struct simba_request *wire,
                       const struct simba_reply *reply)
{
    struct sb_request *request = (struct sb_request *)wire;
    struct sb_engine *engine = sb_engine_of_host(host);

    if (sb_loop_is_current(engine->loop)) {
        answer(request, reply);
        return;
    }
    keep_answer(request, reply);
    request->task.run = run_answer;
    sb_loop_post(engine->loop, &request->task);
}
