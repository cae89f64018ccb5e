/*
 * The machine when it is stopped: what it gives back, in which order, and what late answers may do.
 */
#include "machine_drive.h"

/* ---- A clean hand-over ----------------------------------------------------------------------- */

static void a_stop_before_the_first_request_is_complete_at_once(void **state)
{
    struct drive d;

    drive_init(&d);
    d.timing.initial_delay_ms = 300;
    drive_event(&d, SB_EVENT_START);
    drive_event(&d, SB_EVENT_STOP);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_OK);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

static void a_contender_that_stops_leaves_the_wait_queue(void **state)
{
    struct drive d;

    drive_to_contender(&d);
    drive_event(&d, SB_EVENT_STOP);
    assert_true(d.step.changed); /* it knows nobody any more */
    assert_false(d.step.released);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 0); /* which gives nothing back */
    drive_other(&d, LEASE);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_OK);
}

static void an_owner_releases_only_when_its_callback_has_returned(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    assert_true(d.step.released);
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 7);
    drive_nobody(&d);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_OK);
}

static void the_lease_is_guarded_while_the_callback_runs(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    for (uint64_t revision = 8; revision < 11; revision++) {
        drive_tick_at(&d, d.step.deadline_ms);
        assert_int_equal(d.step.request.op, SIMBA_OP_GUARD);
        drive_mine(&d, revision);
        assert_false(d.step.changed || d.step.stopped);
        assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    }
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 10); /* the record, not the term */
}

static void a_stopped_machine_no_longer_names_itself_as_the_owner(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_mine(&d, 8);
    assert_string_equal(d.machine.owner.id, "");
    drive_returned(&d, 1);
    drive_nobody(&d);
    assert_true(d.step.stopped);
    assert_string_equal(d.machine.owner.id, "");
}

static void a_lease_lost_while_the_callback_runs_is_not_told_twice(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_tick_at(&d, NOW + TTL);
    drive_tick_at(&d, NOW + LEASE - MARGIN);
    assert_false(d.step.changed || d.step.released);
    drive_failed(&d);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 7); /* it may still be ours */
    drive_other(&d, LEASE);
    assert_true(d.step.stopped);
}

static void a_stop_waits_for_the_callback_while_a_late_grant_is_given_back(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_tick_at(&d, NOW + TTL);
    d.now_ms = NOW + LEASE - MARGIN;
    drive_mine(&d, 8); /* lost, and the renewal that came too late is given back */
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    drive_event(&d, SB_EVENT_STOP);
    drive_nobody(&d);
    assert_false(d.step.stopped); /* on_released still runs */
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    drive_nobody(&d);
    assert_true(d.step.stopped);
}

static void a_release_that_fails_is_retried(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    for (int i = 0; i < 3; i++) {
        drive_unknown(&d);
        assert_false(d.step.stopped);
        assert_true(d.step.deadline_ms > d.now_ms);
        drive_tick_at(&d, d.step.deadline_ms);
        assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
        assert_int_equal(d.step.request.revision, 7);
    }
    drive_nobody(&d);
    assert_int_equal(d.step.stop_code, SIMBA_OK);
}

static void a_release_that_missed_because_the_record_moved_is_repeated(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    drive_mine(&d, 9); /* a lost attempt of ours was carried out late */
    assert_false(d.step.stopped);
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 9);
    drive_nobody(&d);
    assert_true(d.step.stopped);
}

static void a_queue_that_cannot_be_left_does_not_hold_up_the_stop(void **state)
{
    struct drive d;

    drive_to_contender(&d);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    drive_failed(&d);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_EUNAVAILABLE);
}

/* ---- A stop with a request under way --------------------------------------------------------- */

static void a_grant_that_arrives_during_the_stop_is_given_back(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_event(&d, SB_EVENT_STOP);
    assert_false(d.step.stopped);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_mine(&d, 4);
    assert_false(d.step.acquired || d.step.changed);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 4);
    drive_nobody(&d);
    assert_true(d.step.stopped);
}

static void an_attempt_with_an_unknown_end_is_asked_about_and_then_released(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_event(&d, SB_EVENT_STOP);
    drive_unknown(&d);
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_READ);
    drive_mine(&d, 12);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 12);
    drive_nobody(&d);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_OK);
}

static void a_guard_with_an_unknown_end_is_asked_about_before_the_release(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_unknown(&d);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_READ);
    drive_mine(&d, 8);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 8);
}

static void a_release_waits_for_the_guard_that_is_under_way(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_tick_at(&d, d.step.deadline_ms);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_mine(&d, 8);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 8);
}

