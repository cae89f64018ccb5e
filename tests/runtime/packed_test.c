/*
 * A machine that is packed between its steps goes on as one that is not.
 */
#include "base/random.h"
#include "runtime/packed.h"
#include "test.h"

#include <string.h>

#define STEPS 20000
#define OWN "me"

static const struct sb_timing timing = {
    .ttl_ms = 1000,
    .transition_ms = 600,
    .margin_ms = 20,
    .jitter_max_ms = 100,
    .stop_timeout_ms = 500,
};

static const char *const ids[] = {"", OWN, "alice", "bob", "carol"};

/* ---- Beside a machine that never sleeps ------------------------------------------------------ */

struct twins {
    bool observes;
    union sb_any_machine plain;
    struct sb_report report;
    struct sb_packed packed;
    uint64_t random;
    int64_t now_ms;
    enum simba_op asked; /* the last request */
    uint32_t generation;
};

static uint64_t draw(struct twins *t, uint64_t below)
{
    return sb_random_next(&t->random) % below;
}

static struct sb_event draw_event(struct twins *t)
{
    static const enum sb_event_type types[] = {SB_EVENT_START,    SB_EVENT_STOP, SB_EVENT_TICK,
                                               SB_EVENT_REPLY,    SB_EVENT_WAKE, SB_EVENT_REPLY,
                                               SB_EVENT_RETURNED, SB_EVENT_REPLY};
    struct sb_event e = {.type = types[draw(t, 8)], .now_ms = t->now_ms += (int64_t)draw(t, 300)};
    size_t who = draw(t, 5);

    e.returned = t->observes ? t->plain.observer.callbacks : t->plain.contender.callbacks;
    e.generation = t->generation;
    e.op = t->asked;
    if (e.returned > 2)
        e.type = SB_EVENT_RETURNED; /* a driver merges what waits, so few are owed */
    if (e.type == SB_EVENT_REPLY && t->asked == SIMBA_OP_NONE)
        e.type = SB_EVENT_TICK; /* only a request is answered */
    e.sent_at_ms = e.now_ms - 5;
    e.owner = ids[who];
    e.answer = who == 0                   ? SB_ANSWER_NOBODY
               : who == 1 && !t->observes ? SB_ANSWER_MINE
                                          : SB_ANSWER_OTHER;
    e.ttl_left_ms = 1000;
    e.transition_left_ms = 1600;
    e.revision = (uint64_t)t->now_ms;
    e.fence = e.revision;
    return e;
}

static void step(struct twins *t, union sb_any_machine *machine, const struct sb_event *e,
                 struct sb_step *ret_step)
{
    if (t->observes)
        sb_observer_step(&machine->observer, e, ret_step);
    else
        sb_machine_step(&machine->contender, e, ret_step);
}

static void assert_same_owner(const struct simba_owner *a, const struct simba_owner *b)
{
    assert_string_equal(a->id, b->id);
    assert_int_equal(a->acquired_at_ms, b->acquired_at_ms);
    assert_int_equal(a->ttl_at_ms, b->ttl_at_ms);
    assert_int_equal(a->transition_at_ms, b->transition_at_ms);
    assert_int_equal(a->fence, b->fence);
}

static void assert_same(struct twins *t)
{
    struct sb_report report;
    struct simba_state state;
    union sb_any_machine machine;

    sb_packed_get_machine(&t->packed, &timing, &machine);
    sb_packed_get_report(&t->packed, &report);
    sb_packed_state(&t->packed, &state);
    if (t->observes) {
        assert_same_owner(&machine.observer.owner, &t->plain.observer.owner);
        assert_int_equal(machine.observer.status, t->plain.observer.status);
    } else {
        assert_same_owner(&machine.contender.owner, &t->plain.contender.owner);
        assert_int_equal(machine.contender.status, t->plain.contender.status);
        assert_int_equal(sb_machine_belief_ms(&machine.contender),
                         sb_machine_belief_ms(&t->plain.contender));
    }
    assert_same_owner(&report.state.before, &t->report.state.before);
    assert_same_owner(&report.state.after, &t->report.state.after);
    assert_same_owner(&state.before, &t->report.state.before);
    assert_int_equal(report.pending, t->report.pending);
    assert_int_equal(report.acquired, t->report.acquired);
    assert_int_equal(report.released, t->report.released);
    assert_int_equal(report.renewed, t->report.renewed);
}

static void take_reports(struct twins *t)
{
    assert_int_equal(sb_packed_take_report(&t->packed).pending, sb_report_take(&t->report).pending);
}

