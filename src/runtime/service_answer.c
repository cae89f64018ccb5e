/*
 * service_answer.c - what an answer of the store means to a service: the event for its machine, the
 * error that is kept and logged, the owner's name.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/probe.h"
#include "base/time.h"

#include <string.h>

/* How often a request that keeps failing for the same reason is warned of. */
#define WARN_INTERVAL_MS 60000

static enum sb_answer answer_of(const struct sb_service *s, const struct simba_reply *reply)
{
    if (reply->code == SIMBA_EUNKNOWN)
        return SB_ANSWER_UNKNOWN;
    if (reply->code != SIMBA_OK)
        return SB_ANSWER_FAILED;
    if (reply->owner == NULL || reply->owner[0] == '\0' || reply->transition_left_ms < 0)
        return SB_ANSWER_NOBODY;
    return !sb_service_is_observer(s) && strcmp(reply->owner, s->member.id) == 0 ? SB_ANSWER_MINE
                                                                                 : SB_ANSWER_OTHER;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* What failed, in a word that readers of logs know. A release that names no record leaves the
 * queue. */
static const char *op_name(const struct simba_request *wire)
{
    static const char *const names[] = {"do anything", "acquire", "renew",
                                        "release",     "read",    "list"};

    SB_CHECK(wire->op < sizeof names / sizeof names[0], "a service asks for what has a name");
    return wire->op == SIMBA_OP_RELEASE && wire->revision == 0 ? "leave the queue"
                                                               : names[wire->op];
}

/* One failure is a warning; failing for a whole lease is an error: an owner has lost by then. */
static bool is_away(struct sb_service *s, int64_t now_ms)
{
    const struct sb_timing *timing = sb_service_timing(s);

    SB_CHECK(sb_loop_is_current(s->engine->loop), "failures are noted on the loop thread");
    if (s->failing_since_ms == 0)
        s->failing_since_ms = now_ms;
    return now_ms - s->failing_since_ms >= sb_later(timing->ttl_ms, timing->transition_ms);
}

/* While a store does not serve, an acquire and a look fail in turns, each in its own way. */
static bool is_outage(int code)
{
    return code == SIMBA_EUNKNOWN || simba_error_group(code) == SIMBA_GROUP_UNAVAILABLE;
}

static bool is_other_failure(int before, int code)
{
    return before != code && !(is_outage(before) && is_outage(code));
}

static void keep_error(struct sb_service *s, const struct simba_request *wire,
                       const struct simba_reply *reply)
{
    int64_t now_ms = simba_now_ms();
    bool away = is_away(s, now_ms);
    bool refused = reply->code == SIMBA_EINVAL; /* the name, which no waiting heals */
    enum simba_log_level level = away || refused ? SIMBA_LOG_ERROR : SIMBA_LOG_WARN;
    struct sb_failure *failure;
    bool warn;

    SB_CHECK(reply->code != SIMBA_OK, "an error that is kept is one");
    sb_lock_take(&s->engine->state_lock);
    if (s->failure == NULL)
        s->failure = sb_alloc_zero(sizeof *s->failure);
    failure = s->failure;
    warn = failure == NULL || is_other_failure(failure->error.code, reply->code) ||
           now_ms - failure->warned_at_ms >= WARN_INTERVAL_MS || away != s->away_told;
    s->away_told = away;
    if (failure != NULL) {
        if (warn)
            failure->warned_at_ms = now_ms;
        if (reply->error != NULL)
            failure->error = *reply->error;
        else
            sb_error_plain(&failure->error, reply->code);
        failure->error.code = reply->code;
    }
    sb_lock_release(&s->engine->state_lock);
    sb_log(&s->engine->log, warn ? level : SIMBA_LOG_DEBUG, "mutex '%s': cannot %s%s: %s",
           s->member.mutex, op_name(wire), away ? " for longer than a lease" : "",
           reply->error != NULL ? reply->error->text : simba_strerror(reply->code));
}

/* Only the loop makes one, so that without the lock it can see that there is none. The first
 * failure was warned of; its end is told on the same level, so that it stands in every log that has
 * the warning, unless a stop has asked. */
static void forget_error(struct sb_service *s)
{
    SB_CHECK(sb_loop_is_current(s->engine->loop), "errors are forgotten on the loop thread");
    if (s->failing_since_ms != 0 && simba_status_is_active(atomic_load(&s->handle->view.status)))
        sb_log(&s->engine->log, SIMBA_LOG_WARN, "mutex '%s': the store answers again",
               s->member.mutex);
    s->failing_since_ms = 0;
    s->away_told = false;
    if (s->failure == NULL)
        return;
    sb_lock_take(&s->engine->state_lock);
    s->failure->error.code = SIMBA_OK;
    sb_lock_release(&s->engine->state_lock);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void count_answer(struct sb_service *s, const struct sb_event *e,
                         const struct simba_request *wire)
{
    struct sb_metrics *metrics = &s->engine->metrics;

    if (e->op == SIMBA_OP_GUARD && e->answer == SB_ANSWER_MINE) {
        sb_metrics_count(&metrics->renewals);
        SB_PROBE(renew, s->member.mutex, s->member.id,
                 atomic_load_explicit(&s->handle->view.fence, memory_order_relaxed));
    }
    if (e->op == SIMBA_OP_RELEASE && wire->revision != 0 && e->code == SIMBA_OK &&
        e->answer != SB_ANSWER_MINE && !e->missed)
        sb_metrics_count(&metrics->releases);
}

/* A lease of ours without a revision could be neither fenced nor released: nobody knows what the
 * store has. */
static void refuse_without_revision(const struct sb_service *s, struct simba_reply *reply)
{
    static const struct simba_error error = {
        .code = SIMBA_EUNKNOWN,
        .text = "the store names this contender as the owner and tells no revision"};

    if (answer_of(s, reply) != SB_ANSWER_MINE || reply->revision != 0)
        return;
    reply->code = SIMBA_EUNKNOWN;
    reply->error = &error;
}

/* Makes the name of the owner that is told. Where there is no memory to remember it, it was not
 * told. */
static void take_owner(const struct sb_service *s, enum simba_op op, struct simba_reply *reply,
                       struct sb_name **ret_name)
{
    enum sb_answer answer = answer_of(s, reply);
    bool has_owner = answer == SB_ANSWER_MINE || answer == SB_ANSWER_OTHER;

    if (has_owner && !sb_packed_make_name(&s->packed, reply->owner, ret_name))
        sb_request_drop_owner(op, reply);
}

/* What a queue cannot have fits into what is shown. */
static uint32_t place_of(const struct simba_reply *reply)
{
    return reply->place > 0 && reply->place <= UINT32_MAX ? (uint32_t)reply->place : 0;
}

struct sb_event sb_service_take_answer(struct sb_service *s, const struct sb_request *request,
                                       uint32_t generation, struct simba_reply *told,
                                       struct sb_name **ret_name)
{
    struct sb_event event;

    SB_CHECK(request->wire.mutex == s->member.mutex, "an answer is for the service that asked");
    refuse_without_revision(s, told);
    take_owner(s, request->wire.op, told, ret_name);
    event = (struct sb_event){
        .type = SB_EVENT_REPLY,
        .now_ms = request->answered_at_us / 1000,
        .generation = generation,
        .op = request->wire.op,
        .answer = answer_of(s, told),
        .code = told->code,
        .named = request->wire.fence,
        .sent_at_ms = told->as_of_ms != 0 ? told->as_of_ms : request->sent_at_ms,
        .owner = told->owner,
        .ttl_left_ms = told->ttl_left_ms,
        .transition_left_ms = told->transition_left_ms,
        .revision = told->revision,
        .revision_counts = told->revision_counts,
        .fence = told->fence,
        .place = told->place,
        .missed = told->missed,
        .reserved_left_ms = told->reserved_left_ms,
    };
    SB_CHECK(event.answer != SB_ANSWER_MINE || event.revision != 0,
             "a record of mine has a revision");
    if (request->wire.op == SIMBA_OP_ACQUIRE || request->wire.op == SIMBA_OP_RELEASE)
        atomic_store_explicit(&s->handle->view.place, place_of(told), memory_order_release);
    if (told->code != SIMBA_OK)
        keep_error(s, &request->wire, told);
    else
        forget_error(s);
    count_answer(s, &event, &request->wire);
    return event;
}