static void a_session_lost_during_the_stop_leaves_nothing_to_give_back(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_event(&d, SB_EVENT_SESSION_LOST);
    assert_false(d.step.changed);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 0);
    drive_nobody(&d);
    assert_true(d.step.stopped);
}

/* ---- The patience of a stop ------------------------------------------------------------------ */

static void a_stop_is_given_up_when_a_callback_does_not_return(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    while (d.now_ms < NOW + STOP_TIMEOUT) {
        assert_false(d.step.stopped);
        drive_tick_at(&d, d.step.deadline_ms);
        if (d.step.request.op == SIMBA_OP_GUARD)
            drive_mine(&d, 7);
    }
    assert_int_equal(d.now_ms, NOW + STOP_TIMEOUT);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_ETIMEDOUT);
    assert_int_equal(d.machine.status, SIMBA_INITIAL);
}

static void a_stop_is_given_up_when_the_store_does_not_answer(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_event(&d, SB_EVENT_STOP);
    assert_int_equal(d.step.deadline_ms, NOW + STOP_TIMEOUT);
    drive_tick_at(&d, NOW + STOP_TIMEOUT - 1);
    assert_false(d.step.stopped);
    drive_tick_at(&d, NOW + STOP_TIMEOUT);
    assert_true(d.step.stopped);
    assert_int_equal(d.step.stop_code, SIMBA_ETIMEDOUT);
}

static void after_a_restart_it_waits_for_the_callback_of_before(void **state)
{
    struct drive d;

    drive_to_owner(&d, 7);
    drive_event(&d, SB_EVENT_STOP);
    drive_tick_at(&d, NOW + STOP_TIMEOUT);
    assert_int_equal(d.step.stop_code, SIMBA_ETIMEDOUT);
    assert_int_equal(drive_event(&d, SB_EVENT_START), SIMBA_OK);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

/* ---- Answers of an older generation ---------------------------------------------------------- */

/* An attempt whose answer is still out when its stop is given up. */
static void abandon_an_attempt(struct drive *d)
{
    drive_init(d);
    drive_event(d, SB_EVENT_START);
    drive_event(d, SB_EVENT_STOP);
    drive_tick_at(d, NOW + STOP_TIMEOUT);
    assert_true(d->step.stopped);
}

static void a_grant_after_the_stop_is_given_back(void **state)
{
    struct drive d;

    abandon_an_attempt(&d);
    drive_mine(&d, 3);
    assert_false(d.step.acquired);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 3);
    assert_int_equal(d.machine.status, SIMBA_INITIAL);
    drive_nobody(&d);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

static void an_unknown_end_after_the_stop_is_asked_about_and_released(void **state)
{
    struct drive d;

    abandon_an_attempt(&d);
    drive_unknown(&d);
    assert_int_equal(d.step.request.op, SIMBA_OP_READ);
    drive_mine(&d, 3);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 3);
}

