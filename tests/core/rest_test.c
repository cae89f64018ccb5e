/*
 * A machine that lies down between its steps goes on as one that stays awake.
 */
#include "base/random.h"
#include "runtime/rest.h"
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
    union sb_mind awake;
    struct sb_report report;
    struct sb_rest rest;
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

    e.returned = t->observes ? t->awake.observer.callbacks : t->awake.contender.callbacks;
    e.generation = t->generation;
    e.op = t->asked;
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

static void step(struct twins *t, union sb_mind *mind, const struct sb_event *e,
                 struct sb_step *ret_step)
{
    if (t->observes)
        sb_observer_step(&mind->observer, e, ret_step);
    else
        sb_machine_step(&mind->contender, e, ret_step);
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
    union sb_mind mind;

    sb_rest_wake(&t->rest, &mind);
    sb_rest_wake_report(&t->rest, &report);
    sb_rest_state(&t->rest, &state);
    if (t->observes) {
        assert_same_owner(&mind.observer.owner, &t->awake.observer.owner);
        assert_int_equal(mind.observer.status, t->awake.observer.status);
    } else {
        assert_same_owner(&mind.contender.owner, &t->awake.contender.owner);
        assert_int_equal(mind.contender.status, t->awake.contender.status);
        assert_int_equal(sb_machine_belief_ms(&mind.contender),
                         sb_machine_belief_ms(&t->awake.contender));
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
    assert_int_equal(sb_rest_take_report(&t->rest).pending, sb_report_take(&t->report).pending);
}

/* Whatever has returned was told before. */
static void step_both(struct twins *t)
{
    struct sb_event e = draw_event(t);
    bool has_owner = e.type == SB_EVENT_REPLY && e.answer != SB_ANSWER_NOBODY;
    struct sb_name *name = NULL;
    struct sb_step awake, rested;
    struct sb_report report;
    union sb_mind mind;
    bool reports;

    if (e.type == SB_EVENT_RETURNED)
        take_reports(t);
    step(t, &t->awake, &e, &awake);
    sb_report_keep(&t->report, &awake);
    if (awake.confirmed && !t->report.pending)
        t->report.state.before = t->observes ? t->awake.observer.owner : t->awake.contender.owner;
    if (has_owner)
        assert_true(sb_rest_make_name(&t->rest, e.owner, &name));
    sb_rest_wake(&t->rest, &mind);
    step(t, &mind, &e, &rested);
    reports = rested.changed || rested.renewed || t->rest.pending;
    if (reports) {
        sb_rest_wake_report(&t->rest, &report);
        sb_report_keep(&report, &rested);
    }
    sb_rest_lay(&t->rest, &mind, reports ? &report : NULL, name);
    if (rested.confirmed)
        sb_rest_confirm(&t->rest);
    assert_int_equal(awake.deadline_ms, rested.deadline_ms);
    assert_int_equal(awake.request.op, rested.request.op);
    assert_same(t);
    if (awake.request.op != SIMBA_OP_NONE) {
        t->asked = awake.request.op;
        t->generation = awake.request.generation;
    }
    if (draw(t, 3) == 0)
        take_reports(t);
}

static void walk(bool observes)
{
    struct twins t = {.observes = observes, .random = 7, .now_ms = 1000};

    if (observes)
        sb_observer_init(&t.awake.observer, &timing, 500, 1);
    else
        sb_machine_init(&t.awake.contender, &timing, 1);
    if (!observes)
        sb_machine_tell_renewals(&t.awake.contender);
    sb_rest_init(&t.rest, observes ? NULL : OWN, &t.awake);
    for (int i = 0; i < STEPS; i++)
        step_both(&t);
    sb_rest_free(&t.rest);
}

static void a_contender_that_lies_down_between_steps_goes_on_as_one_that_does_not(void **state)
{
    (void)state;
    walk(false);
}

static void an_observer_that_lies_down_between_steps_goes_on_as_one_that_does_not(void **state)
{
    (void)state;
    walk(true);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static struct sb_rest contender_at_rest(void)
{
    struct sb_rest rest;
    union sb_mind mind;

    sb_machine_init(&mind.contender, &timing, 1);
    sb_rest_init(&rest, OWN, &mind);
    return rest;
}

/* As a step does that finds a new owner. */
static void meet(struct sb_rest *rest, const char *id)
{
    struct sb_name *name;
    struct sb_report report;
    union sb_mind mind;

    assert_true(sb_rest_make_name(rest, id, &name));
    sb_rest_wake(rest, &mind);
    sb_rest_wake_report(rest, &report);
    report.state.before = mind.contender.owner;
    snprintf(mind.contender.owner.id, sizeof mind.contender.owner.id, "%s", id);
    report.state.after = mind.contender.owner;
    sb_rest_lay(rest, &mind, &report, name);
}

static void the_own_id_is_not_kept_twice(void **state)
{
    struct sb_rest rest = contender_at_rest();

    (void)state;
    meet(&rest, OWN);
    assert_ptr_equal(rest.owner.id, rest.own_id);
    assert_ptr_equal(rest.after.id, rest.own_id);
    sb_rest_free(&rest);
}

static void all_who_name_another_owner_share_its_name(void **state)
{
    struct sb_rest rest = contender_at_rest();
    const char *alice;

    (void)state;
    meet(&rest, "alice");
    alice = rest.owner.id;
    assert_ptr_equal(rest.after.id, alice);
    meet(&rest, "bob");
    assert_ptr_equal(rest.before.id, alice);
    assert_string_equal(rest.owner.id, "bob");
    assert_ptr_equal(rest.after.id, rest.owner.id);
    sb_rest_free(&rest);
}

static void an_id_that_is_too_long_is_cut_as_the_machine_cuts_it(void **state)
{
    struct sb_rest rest = contender_at_rest();
    char id[SIMBA_ID_MAX + 10];

    (void)state;
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    meet(&rest, id);
    assert_int_equal(strlen(rest.owner.id), SIMBA_ID_MAX);
    meet(&rest, id);
    sb_rest_free(&rest);
}

static void a_contender_at_rest_takes_less_than_a_machine_alone(void **state)
{
    (void)state;
    assert_true(sizeof(struct sb_rest) < sizeof(struct sb_machine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contender_that_lies_down_between_steps_goes_on_as_one_that_does_not),
        cmocka_unit_test(an_observer_that_lies_down_between_steps_goes_on_as_one_that_does_not),
        cmocka_unit_test(the_own_id_is_not_kept_twice),
        cmocka_unit_test(all_who_name_another_owner_share_its_name),
        cmocka_unit_test(an_id_that_is_too_long_is_cut_as_the_machine_cuts_it),
        cmocka_unit_test(a_contender_at_rest_takes_less_than_a_machine_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
