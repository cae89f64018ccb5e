/*
 * The machine as an owner: its moves, what it believes and until when, how it guards and loses.
 */
#include "machine_drive.h"

/* ---- Moves ----------------------------------------------------------------------------------- */

static void bring_to(struct drive *d, enum simba_status status)
{
    drive_init(d);
    if (status == SIMBA_INITIAL)
        return;
    drive_event(d, SB_EVENT_START);
    if (status == SIMBA_RUNNING)
        drive_mine(d, 1);
    if (status == SIMBA_STOPPING)
        drive_event(d, SB_EVENT_STOP);
    assert_int_equal(d->machine.status, status);
}

static void only_the_moves_of_the_table_are_made(void **state)
{
    static const struct {
        enum simba_status from;
        enum sb_event_type event;
        int code;
    } table[] = {
        {SIMBA_INITIAL, SB_EVENT_START, SIMBA_OK},
        {SIMBA_INITIAL, SB_EVENT_STOP, SIMBA_ESTATE},
        {SIMBA_STARTING, SB_EVENT_START, SIMBA_ESTATE},
        {SIMBA_STARTING, SB_EVENT_STOP, SIMBA_OK},
        {SIMBA_RUNNING, SB_EVENT_START, SIMBA_ESTATE},
        {SIMBA_RUNNING, SB_EVENT_STOP, SIMBA_OK},
        {SIMBA_STOPPING, SB_EVENT_START, SIMBA_ESTATE},
        {SIMBA_STOPPING, SB_EVENT_STOP, SIMBA_ESTATE},
    };

    for (size_t i = 0; i < TEST_COUNT(table); i++) {
        struct drive d;

        bring_to(&d, table[i].from);
        assert_int_equal(drive_event(&d, table[i].event), table[i].code);
    }
}

static void a_forbidden_move_changes_nothing(void **state)
{
    struct drive d;
    struct sb_machine before;

    bring_to(&d, SIMBA_RUNNING);
    before = d.machine;
    d.now_ms += 2 * LEASE; /* not even a belief that is over ends in it */
    assert_int_equal(drive_event(&d, SB_EVENT_START), SIMBA_ESTATE);
    assert_memory_equal(&d.machine, &before, sizeof before);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_false(d.step.changed);
}

static void a_stopped_machine_asks_for_nothing(void **state)
{
    static const enum sb_event_type events[] = {SB_EVENT_TICK, SB_EVENT_WAKE,
                                                SB_EVENT_SESSION_LOST};

    for (size_t i = 0; i < TEST_COUNT(events); i++) {
        struct drive d;

        drive_init(&d);
        drive_event(&d, events[i]);
        assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
        assert_int_equal(d.step.deadline_ms, SIMBA_INFINITE);
        assert_false(d.step.changed || d.step.stopped);
    }
}

static void the_first_answer_makes_it_running(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    assert_int_equal(d.machine.status, SIMBA_STARTING);
    drive_failed(&d);
    assert_int_equal(d.machine.status, SIMBA_STARTING);
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_other(&d, LEASE);
    assert_int_equal(d.machine.status, SIMBA_RUNNING);
}

static void the_first_request_waits_for_the_initial_delay(void **state)
{
    struct drive d;

    drive_init(&d);
    d.timing.initial_delay_ms = 300;
    drive_event(&d, SB_EVENT_START);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_int_equal(d.step.deadline_ms, NOW + 300);
    drive_event(&d, SB_EVENT_WAKE); /* nobody is woken who has not tried yet */
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_tick_at(&d, NOW + 299);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_tick_at(&d, NOW + 300);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

/* ---- The lease ------------------------------------------------------------------------------- */

static void a_lease_counts_from_when_the_request_was_sent(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    d.now_ms += 500;
    drive_mine(&d, 1);
    assert_int_equal(sb_machine_belief_ms(&d.machine), NOW + LEASE - MARGIN);
    assert_int_equal(sb_machine_ttl_ms(&d.machine), NOW + TTL);
    assert_int_equal(d.step.state.after.ttl_at_ms, NOW + TTL);
    assert_int_equal(d.step.state.after.transition_at_ms, NOW + LEASE);
    assert_int_equal(d.step.state.after.acquired_at_ms, NOW);
}

static void a_late_renewal_shortens_the_belief_and_never_stretches_it(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, NOW + TTL);
    assert_int_equal(d.step.request.op, SIMBA_OP_GUARD);
    d.now_ms += 500; /* within the belief */
    drive_mine(&d, 2);
    assert_int_equal(sb_machine_belief_ms(&d.machine), NOW + TTL + LEASE - MARGIN);
    assert_int_equal(d.step.deadline_ms, NOW + TTL + TTL);
}

static void belief_ends_at_its_instant_and_not_before(void **state)
{
    struct drive d;
    int64_t end = NOW + LEASE - MARGIN;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, NOW + TTL); /* the guard that gets no answer */
    assert_int_equal(d.step.deadline_ms, end);
    drive_tick_at(&d, end - 1);
    assert_false(d.step.changed);
    assert_true(drive_believes(&d, end - 1));
    assert_false(drive_believes(&d, end)); /* by the clock alone, before anybody steps it */
    drive_tick_at(&d, end);
    assert_true(d.step.changed && d.step.released);
    assert_string_equal(d.step.state.before.id, ME);
    assert_string_equal(d.step.state.after.id, "");
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    assert_int_equal(sb_machine_fence(&d.machine), 0);
}

static void any_event_ends_a_belief_that_is_over_before_it_is_taken_in(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, NOW + TTL);
    d.now_ms = NOW + LEASE - MARGIN;
    drive_mine(&d, 2); /* the renewal succeeded, but its answer is too late to be believed */
    assert_true(d.step.released);
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE); /* so the record is given back */
    assert_int_equal(d.step.request.revision, 2);
}

