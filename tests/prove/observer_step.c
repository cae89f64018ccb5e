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

int main(void)
{
    struct sb_timing timing = prove_any_timing();
    struct sb_observer o = any_state(&timing);
    struct sb_event e = any_event(&o);
    struct sb_observer before = o;
    struct sb_step step;
    int code = sb_observer_step(&o, &e, &step);

    PROVE_THAT(keeps_rules(&o), "every step keeps the rules");
    PROVE_THAT(!step.acquired && !step.released && !step.renewed, "an observer never owns");
    PROVE_THAT(step.request.op == SIMBA_OP_NONE ||
                   (step.request.op == SIMBA_OP_READ && o.in_flight && code == SIMBA_OK &&
                    (!before.in_flight || e.type == SB_EVENT_REPLY)),
               "an observer only reads, once at a time");
    PROVE_THAT(!step.changed || before.status != SIMBA_STOPPING, "a stop tells of no change");
    PROVE_THAT(o.status != SIMBA_INITIAL || step.deadline_ms == SIMBA_INFINITE || code != SIMBA_OK,
               "nothing is planned after a stop");
    PROVE_THAT(!is_active(&o) || o.in_flight || e.type != SB_EVENT_TICK ||
                   step.deadline_ms > e.now_ms,
               "a tick leaves no work for now");
    PROVE_END();
    return 0;
}
