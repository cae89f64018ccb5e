/*
 * The machine as a contender: when it tries again, what wakes it, and what a lost session means to
 * it.
 */
#include "machine_drive.h"

/* ---- Contending ------------------------------------------------------------------------------ */

static void a_contender_comes_back_when_the_lease_ends_with_a_jitter(void **state)
{
    int64_t least = INT64_MAX;
    int64_t most = 0;

    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct drive d;
        int64_t delay;

        drive_init(&d);
        d.machine.random = seed;
        drive_event(&d, SB_EVENT_START);
        drive_other(&d, LEASE);
        drive_returned(&d, 1);
        delay = d.step.deadline_ms - d.now_ms;
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    assert_in_range(least, LEASE - 200, LEASE - 190);
    assert_in_range(most, LEASE + 990, LEASE + 999);
}

static int64_t delay_at_place(int64_t place, int64_t turn_ms, int64_t jitter_max_ms)
{
    struct sb_event event;
    struct drive d;

    drive_init(&d);
    d.timing.turn_ms = turn_ms;
    d.timing.jitter_min_ms = -1;
    d.timing.jitter_max_ms = jitter_max_ms;
    drive_event(&d, SB_EVENT_START);
    event = drive_reply(&d, SB_ANSWER_OTHER);
    event.ttl_left_ms = TTL;
    event.transition_left_ms = LEASE;
    event.place = place;
    drive_feed(&d, event);
    drive_returned(&d, 1);
    return d.step.deadline_ms - d.now_ms;
}

static void waiters_with_a_place_come_a_turn_after_each_other_and_none_early(void **state)
{
    for (int64_t place = 1; place <= 100; place++)
        assert_int_equal(delay_at_place(place, 10, 1000), LEASE + 2 + 10 * (place - 1));
}

static void a_turn_never_comes_later_than_the_jitter_may(void **state)
{
    static const int64_t far[] = {101, 1000, INT64_MAX};

    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        assert_in_range(delay_at_place(far[i], 10, 1000), LEASE - 1, LEASE + 999);
    assert_in_range(delay_at_place(2, INT64_MAX, 1000), LEASE - 1, LEASE + 999);
    assert_in_range(delay_at_place(1, 10, 1), LEASE - 1, LEASE);
    assert_int_equal(delay_at_place(1, 10, 2), LEASE + 2);
}

static void a_place_means_nothing_without_turns_and_turns_nothing_without_a_place(void **state)
{
    assert_int_equal(delay_at_place(1, 0, 0), LEASE - 1);
    assert_int_equal(delay_at_place(0, 10, 0), LEASE - 1);
    assert_int_equal(delay_at_place(-1, 10, 0), LEASE - 1);
}

/* ---- Reservations ---------------------------------------------------------------------------- */

#define RESERVED 50

static struct sb_event reserved_for_another(const struct drive *d, int64_t place)
{
    struct sb_event event = drive_reply(d, SB_ANSWER_NOBODY);

    event.reserved_left_ms = RESERVED;
    event.place = place;
    return event;
}

static void start_with_turns(struct drive *d)
{
    drive_init(d);
    d->timing.turn_ms = 5;
    d->timing.reserve_ms = RESERVED;
    drive_event(d, SB_EVENT_START);
}

static void a_mutex_that_is_reserved_for_another_is_tried_when_that_is_over(void **state)
{
    for (int64_t place = 1; place <= 20; place++) {
        struct drive d;

        start_with_turns(&d);
        drive_feed(&d, reserved_for_another(&d, place));
        assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
        assert_int_equal(d.step.deadline_ms - d.now_ms, RESERVED + 2 + 5 * (place - 1));
    }
}

static void a_waiter_without_a_place_comes_after_all_turns(void **state)
{
    struct drive d;

    start_with_turns(&d);
    drive_feed(&d, reserved_for_another(&d, 0));
    assert_int_equal(d.step.deadline_ms - d.now_ms, RESERVED + 2 + d.timing.jitter_max_ms);
}