static void a_grant_that_is_over_when_it_arrives_is_given_back(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    d.now_ms += LEASE - MARGIN;
    drive_mine(&d, 9);
    assert_false(d.step.acquired || d.step.changed);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 9);
    drive_nobody(&d);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_mine(&d, 10);
    assert_true(d.step.acquired);
}

static void a_session_that_never_ends_is_believed_without_a_margin(void **state)
{
    struct drive d;
    struct sb_event event;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    event = drive_reply(&d, SB_ANSWER_MINE);
    event.ttl_left_ms = SIMBA_INFINITE;
    event.transition_left_ms = SIMBA_INFINITE;
    event.revision = 1;
    drive_feed(&d, event);
    assert_true(d.step.acquired);
    assert_int_equal(sb_machine_belief_ms(&d.machine), SIMBA_INFINITE);
    assert_int_equal(d.step.state.after.acquired_at_ms, NOW);
    assert_int_equal(d.machine.attempt_at_ms, SIMBA_INFINITE);
}

static void the_token_stays_through_renewals_and_grows_with_terms(void **state)
{
    struct drive d;

    drive_to_owner(&d, 5);
    for (uint64_t revision = 6; revision < 10; revision++) {
        drive_tick_at(&d, d.step.deadline_ms);
        assert_int_equal(d.step.request.op, SIMBA_OP_GUARD);
        drive_mine(&d, revision);
        assert_false(d.step.changed);
        assert_int_equal(sb_machine_fence(&d.machine), 5);
        assert_int_equal(d.machine.owner.fence, 5);
    }
    drive_tick_at(&d, d.machine.lease_until_ms); /* lost, and the record is still ours */
    assert_true(d.step.released);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_mine(&d, 10);
    assert_true(d.step.acquired);
    assert_int_equal(sb_machine_fence(&d.machine), 10);
}

/* ---- Guarding -------------------------------------------------------------------------------- */

static void an_owner_guards_when_its_ttl_is_over(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    assert_int_equal(d.step.deadline_ms, NOW + TTL);
    drive_tick_at(&d, NOW + TTL - 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_tick_at(&d, NOW + TTL);
    assert_int_equal(d.step.request.op, SIMBA_OP_GUARD);
    assert_in_range(d.step.request.timeout_ms, 10, TRANSITION / 2);
}

static void a_failed_guard_is_retried_with_growing_pauses_within_the_transition(void **state)
{
    struct drive d;
    int guards = 0;
    int64_t longest = 0;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, d.step.deadline_ms);
    while (d.step.request.op == SIMBA_OP_GUARD) {
        int64_t pause;

        guards++;
        drive_failed(&d);
        assert_false(d.step.changed);
        pause = d.step.deadline_ms - d.now_ms;
        assert_in_range(pause, 1, TRANSITION / 4);
        longest = pause > longest ? pause : longest;
        drive_tick_at(&d, d.step.deadline_ms);
    }
    assert_true(d.step.released); /* the last deadline was the end of the belief */
    assert_int_equal(d.now_ms, NOW + LEASE - MARGIN);
    assert_in_range(guards, 5, 60);
    assert_in_range(longest, TRANSITION / 10, TRANSITION / 4);
}

static void a_guard_that_succeeds_at_last_keeps_the_term(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_unknown(&d);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_failed(&d);
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_GUARD);
    drive_mine(&d, 4);
    assert_int_equal(sb_machine_fence(&d.machine), 1);
    assert_int_equal(sb_machine_belief_ms(&d.machine), d.sent_at_ms + LEASE - MARGIN);
}

static void a_guard_that_finds_another_owner_ends_the_term(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_other(&d, LEASE);
    assert_true(d.step.released);
    assert_string_equal(d.step.state.after.id, "other");
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE); /* takes a place in the wait queue */
    drive_other(&d, LEASE);
    assert_in_range(d.step.deadline_ms, d.now_ms + LEASE - 200, d.now_ms + LEASE + 1000);
}

static void an_owner_whose_record_was_deleted_loses_and_competes_anew(void **state)
{
    struct drive d;

    drive_to_owner(&d, 1);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_nobody(&d);
    assert_true(d.step.released);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE); /* not before its callback has returned */
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_moves_of_the_table_are_made),
        cmocka_unit_test(a_forbidden_move_changes_nothing),
        cmocka_unit_test(a_stopped_machine_asks_for_nothing),
        cmocka_unit_test(the_first_answer_makes_it_running),
        cmocka_unit_test(the_first_request_waits_for_the_initial_delay),
        cmocka_unit_test(a_lease_counts_from_when_the_request_was_sent),
        cmocka_unit_test(a_late_renewal_shortens_the_belief_and_never_stretches_it),
        cmocka_unit_test(belief_ends_at_its_instant_and_not_before),
        cmocka_unit_test(any_event_ends_a_belief_that_is_over_before_it_is_taken_in),
        cmocka_unit_test(a_grant_that_is_over_when_it_arrives_is_given_back),
        cmocka_unit_test(a_session_that_never_ends_is_believed_without_a_margin),
        cmocka_unit_test(the_token_stays_through_renewals_and_grows_with_terms),
        cmocka_unit_test(an_owner_guards_when_its_ttl_is_over),
        cmocka_unit_test(a_failed_guard_is_retried_with_growing_pauses_within_the_transition),
        cmocka_unit_test(a_guard_that_succeeds_at_last_keeps_the_term),
        cmocka_unit_test(a_guard_that_finds_another_owner_ends_the_term),
        cmocka_unit_test(an_owner_whose_record_was_deleted_loses_and_competes_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