/* Whatever has returned was told before. */
static void step_both(struct twins *t)
{
    struct sb_event e = draw_event(t);
    bool has_owner = e.type == SB_EVENT_REPLY && e.answer != SB_ANSWER_NOBODY;
    struct sb_name *name = NULL;
    struct sb_step plain, unpacked;
    struct sb_report report;
    union sb_any_machine machine;
    bool reports;

    if (e.type == SB_EVENT_RETURNED)
        take_reports(t);
    step(t, &t->plain, &e, &plain);
    sb_report_keep(&t->report, &plain);
    if (plain.confirmed && !t->report.pending)
        t->report.state.before = t->observes ? t->plain.observer.owner : t->plain.contender.owner;
    if (has_owner)
        assert_true(sb_packed_make_name(&t->packed, e.owner, &name));
    sb_packed_get_machine(&t->packed, &timing, &machine);
    step(t, &machine, &e, &unpacked);
    reports = unpacked.changed || unpacked.renewed || t->packed.pending;
    if (reports) {
        sb_packed_get_report(&t->packed, &report);
        sb_report_keep(&report, &unpacked);
    }
    sb_packed_set(&t->packed, &machine, reports ? &report : NULL, name);
    if (unpacked.confirmed)
        sb_packed_confirm(&t->packed);
    assert_int_equal(plain.deadline_ms, unpacked.deadline_ms);
    assert_int_equal(plain.request.op, unpacked.request.op);
    assert_same(t);
    if (plain.request.op != SIMBA_OP_NONE) {
        t->asked = plain.request.op;
        t->generation = plain.request.generation;
    }
    if (draw(t, 3) == 0)
        take_reports(t);
}

static void walk(bool observes)
{
    struct twins t = {.observes = observes, .random = 7, .now_ms = 1000};

    if (observes)
        sb_observer_init(&t.plain.observer, &timing, 500, 1);
    else
        sb_machine_init(&t.plain.contender, &timing, 1);
    if (!observes)
        sb_machine_tell_renewals(&t.plain.contender);
    sb_packed_init(&t.packed, observes ? NULL : OWN, &t.plain);
    for (int i = 0; i < STEPS; i++)
        step_both(&t);
    sb_packed_free(&t.packed);
}

static void a_contender_that_lies_down_between_steps_goes_on_as_one_that_does_not(void **state)
{
    walk(false);
}

static void an_observer_that_lies_down_between_steps_goes_on_as_one_that_does_not(void **state)
{
    walk(true);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static struct sb_packed packed_contender(void)
{
    struct sb_packed packed;
    union sb_any_machine machine;

    sb_machine_init(&machine.contender, &timing, 1);
    sb_packed_init(&packed, OWN, &machine);
    return packed;
}

/* As a step does that finds a new owner. */
static void meet(struct sb_packed *packed, const char *id)
{
    struct sb_name *name;
    struct sb_report report;
    union sb_any_machine machine;

    assert_true(sb_packed_make_name(packed, id, &name));
    sb_packed_get_machine(packed, &timing, &machine);
    sb_packed_get_report(packed, &report);
    report.state.before = machine.contender.owner;
    snprintf(machine.contender.owner.id, sizeof machine.contender.owner.id, "%s", id);
    report.state.after = machine.contender.owner;
    sb_packed_set(packed, &machine, &report, name);
}

static void the_own_id_is_not_kept_twice(void **state)
{
    struct sb_packed packed = packed_contender();

    meet(&packed, OWN);
    assert_ptr_equal(packed.owner.id, packed.own_id);
    assert_ptr_equal(packed.after.id, packed.own_id);
    sb_packed_free(&packed);
}

static void all_who_name_another_owner_share_its_name(void **state)
{
    struct sb_packed packed = packed_contender();
    const char *alice;

    meet(&packed, "alice");
    alice = packed.owner.id;
    assert_ptr_equal(packed.after.id, alice);
    meet(&packed, "bob");
    assert_ptr_equal(packed.before.id, alice);
    assert_string_equal(packed.owner.id, "bob");
    assert_ptr_equal(packed.after.id, packed.owner.id);
    sb_packed_free(&packed);
}

static void an_id_that_is_too_long_is_cut_as_the_machine_cuts_it(void **state)
{
    struct sb_packed packed = packed_contender();
    char id[SIMBA_ID_MAX + 10];

    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    meet(&packed, id);
    assert_int_equal(strlen(packed.owner.id), SIMBA_ID_MAX);
    meet(&packed, id);
    sb_packed_free(&packed);
}

static void a_packed_contender_takes_less_than_a_machine_alone(void **state)
{
    assert_true(sizeof(struct sb_packed) < sizeof(struct sb_machine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contender_that_lies_down_between_steps_goes_on_as_one_that_does_not),
        cmocka_unit_test(an_observer_that_lies_down_between_steps_goes_on_as_one_that_does_not),
        cmocka_unit_test(the_own_id_is_not_kept_twice),
        cmocka_unit_test(all_who_name_another_owner_share_its_name),
        cmocka_unit_test(an_id_that_is_too_long_is_cut_as_the_machine_cuts_it),
        cmocka_unit_test(a_packed_contender_takes_less_than_a_machine_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
