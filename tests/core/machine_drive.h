/*
 * Drives one machine by hand: feeds an event, keeps the step, and checks after every step what must
 * always hold. The driver has one clock, `now_ms`, which the tests set.
 *
 *     sent_at                ttl_at          believed until    transition_at
 *       |------ 1000: ttl -----|------ 574 ---------|---- 26: margin ---|
 */
#ifndef SIMBA_MACHINE_DRIVE_H
#define SIMBA_MACHINE_DRIVE_H

#include "core/machine.h"
#include "test.h"

#define NOW INT64_C(1000000)
#define TTL 1000
#define TRANSITION 600
#define LEASE (TTL + TRANSITION)
#define MARGIN 26
#define STOP_TIMEOUT 5000
#define ME "me"

struct drive {
    struct sb_timing timing;
    struct sb_machine machine;
    struct sb_step step;
    int64_t now_ms;
    int64_t sent_at_ms; /* of the request that the last step with a request asked for */
    enum simba_op op;
    uint32_t generation;
};

static inline struct drive drive_make(void)
{
    struct drive d = {
        .timing =
            {
                .ttl_ms = TTL,
                .transition_ms = TRANSITION,
                .margin_ms = MARGIN,
                .jitter_min_ms = -200,
                .jitter_max_ms = 1000,
                .stop_timeout_ms = STOP_TIMEOUT,
            },
        .now_ms = NOW,
    };

    return d;
}

/* The struct must have reached its place, because the machine points into it. */
static inline void drive_init(struct drive *d)
{
    *d = drive_make();
    sb_machine_init(&d->machine, &d->timing, 42);
}

static inline void drive_check(const struct drive *d)
{
    const struct sb_machine *m = &d->machine;

    assert_null(sb_machine_broken_rule(m));
    if (sb_machine_belief_ms(m) != 0)
        assert_true(d->step.deadline_ms <= m->lease_until_ms);
    if (m->status == SIMBA_STOPPING)
        assert_true(d->step.deadline_ms <= m->stop_at_ms);
    if (m->status == SIMBA_INITIAL)
        assert_int_equal(d->step.deadline_ms, SIMBA_INFINITE);
    else if (m->in_flight == SIMBA_OP_NONE && m->callbacks == 0)
        assert_true(d->step.deadline_ms < SIMBA_INFINITE);
}

static inline int drive_feed(struct drive *d, struct sb_event event)
{
    int code;

    event.now_ms = d->now_ms;
    code = sb_machine_step(&d->machine, &event, &d->step);
    drive_check(d);
    if (d->step.request.op != SIMBA_OP_NONE) {
        d->op = d->step.request.op;
        d->generation = d->step.request.generation;
        d->sent_at_ms = d->now_ms;
    }
    return code;
}

static inline int drive_event(struct drive *d, enum sb_event_type type)
{
    return drive_feed(d, (struct sb_event){.type = type});
}

static inline void drive_tick_at(struct drive *d, int64_t at_ms)
{
    d->now_ms = at_ms;
    drive_event(d, SB_EVENT_TICK);
}

static inline void drive_returned(struct drive *d, unsigned count)
{
    drive_feed(d, (struct sb_event){.type = SB_EVENT_RETURNED, .returned = count});
}

static inline struct sb_event drive_reply(const struct drive *d, enum sb_answer answer)
{
    return (struct sb_event){
        .type = SB_EVENT_REPLY,
        .generation = d->generation,
        .op = d->op,
        .answer = answer,
        .sent_at_ms = d->sent_at_ms,
        .owner = answer == SB_ANSWER_OTHER  ? "other"
                 : answer == SB_ANSWER_MINE ? ME
                                            : "",
    };
}

static inline void drive_mine(struct drive *d, uint64_t revision)
{
    struct sb_event event = drive_reply(d, SB_ANSWER_MINE);

    event.ttl_left_ms = TTL;
    event.transition_left_ms = LEASE;
    event.revision = revision;
    drive_feed(d, event);
}

static inline void drive_other(struct drive *d, int64_t transition_left_ms)
{
    struct sb_event event = drive_reply(d, SB_ANSWER_OTHER);

    event.ttl_left_ms = transition_left_ms - TRANSITION;
    event.transition_left_ms = transition_left_ms;
    event.revision = 77;
    drive_feed(d, event);
}

static inline void drive_nobody(struct drive *d)
{
    drive_feed(d, drive_reply(d, SB_ANSWER_NOBODY));
}

static inline void drive_failed(struct drive *d)
{
    struct sb_event event = drive_reply(d, SB_ANSWER_FAILED);

    event.code = SIMBA_EUNAVAILABLE;
    drive_feed(d, event);
}

static inline void drive_unknown(struct drive *d)
{
    struct sb_event event = drive_reply(d, SB_ANSWER_UNKNOWN);

    event.code = SIMBA_EUNKNOWN;
    drive_feed(d, event);
}

/* Starts, wins with `revision` at once, and the callback returns. */
static inline void drive_to_owner(struct drive *d, uint64_t revision)
{
    drive_init(d);
    assert_int_equal(drive_event(d, SB_EVENT_START), SIMBA_OK);
    assert_int_equal(d->step.request.op, SIMBA_OP_ACQUIRE);
    drive_mine(d, revision);
    assert_true(d->step.acquired);
    drive_returned(d, 1);
}

/* Starts and finds another owner whose lease lasts; the callback returns. */
static inline void drive_to_contender(struct drive *d)
{
    drive_init(d);
    drive_event(d, SB_EVENT_START);
    drive_other(d, LEASE);
    assert_true(d->step.changed);
    drive_returned(d, 1);
}

static inline bool drive_believes(const struct drive *d, int64_t at_ms)
{
    return at_ms < sb_machine_belief_ms(&d->machine);
}

#endif
