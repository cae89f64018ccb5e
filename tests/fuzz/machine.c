/*
 * machine.c - fuzzes the two machines with what a store may say: any time left, any order of
 * events. A broken store may cost the mutex, but no arithmetic overflows, no rule of a machine
 * breaks, and nobody believes for longer than it was told.
 */
#include "fuzz.h"

#include "core/observer.h"
#include "core/owner.h"

#define EVENTS_MAX 256
#define STEP_MAX_MS (INT64_C(1) << 40)

struct contest {
    struct fuzz_bytes bytes;
    struct sb_timing timing;
    struct sb_machine machine;
    struct sb_observer observer;
    struct sb_event event;
    enum simba_op asked; /* by the contender; SIMBA_OP_NONE: nothing */
    uint32_t generation;
    uint32_t observer_generation;
    bool observer_asked;
    int64_t sent_at_ms;
    uint64_t revision;
};

static int64_t positive(struct fuzz_bytes *bytes, int64_t most)
{
    return (int64_t)((uint64_t)fuzz_number(bytes) % (uint64_t)most);
}

static void read_timing(struct contest *c)
{
    struct sb_timing *t = &c->timing;

    t->ttl_ms = 1 + positive(&c->bytes, INT64_MAX / 4);
    t->transition_ms = 1 + positive(&c->bytes, INT64_MAX / 4);
    t->margin_ms = simba_drift_margin_ms(t->ttl_ms + t->transition_ms);
    t->initial_delay_ms = positive(&c->bytes, INT64_MAX / 4);
    t->jitter_min_ms = -positive(&c->bytes, INT64_MAX / 4);
    t->jitter_max_ms = positive(&c->bytes, INT64_MAX / 4);
    t->stop_timeout_ms = positive(&c->bytes, INT64_MAX);
    t->turn_ms = positive(&c->bytes, INT64_MAX / 4);
    t->read_ms = positive(&c->bytes, INT64_MAX);
}

static void read_reply(struct contest *c)
{
    struct sb_event *e = &c->event;

    e->answer = (enum sb_answer)(fuzz_byte(&c->bytes) % (SB_ANSWER_UNKNOWN + 1));
    e->code = e->answer >= SB_ANSWER_FAILED ? SIMBA_EUNKNOWN : SIMBA_OK;
    e->owner = e->answer == SB_ANSWER_MINE ? "me" : e->answer == SB_ANSWER_OTHER ? "them" : "";
    e->ttl_left_ms = fuzz_number(&c->bytes);
    e->transition_left_ms = fuzz_number(&c->bytes);
    e->revision = c->revision += 1 + fuzz_byte(&c->bytes);
    e->fence = (uint64_t)fuzz_number(&c->bytes);
    e->place = fuzz_number(&c->bytes);
}

static void read_event(struct contest *c)
{
    struct sb_event *e = &c->event;
    int64_t now_ms = sb_later(e->now_ms, positive(&c->bytes, STEP_MAX_MS));

    e->type = (enum sb_event_type)(fuzz_byte(&c->bytes) % (SB_EVENT_SESSION_LOST + 1));
    e->now_ms = now_ms;
    e->returned = 0;
    if (e->type == SB_EVENT_REPLY)
        read_reply(c);
}

static void step_contender(struct contest *c)
{
    struct sb_machine *m = &c->machine;
    struct sb_event e = c->event;
    struct sb_step step;
    int64_t until_ms;

    if (e.type == SB_EVENT_REPLY && c->asked == SIMBA_OP_NONE)
        return;
    if (e.type == SB_EVENT_RETURNED)
        e.returned = m->callbacks;
    e.op = c->asked;
    e.generation = c->generation;
    e.sent_at_ms = c->sent_at_ms;
    if (e.type == SB_EVENT_REPLY)
        c->asked = SIMBA_OP_NONE;
    until_ms = sb_machine_belief_ms(m);
    sb_machine_step(m, &e, &step);
    fuzz_demand(sb_machine_broken_rule(m) == NULL, "no rule of the machine breaks");
    fuzz_demand(sb_machine_belief_ms(m) == 0 || sb_machine_belief_ms(m) == until_ms ||
                    sb_machine_belief_ms(m) <= sb_later(e.sent_at_ms, e.transition_left_ms),
                "a belief lasts no longer than was told");
    fuzz_demand(sb_machine_ttl_ms(m) <= sb_machine_belief_ms(m), "a ttl is part of its belief");
    if (step.request.op != SIMBA_OP_NONE) {
        fuzz_demand(step.request.timeout_ms > 0, "a request has time");
        c->asked = step.request.op;
        c->generation = step.request.generation;
        c->sent_at_ms = e.now_ms;
    }
}

static void step_observer(struct contest *c)
{
    struct sb_observer *o = &c->observer;
    struct sb_event e = c->event;
    struct sb_step step;

    if (e.type == SB_EVENT_REPLY && !c->observer_asked)
        return;
    if (e.type == SB_EVENT_RETURNED)
        e.returned = o->callbacks;
    if (e.answer == SB_ANSWER_MINE)
        e.answer = SB_ANSWER_OTHER;
    e.op = SIMBA_OP_READ;
    e.generation = c->observer_generation;
    if (e.type == SB_EVENT_REPLY)
        c->observer_asked = false;
    sb_observer_step(o, &e, &step);
    if (step.request.op != SIMBA_OP_NONE) {
        c->observer_asked = true;
        c->observer_generation = step.request.generation;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct contest c = {.bytes = {data, size}, .event = {.now_ms = 1, .owner = ""}};

    read_timing(&c);
    sb_machine_init(&c.machine, &c.timing, 1);
    if (c.timing.read_ms % 2 == 0)
        sb_machine_follow(&c.machine);
    sb_observer_init(&c.observer, &c.timing, 1 + positive(&c.bytes, INT64_MAX), 1);
    for (int i = 0; i < EVENTS_MAX && c.bytes.size > 0; i++) {
        read_event(&c);
        step_contender(&c);
        step_observer(&c);
    }
    return 0;
}
