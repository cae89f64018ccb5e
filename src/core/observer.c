/*
 * observer.c - when to read the owner, and what counts as a change.
 *
 * An observer reads when a notice says that the owner changed, when the lease that it knows of
 * ends, and otherwise once per poll interval, because a notice may be lost. Some stores tell of a
 * release and not of the acquire that follows: so it reads some times soon after a release.
 */
#include "core/observer.h"

#include "base/check.h"
#include "base/random.h"
#include "core/owner.h"

#include <string.h>

#define RETRY_MAX_MS 1000
#define FREE_MS 20    /* from a release to the next READ, and four times as long to each next one */
#define FREE_READS 3U /* of those */

static const struct simba_owner nobody = SIMBA_OWNER_NONE;

static void set_status(struct sb_observer *o, enum simba_status status)
{
    SB_CHECK(sb_status_may_move(o->status, status), "a status moves as the table says");
    o->status = status;
}

void sb_observer_init(struct sb_observer *o, const struct sb_timing *timing, int64_t poll_ms,
                      uint64_t seed)
{
    SB_CHECK(poll_ms > 0, "an observer that polls rests between two READs");
    SB_CHECK(timing->ttl_ms > 0 && timing->stop_timeout_ms >= 0, "no time to wait is negative");
    memset(o, 0, sizeof *o);
    o->timing = timing;
    o->poll_ms = poll_ms;
    o->random = seed;
    o->reads_while_free = FREE_READS;
    o->status = SIMBA_INITIAL;
}

static struct simba_owner owner_of(const struct sb_observer *o, const struct sb_event *e)
{
    SB_CHECK(e->answer != SB_ANSWER_MINE, "an observer never owns");
    if (e->answer == SB_ANSWER_NOBODY || e->transition_left_ms < 0)
        return nobody;
    return sb_owner_in_time_left(e->owner, e->now_ms, e->ttl_left_ms, e->transition_left_ms,
                                 o->timing->ttl_ms, e->fence);
}

/* The same owner in a new term is a change too, where the store knows the terms. */
static void set_owner(struct sb_observer *o, const struct simba_owner *owner, struct sb_step *step)
{
    SB_CHECK(!step->changed, "an answer brings one change");
    SB_CHECK(owner->id[0] != '\0' || owner->fence == 0, "nobody has no token");
    if (strcmp(o->owner.id, owner->id) != 0 || o->owner.fence != owner->fence) {
        step->changed = true;
        step->state.before = o->owner;
        step->state.after = *owner;
        o->callbacks++;
        o->reads_while_free = 0;
    }
    o->owner = *owner;
}

static void read_later(struct sb_observer *o, int64_t now_ms)
{
    int64_t at_ms = sb_later(now_ms, o->poll_ms);

    if (o->owner.id[0] == '\0' && o->reads_while_free < FREE_READS) {
        at_ms = sb_earlier(at_ms, sb_later(now_ms, FREE_MS << (2 * o->reads_while_free)));
        o->reads_while_free++;
    }
    if (o->owner.transition_at_ms > now_ms)
        at_ms = sb_earlier(at_ms, sb_earlier(o->owner.transition_at_ms, SIMBA_INFINITE - 1) + 1);
    SB_CHECK(at_ms > now_ms, "an observer that has read waits");
    o->read_at_ms = at_ms;
}

static void on_reply(struct sb_observer *o, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner owner;

    SB_CHECK(e->op == SIMBA_OP_READ, "an observer only reads");
    SB_CHECK((int32_t)(o->generation - e->generation) >= 0, "no answer is of a later generation");
    if (e->generation != o->generation || !o->in_flight)
        return;
    o->in_flight = false;
    if (o->status == SIMBA_STOPPING)
        return;
    if (e->answer == SB_ANSWER_FAILED || e->answer == SB_ANSWER_UNKNOWN) {
        int64_t most = sb_earlier(o->poll_ms, RETRY_MAX_MS);

        o->last_code = e->code;
        o->read_at_ms =
            sb_later(e->now_ms, sb_random_between(sb_random_next(&o->random), most / 2, most));
        return;
    }
    o->last_code = SIMBA_OK;
    if (o->status == SIMBA_STARTING)
        set_status(o, SIMBA_RUNNING);
    owner = owner_of(o, e);
    set_owner(o, &owner, step);
    read_later(o, e->now_ms);
    if (o->woken)
        o->read_at_ms = e->now_ms;
}

