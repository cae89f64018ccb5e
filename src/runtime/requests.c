/*
 * requests.c - carries requests to the backend, and answers back; lets starts wait while many
 * requests are under way. Must not know services.
 *
 * Requests that become due within one turn of the loop leave in one batch. Answers may come on any
 * thread; they are acted upon on the loop thread only.
 */
#include "runtime/requests.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/probe.h"
#include "base/time.h"
#include "base/text.h"
#include "runtime/engine_state.h"
#include "runtime/shared_reads.h"

#include <string.h>

#define BUSY_FROM 4096 /* requests under way: twice what a Redis connection takes at once */
#define ROUND_MS 1000  /* without a start that begins, and what is under way counts no more */

/* ---- Starts ---------------------------------------------------------------------------------- */

bool sb_starts_are_held_up(const struct sb_starts *starts)
{
    return starts->under_way >= BUSY_FROM;
}

void sb_starts_add(struct sb_starts *starts, struct sb_start *start)
{
    SB_CHECK(sb_loop_is_current(starts->loop), "starts wait on the loop thread");
    SB_CHECK(!start->is_queued, "a start is in the queue once");
    start->is_queued = true;
    start->next = NULL;
    if (starts->last != NULL)
        starts->last->next = start;
    else
        starts->first = start;
    starts->last = start;
    SB_CHECK(starts->first != NULL && starts->last->next == NULL, "a queue has a first and a last");
    if (starts->first == start) {
        starts->has_moved = false;
        sb_loop_arm(starts->loop, &starts->timer, simba_now_ms() + ROUND_MS);
    }
}

static struct sb_start *take_first(struct sb_starts *starts)
{
    struct sb_start *start = starts->first;

    SB_CHECK(start->is_queued, "what is in the queue of starts knows it");
    starts->first = start->next;
    if (starts->first == NULL) {
        starts->last = NULL;
        sb_loop_cancel(starts->loop, &starts->timer);
    }
    start->is_queued = false;
    return start;
}

void sb_starts_begin_next(struct sb_starts *starts)
{
    SB_CHECK(sb_loop_is_current(starts->loop), "starts begin on the loop thread");
    while (starts->first != NULL && (!starts->first->waits || !sb_starts_are_held_up(starts))) {
        starts->has_moved = true;
        starts->begin(take_first(starts));
    }
}

static void on_timer(struct sb_timer *timer)
{
    struct sb_starts *starts = SB_CONTAINER(struct sb_starts, timer, timer);

    SB_CHECK(starts->first != NULL, "the timer of starts runs while one waits");
    if (!starts->has_moved) {
        starts->round++;
        starts->under_way = 0;
        sb_starts_begin_next(starts);
    }
    starts->has_moved = false;
    if (starts->first != NULL)
        sb_loop_arm(starts->loop, timer, simba_now_ms() + ROUND_MS);
}

void sb_starts_init(struct sb_starts *starts, struct sb_loop *loop,
                    void (*begin)(struct sb_start *start))
{
    SB_CHECK(begin != NULL, "a start that leaves the queue can begin");
    starts->loop = loop;
    starts->begin = begin;
    starts->timer.fire = on_timer;
}

/* Counts a request that is sent, and returns its round. */
static unsigned count_request(struct sb_starts *starts)
{
    starts->under_way++;
    return starts->round;
}

static void count_answer(struct sb_starts *starts, unsigned round)
{
    SB_CHECK(round <= starts->round, "a request counts in the round in which it was sent");
    if (round != starts->round)
        return;
    SB_CHECK(starts->under_way > 0, "a request of this round is answered once");
    starts->under_way--;
}

/* ---- Sending --------------------------------------------------------------------------------- */

void sb_request_send(struct sb_engine *engine, struct sb_request *request)
{
    sb_request_send_as_of(engine, request, sb_clock_us());
}