static void other_answers_after_the_stop_are_dropped(void **state)
{
    struct drive d;

    abandon_an_attempt(&d);
    drive_other(&d, LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_false(d.step.changed);
    abandon_an_attempt(&d);
    drive_failed(&d);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

/* By then another contender may have the id. */
static void a_look_that_is_answered_after_the_stop_releases_nothing(void **state)
{
    struct drive d;

    drive_init(&d);
    sb_machine_follow(&d.machine);
    drive_event(&d, SB_EVENT_START);
    drive_other(&d, LEASE);
    drive_returned(&d, 1);
    drive_event(&d, SB_EVENT_CHANGED);
    assert_int_equal(d.step.request.op, SIMBA_OP_READ);
    drive_event(&d, SB_EVENT_STOP);
    drive_returned(&d, 1);
    drive_tick_at(&d, NOW + STOP_TIMEOUT);
    assert_true(d.step.stopped);
    drive_mine(&d, 9);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

/* Restarts, and keeps what is needed to answer the attempt of the first generation. */
static struct drive restart_over_an_attempt(struct drive *d)
{
    struct drive old;

    abandon_an_attempt(d);
    old = *d;
    drive_event(d, SB_EVENT_START);
    assert_int_equal(d->step.request.op, SIMBA_OP_ACQUIRE);
    assert_int_not_equal(d->generation, old.generation);
    return old;
}

static void an_old_answer_does_not_change_a_new_generation(void **state)
{
    struct drive d;
    struct drive old;
    struct sb_machine before;

    old = restart_over_an_attempt(&d);
    before = d.machine;
    drive_feed(&d, drive_reply(&old, SB_ANSWER_NOBODY));
    assert_memory_equal(&d.machine, &before, sizeof before);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

/* The old attempt may be carried out after the new one, and then the new term's record is the one
 * that the old answer names: releasing it would hand the mutex to others while the new term is
 * believed. */
static void an_old_grant_never_releases_what_a_new_term_believes_in(void **state)
{
    struct drive d;
    struct drive old;
    struct sb_event grant;

    old = restart_over_an_attempt(&d);
    grant = drive_reply(&old, SB_ANSWER_MINE);
    grant.transition_left_ms = LEASE;
    grant.revision = 5;
    drive_mine(&d, 4);
    assert_true(d.step.acquired);
    drive_feed(&d, grant);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_int_equal(sb_machine_fence(&d.machine), 4);
}

static void an_old_grant_never_releases_what_a_new_attempt_may_have_won(void **state)
{
    struct drive d;
    struct drive old;
    struct sb_event grant;

    old = restart_over_an_attempt(&d);
    grant = drive_reply(&old, SB_ANSWER_MINE);
    grant.transition_left_ms = LEASE;
    grant.revision = 5;
    drive_feed(&d, grant);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_mine(&d, 4);
    assert_true(drive_believes(&d, d.now_ms));
}

static void an_old_grant_is_given_back_when_nothing_newer_can_be_hit(void **state)
{
    struct drive d;
    struct drive old;
    struct sb_event grant;

    old = restart_over_an_attempt(&d);
    grant = drive_reply(&old, SB_ANSWER_MINE);
    grant.transition_left_ms = LEASE;
    grant.revision = 5;
    drive_failed(&d);
    drive_feed(&d, grant);
    assert_int_equal(d.step.request.op, SIMBA_OP_RELEASE);
    assert_int_equal(d.step.request.revision, 5);
    assert_int_equal(d.step.request.generation, old.generation);
}

static void what_an_old_attempt_may_have_left_is_asked_about_at_the_next_stop(void **state)
{
    static const enum sb_answer answers[] = {SB_ANSWER_MINE, SB_ANSWER_UNKNOWN};

    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        struct drive d;
        struct drive old = restart_over_an_attempt(&d);

        drive_feed(&d, drive_reply(&old, answers[i]));
        assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
        drive_failed(&d);
        drive_event(&d, SB_EVENT_STOP);
        assert_int_equal(d.step.request.op, SIMBA_OP_READ);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_before_the_first_request_is_complete_at_once),
        cmocka_unit_test(a_contender_that_stops_leaves_the_wait_queue),
        cmocka_unit_test(an_owner_releases_only_when_its_callback_has_returned),
        cmocka_unit_test(the_lease_is_guarded_while_the_callback_runs),
        cmocka_unit_test(a_stopped_machine_no_longer_names_itself_as_the_owner),
        cmocka_unit_test(a_lease_lost_while_the_callback_runs_is_not_told_twice),
        cmocka_unit_test(a_stop_waits_for_the_callback_while_a_late_grant_is_given_back),
        cmocka_unit_test(a_release_that_fails_is_retried),
        cmocka_unit_test(a_release_that_missed_because_the_record_moved_is_repeated),
        cmocka_unit_test(a_queue_that_cannot_be_left_does_not_hold_up_the_stop),
        cmocka_unit_test(a_grant_that_arrives_during_the_stop_is_given_back),
        cmocka_unit_test(an_attempt_with_an_unknown_end_is_asked_about_and_then_released),
        cmocka_unit_test(a_guard_with_an_unknown_end_is_asked_about_before_the_release),
        cmocka_unit_test(a_release_waits_for_the_guard_that_is_under_way),
        cmocka_unit_test(a_session_lost_during_the_stop_leaves_nothing_to_give_back),
        cmocka_unit_test(a_stop_is_given_up_when_a_callback_does_not_return),
        cmocka_unit_test(a_stop_is_given_up_when_the_store_does_not_answer),
        cmocka_unit_test(after_a_restart_it_waits_for_the_callback_of_before),
        cmocka_unit_test(a_grant_after_the_stop_is_given_back),
        cmocka_unit_test(an_unknown_end_after_the_stop_is_asked_about_and_released),
        cmocka_unit_test(other_answers_after_the_stop_are_dropped),
        cmocka_unit_test(a_look_that_is_answered_after_the_stop_releases_nothing),
        cmocka_unit_test(an_old_answer_does_not_change_a_new_generation),
        cmocka_unit_test(an_old_grant_never_releases_what_a_new_term_believes_in),
        cmocka_unit_test(an_old_grant_never_releases_what_a_new_attempt_may_have_won),
        cmocka_unit_test(an_old_grant_is_given_back_when_nothing_newer_can_be_hit),
        cmocka_unit_test(what_an_old_attempt_may_have_left_is_asked_about_at_the_next_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