static void on_start(struct sb_observer *o, int64_t now_ms)
{
    SB_CHECK(!o->in_flight, "a start finds nothing of the last one");
    set_status(o, SIMBA_STARTING);
    o->generation++;
    o->last_code = SIMBA_OK;
    o->owner = nobody;
    o->read_at_ms = now_ms;
}

static void read_soon(struct sb_observer *o, int64_t now_ms)
{
    if (o->in_flight)
        o->woken = true;
    else
        o->read_at_ms = sb_earlier(o->read_at_ms, now_ms);
}

static void take_in(struct sb_observer *o, const struct sb_event *e, struct sb_step *step)
{
    switch (e->type) {
    case SB_EVENT_START:
        on_start(o, e->now_ms);
        break;
    case SB_EVENT_STOP:
        set_status(o, SIMBA_STOPPING);
        o->stop_at_ms = sb_later(e->now_ms, o->timing->stop_timeout_ms);
        break;
    case SB_EVENT_REPLY:
        on_reply(o, e, step);
        break;
    case SB_EVENT_WAKE:
    case SB_EVENT_CHANGED:
    case SB_EVENT_SESSION_LOST:
        read_soon(o, e->now_ms);
        break;
    case SB_EVENT_RETURNED:
        SB_CHECK(e->returned <= o->callbacks, "only callbacks that were asked for return");
        o->callbacks -= e->returned;
        break;
    case SB_EVENT_RESERVED:
    case SB_EVENT_STANDBY:
    case SB_EVENT_TICK:
        break;
    }
}

static void plan(struct sb_observer *o, int64_t now_ms, struct sb_step *step)
{
    if (o->status == SIMBA_STOPPING && (o->callbacks == 0 || now_ms >= o->stop_at_ms)) {
        set_status(o, SIMBA_INITIAL);
        o->in_flight = false;
        SB_CHECK(!step->changed, "a stop tells of no change");
        step->stopped = true;
        step->stop_code = o->callbacks == 0 ? SIMBA_OK : SIMBA_ETIMEDOUT;
    }
    if (simba_status_is_active(o->status) && !o->in_flight && o->read_at_ms <= now_ms) {
        o->in_flight = true;
        o->woken = false;
        step->request.op = SIMBA_OP_READ;
        step->request.generation = o->generation;
        step->request.timeout_ms = o->timing->ttl_ms;
        step->request.shared = true;
    }
}

static int64_t deadline(const struct sb_observer *o)
{
    if (o->status == SIMBA_STOPPING)
        return o->stop_at_ms;
    return simba_status_is_active(o->status) && !o->in_flight ? o->read_at_ms : SIMBA_INFINITE;
}

int sb_observer_step(struct sb_observer *o, const struct sb_event *e, struct sb_step *step)
{
    memset(step, 0, sizeof *step);
    if ((e->type == SB_EVENT_START && !sb_status_may_move(o->status, SIMBA_STARTING)) ||
        (e->type == SB_EVENT_STOP && !sb_status_may_move(o->status, SIMBA_STOPPING))) {
        step->deadline_ms = deadline(o);
        return SIMBA_ESTATE;
    }
    take_in(o, e, step);
    plan(o, e->now_ms, step);
    step->deadline_ms = deadline(o);
    SB_CHECK(!(step->stopped && step->request.op != SIMBA_OP_NONE), "a stop sends nothing");
    SB_CHECK(!step->acquired && !step->released && !step->renewed, "an observer never owns");
    SB_CHECK(o->status != SIMBA_INITIAL || !o->in_flight, "a stopped observer waits for nothing");
    SB_CHECK(!o->in_flight || o->generation != 0, "what is awaited was asked for after a start");
    return SIMBA_OK;
}