static void the_second_comes_when_the_reservation_of_the_first_is_over(void **state)
{
    struct drive d;

    start_with_turns(&d);
    drive_event(&d, SB_EVENT_RESERVED); /* the answer under way may be older */
    drive_other(&d, LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_returned(&d, 1);
    drive_other(&d, LEASE);
    assert_true(d.step.deadline_ms - d.now_ms > RESERVED + 2);
    drive_event(&d, SB_EVENT_RESERVED);
    assert_int_equal(d.step.deadline_ms - d.now_ms, RESERVED + 2);
    drive_event(&d, SB_EVENT_WAKE);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

static void the_last_comes_when_the_first_two_have_not_come(void **state)
{
    struct drive d;

    start_with_turns(&d);
    drive_other(&d, LEASE);
    drive_returned(&d, 1);
    drive_event(&d, SB_EVENT_STANDBY);
    assert_int_equal(d.step.deadline_ms - d.now_ms, 3 * RESERVED + 2);
    drive_event(&d, SB_EVENT_RESERVED); /* it has become the second */
    assert_int_equal(d.step.deadline_ms - d.now_ms, RESERVED + 2);
    drive_event(&d, SB_EVENT_STANDBY);
    assert_int_equal(d.step.deadline_ms - d.now_ms, RESERVED + 2);
}

/* It would come at once, and before the waiters that the mutex is reserved for. */
static void the_last_waits_on_where_it_makes_no_reservations(void **state)
{
    struct drive d;
    int64_t deadline_ms;

    start_with_turns(&d);
    d.timing.reserve_ms = 0;
    drive_event(&d, SB_EVENT_STANDBY); /* during a request, too */
    drive_other(&d, LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_returned(&d, 1);
    deadline_ms = d.step.deadline_ms;
    drive_event(&d, SB_EVENT_STANDBY);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_int_equal(d.step.deadline_ms, deadline_ms);
}

static void a_reservation_means_nothing_to_an_owner(void **state)
{
    struct drive d;
    int64_t deadline_ms;

    drive_init(&d);
    d.timing.reserve_ms = RESERVED;
    drive_event(&d, SB_EVENT_START);
    drive_mine(&d, LEASE);
    drive_returned(&d, 1);
    deadline_ms = d.step.deadline_ms;
    drive_event(&d, SB_EVENT_RESERVED);
    drive_event(&d, SB_EVENT_STANDBY);
    assert_int_equal(d.step.deadline_ms, deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
}

static void a_contender_waits_for_a_lease_that_is_longer_than_its_own(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_other(&d, 10 * LEASE);
    drive_returned(&d, 1);
    assert_in_range(d.step.deadline_ms, NOW + 10 * LEASE - 200, NOW + 10 * LEASE + 1000);
}

static void a_slow_answer_does_not_make_a_contender_come_early(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    d.now_ms += 700;
    drive_other(&d, LEASE);
    assert_int_equal(d.step.state.after.transition_at_ms, NOW + 700 + LEASE);
}

static void failed_attempts_are_retried_with_a_bounded_back_off(void **state)
{
    struct drive d;
    int64_t pause = 0;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
        drive_failed(&d);
        pause = d.step.deadline_ms - d.now_ms;
        assert_in_range(pause, 25, 1000);
        drive_tick_at(&d, d.step.deadline_ms);
    }
    assert_in_range(pause, 500, 1000);
}

static void a_wake_up_makes_a_contender_try_at_once(void **state)
{
    struct drive d;

    drive_to_contender(&d);
    d.now_ms += 10;
    drive_event(&d, SB_EVENT_WAKE);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

static void a_wake_up_during_a_request_brings_another_one(void **state)
{
    struct drive d;

    drive_to_contender(&d);
    drive_event(&d, SB_EVENT_WAKE);
    drive_event(&d, SB_EVENT_WAKE); /* the mutex is free again, but the answer may be older */
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_other(&d, LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_other(&d, LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE); /* one wake-up, one attempt */
}

static void a_wake_up_means_nothing_to_an_owner(void **state)
{
    struct drive d;
    int64_t deadline;

    drive_to_owner(&d, 1);
    deadline = d.step.deadline_ms;
    drive_event(&d, SB_EVENT_WAKE);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    assert_int_equal(d.step.deadline_ms, deadline);
}

static void a_change_between_others_is_told_once(void **state)
{
    struct drive d;
    struct sb_event event;

    drive_to_contender(&d);
    drive_event(&d, SB_EVENT_WAKE);
    drive_other(&d, LEASE); /* the same one renewed */
    assert_false(d.step.changed);
    drive_event(&d, SB_EVENT_WAKE);
    event = drive_reply(&d, SB_ANSWER_OTHER);
    event.owner = "third";
    event.transition_left_ms = LEASE;
    drive_feed(&d, event);
    assert_true(d.step.changed);
    assert_false(d.step.acquired || d.step.released);
    assert_string_equal(d.step.state.before.id, "other");
    assert_string_equal(d.step.state.after.id, "third");
}

static void an_unknown_attempt_is_not_believed_and_adopted_by_the_next(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_unknown(&d);
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    assert_int_equal(d.machine.claim, SB_CLAIM_UNKNOWN);
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    drive_mine(&d, 2);
    assert_true(d.step.acquired);
    assert_int_equal(sb_machine_fence(&d.machine), 2);
}

static void nobody_competes_again_before_its_callbacks_have_returned(void **state)
{
    struct drive d;

    drive_init(&d);
    drive_event(&d, SB_EVENT_START);
    drive_mine(&d, 1); /* on_acquired begins and does not return */
    drive_tick_at(&d, d.step.deadline_ms);
    assert_int_equal(d.step.request.op, SIMBA_OP_GUARD); /* a slow callback delays no renewal */
    drive_tick_at(&d, d.step.deadline_ms);
    assert_true(d.step.released); /* and no loss */
    drive_failed(&d);
    drive_tick_at(&d, d.now_ms + 100 * LEASE);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_NONE);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void a_lost_session_ends_the_term_and_begins_a_new_contest(void **state)
{
    struct drive d;
    uint32_t generation;

    drive_to_owner(&d, 1);
    generation = d.generation;
    drive_event(&d, SB_EVENT_SESSION_LOST);
    assert_true(d.step.released);
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
    drive_returned(&d, 1);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    assert_int_not_equal(d.step.request.generation, generation);
}

static void an_answer_of_the_lost_session_is_not_believed(void **state)
{
    struct drive d;
    struct drive old;

    drive_to_contender(&d);
    drive_event(&d, SB_EVENT_WAKE);
    old = d;
    drive_event(&d, SB_EVENT_SESSION_LOST);
    assert_int_equal(d.step.request.op, SIMBA_OP_ACQUIRE);
    d.generation = old.generation;
    drive_mine(&d, 3);
    assert_false(d.step.acquired);
    assert_int_equal(sb_machine_belief_ms(&d.machine), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contender_comes_back_when_the_lease_ends_with_a_jitter),
        cmocka_unit_test(waiters_with_a_place_come_a_turn_after_each_other_and_none_early),
        cmocka_unit_test(a_turn_never_comes_later_than_the_jitter_may),
        cmocka_unit_test(a_place_means_nothing_without_turns_and_turns_nothing_without_a_place),
        cmocka_unit_test(a_mutex_that_is_reserved_for_another_is_tried_when_that_is_over),
        cmocka_unit_test(a_waiter_without_a_place_comes_after_all_turns),
        cmocka_unit_test(the_second_comes_when_the_reservation_of_the_first_is_over),
        cmocka_unit_test(the_last_comes_when_the_first_two_have_not_come),
        cmocka_unit_test(the_last_waits_on_where_it_makes_no_reservations),
        cmocka_unit_test(a_reservation_means_nothing_to_an_owner),
        cmocka_unit_test(a_contender_waits_for_a_lease_that_is_longer_than_its_own),
        cmocka_unit_test(a_slow_answer_does_not_make_a_contender_come_early),
        cmocka_unit_test(failed_attempts_are_retried_with_a_bounded_back_off),
        cmocka_unit_test(a_wake_up_makes_a_contender_try_at_once),
        cmocka_unit_test(a_wake_up_during_a_request_brings_another_one),
        cmocka_unit_test(a_wake_up_means_nothing_to_an_owner),
        cmocka_unit_test(a_change_between_others_is_told_once),
        cmocka_unit_test(an_unknown_attempt_is_not_believed_and_adopted_by_the_next),
        cmocka_unit_test(nobody_competes_again_before_its_callbacks_have_returned),
        cmocka_unit_test(a_lost_session_ends_the_term_and_begins_a_new_contest),
        cmocka_unit_test(an_answer_of_the_lost_session_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
