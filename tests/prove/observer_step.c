/*
 * observer_step.c - one step of the observer's machine, from every state that keeps its rules.
 */
#include "prove.h"

#include "core/observer.h"

#define POLL_MAX_MS 60000

static bool is_active(const struct sb_observer *o)
{
    return o->status == SIMBA_STARTING || o->status == SIMBA_RUNNING;
}

static bool keeps_rules(const struct sb_observer *o)
{
    return (o->status != SIMBA_INITIAL || !o->in_flight) &&
           (o->status == SIMBA_INITIAL || o->generation != 0);
}

static struct sb_observer any_state(const struct sb_timing *timing)
{
    struct sb_observer o;

    o.timing = timing;
    o.poll_ms = prove_between(1, POLL_MAX_MS);
    o.status = (enum simba_status)prove_between(SIMBA_INITIAL, SIMBA_STOPPING);
    o.in_flight = prove_any_bool();
    o.woken = prove_any_bool();
    o.generation = (uint32_t)prove_between(0, INT32_MAX - 1);
    o.callbacks = (unsigned)prove_between(0, 2);
    o.reads_while_free = nondet_unsigned();
    o.last_code = nondet_int();
    o.read_at_ms = nondet_int64();
    o.stop_at_ms = nondet_int64();
    o.random = nondet_uint64();
    o.owner = prove_any_owner();
    PROVE_GIVEN(keeps_rules(&o));
    return o;
}

static struct sb_event any_event(const struct sb_observer *o)
{
    struct sb_event e;
    bool answered;

    e.type = (enum sb_event_type)prove_between(SB_EVENT_START, SB_EVENT_SESSION_LOST);
    e.now_ms = prove_between(0, PROVE_NOW_MAX_MS);
    e.returned = nondet_unsigned();
    PROVE_GIVEN(e.type != SB_EVENT_RETURNED || e.returned <= o->callbacks);
    e.op = SIMBA_OP_READ;
    e.answer = (enum sb_answer)prove_between(SB_ANSWER_OTHER, SB_ANSWER_UNKNOWN);
    answered = e.answer == SB_ANSWER_OTHER || e.answer == SB_ANSWER_NOBODY;
    e.generation = nondet_uint32();
    PROVE_GIVEN((int32_t)(o->generation - e.generation) >= 0);
    e.code = answered ? SIMBA_OK : SIMBA_EUNKNOWN;
    e.owner = prove_any_bool() ? "a" : "b";
    e.ttl_left_ms = nondet_int64();
    e.transition_left_ms = nondet_int64();
    e.fence = nondet_uint64();
    return e;
}

/* ---- The contract ---------------------------------------------------------------------------- */

static bool is_same_owner(const struct simba_owner *a, const struct simba_owner *b)
{
    return a->id[0] == b->id[0] && a->fence == b->fence;
}

static void check_refusal(const struct sb_observer *before, const struct sb_observer *o,
                          const struct sb_step *step)
{
    PROVE_THAT(!step->changed && !step->stopped && step->request.op == SIMBA_OP_NONE &&
                   o->status == before->status && o->in_flight == before->in_flight &&
                   o->woken == before->woken && o->generation == before->generation &&
                   o->callbacks == before->callbacks && o->read_at_ms == before->read_at_ms &&
                   o->stop_at_ms == before->stop_at_ms && is_same_owner(&o->owner, &before->owner),
               "a call that does not fit changes nothing");
}

/* An answer in time that names the owner, or nobody, is what an observer tells, and all of it. */
static void check_change(const struct sb_observer *before, const struct sb_observer *o,
                         const struct sb_event *e, bool in_time, const struct sb_step *step)
{
    bool learns = in_time && is_active(before) && e->code == SIMBA_OK;
    bool owned = e->answer == SB_ANSWER_OTHER && e->transition_left_ms >= 0;

    PROVE_THAT(!learns || (o->owner.id[0] == (owned ? e->owner[0] : '\0') &&
                           o->owner.fence == (owned ? e->fence : 0)),
               "the owner is the one that the last answer names, or nobody");
    PROVE_THAT(step->changed == (learns && !is_same_owner(&before->owner, &o->owner)),
               "each change that an answer tells of is told, once");
    PROVE_THAT(!step->changed || (is_same_owner(&step->state.before, &before->owner) &&
                                  is_same_owner(&step->state.after, &o->owner)),
               "a change is told from the last owner to the next");
}

static void check_stop(const struct sb_observer *before, const struct sb_observer *o,
                       const struct sb_event *e, const struct sb_step *step)
{
    PROVE_THAT(step->stopped == (before->status != SIMBA_INITIAL && o->status == SIMBA_INITIAL),
               "the end of each stop is told, once");
    PROVE_THAT(!step->stopped || o->callbacks == 0 || e->now_ms >= o->stop_at_ms,
               "a stop waits for the callbacks, or for its bound");
    PROVE_THAT(!step->stopped || (step->stop_code == SIMBA_OK) == (o->callbacks == 0),
               "a stop that did not wait for the callbacks says so");
    PROVE_THAT(e->type != SB_EVENT_STOP || o->stop_at_ms <= e->now_ms + o->timing->stop_timeout_ms,
               "a stop begins with its bound");
    PROVE_THAT(before->status != SIMBA_STOPPING || o->stop_at_ms == before->stop_at_ms,
               "a stop keeps its bound");
    PROVE_THAT(o->status != SIMBA_STOPPING || step->deadline_ms <= o->stop_at_ms,
               "the next tick comes when the stop gives up, or before");
}

static void check_reading(const struct sb_observer *before, const struct sb_observer *o,
                          const struct sb_event *e, bool in_time, const struct sb_step *step)
{
    PROVE_THAT(o->generation == before->generation + (e->type == SB_EVENT_START),
               "a start begins a generation, and nothing else does");
    PROVE_THAT(!step->acquired && !step->released && !step->renewed, "an observer never owns");
    PROVE_THAT(step->request.op == SIMBA_OP_NONE ||
                   (step->request.op == SIMBA_OP_READ && o->in_flight &&
                    step->request.generation == o->generation && (!before->in_flight || in_time)),
               "an observer only reads, once at a time");
    PROVE_THAT(o->status != SIMBA_INITIAL || step->deadline_ms == SIMBA_INFINITE,
               "nothing is planned after a stop");
    PROVE_THAT(!is_active(o) || o->in_flight || e->type != SB_EVENT_TICK ||
                   step->deadline_ms > e->now_ms,
               "a tick leaves no work for now");
    PROVE_THAT(!is_active(o) || o->in_flight || !in_time ||
                   step->deadline_ms <= e->now_ms + o->poll_ms,
               "an observer reads again within its interval");
}

int main(void)
{
    struct sb_timing timing = prove_any_timing();
    struct sb_observer o = any_state(&timing);
    struct sb_event e = any_event(&o);
    struct sb_observer before = o;
    struct sb_step step;
    int code = sb_observer_step(&o, &e, &step);
    bool in_time =
        e.type == SB_EVENT_REPLY && before.in_flight && e.generation == before.generation;

    PROVE_THAT(keeps_rules(&o), "every step keeps the rules");
    if (code == SIMBA_OK) {
        check_reading(&before, &o, &e, in_time, &step);
        check_change(&before, &o, &e, in_time, &step);
        check_stop(&before, &o, &e, &step);
    } else {
        check_refusal(&before, &o, &step);
    }
    PROVE_END();
    return 0;
}