void sb_request_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us)
{
    SB_CHECK(sb_loop_is_current(engine->loop), "requests are sent on the loop thread");
    SB_CHECK(request->answered != NULL && request->engine == NULL, "a request is sent once");
    request->engine = engine;
    request->sent_at_us = now_us;
    request->sent_at_ms = now_us / 1000;
    request->round = count_request(&engine->starts);
    request->wire.next = NULL;
    SB_PROBE(request__sent, request->wire.mutex, request->wire.id, request->wire.fence,
             sb_metrics_ops[request->wire.op]);
    SB_CHECK(*engine->batch_end == NULL, "a batch ends where the next request goes");
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
        SB_CHECK(sb_loop_is_current(engine->loop), "requests leave on the loop thread");
        engine->batch = NULL;
        engine->batch_end = &engine->batch;
        sb_reads_end_turn(engine->reads);
        sb_loop_set_clock(engine->loop); /* the backend may wait until the loop has to do */
        engine->ops->submit(engine->backend, batch);
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer(struct sb_request *request, const struct simba_reply *reply)
{
    struct sb_engine *engine = request->engine;
    struct sb_request *sharer = request->sharers; /* the request is gone once it is answered */
    struct sb_mutex_reads *shared = request->shared;
    int64_t now_us = sb_clock_us();

    SB_CHECK(sb_loop_is_current(engine->loop), "answers are acted upon on the loop thread");
    SB_CHECK(request->answered_at_us == 0, "a request is answered once");
    request->answered_at_us = now_us;
    sb_metrics_answer(&engine->metrics, request->wire.op, reply->code, request->sent_at_us, now_us);
    SB_PROBE(request__answered, request->wire.mutex, request->wire.id, reply->fence,
             sb_metrics_ops[request->wire.op], reply->code, now_us - request->sent_at_us);
    count_answer(&engine->starts, request->round);
    request->answered(request, reply);
    while (sharer != NULL) {
        struct sb_request *next = sharer->sharers;

        SB_CHECK(sharer->answered_at_us == 0, "a request is answered once");
        sharer->answered_at_us = now_us;
        sharer->answered(sharer, reply);
        sharer = next;
    }
    if (shared != NULL)
        sb_reads_end(shared);
    sb_starts_begin_next(&engine->starts);
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
    sb_free((void *)reply.property);
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

static void keep_property(struct sb_request *request, const struct simba_reply *reply)
{
    request->reply.property = copy_of(reply->property, sizeof *reply->property);
    if (request->reply.property == NULL)
        request->reply.code = SIMBA_ENOMEM;
}

/* Keeps what the answer points to, because the backend's memory is its own again when reply
 * returns. */
static void keep_answer(struct sb_request *request, const struct simba_reply *reply)
{
    SB_CHECK(request->answered_at_us == 0, "a request is answered once");
    request->reply = *reply;
    request->reply.owner = NULL;
    request->reply.list = NULL;
    request->reply.error = NULL;
    request->reply.property = NULL;
    if (reply->owner != NULL && reply->owner[0] != '\0')
        keep_owner(request, reply->owner);
    if (reply->list_count > 0)
        keep_list(request, reply);
    if (reply->property != NULL)
        keep_property(request, reply);
    if (reply->error != NULL) /* without memory the code has to do */
        request->reply.error = copy_of(reply->error, sizeof *reply->error);
}

void sb_requests_reply(const struct simba_backend_host *host, struct simba_request *wire,
                       const struct simba_reply *reply)
{
    struct sb_request *request = (struct sb_request *)wire;
    struct sb_engine *engine = sb_engine_of_host(host);

    SB_CHECK(request->engine == engine, "an answer comes to the engine that has asked");
    if (sb_loop_is_current(engine->loop)) {
        answer(request, reply);
        return;
    }
    keep_answer(request, reply);
    request->task.run = run_answer;
    sb_loop_post(engine->loop, &request->task);
}
