/*
 * liveness_test.c - from when a proof counts, by a clock of the test's own.
 */
#include "test.h"

#include "backend/zookeeper/handle/session.h"

#define T 24000 /* the session timeout */
#define LEASE (T * 5 / 12)
#define OLDEST (T - LEASE) /* of a sync that a whole proof needs */
#define REPORT (T * 13 / 48)
#define RUN (T / 48)

static struct sb_zk_liveness liveness;

static int enter(void **state)
{
    memset(&liveness, 0, sizeof liveness);
    sb_zk_liveness_connect(&liveness, T, 1000);
    return 0;
}

static int64_t proof_at(int64_t now_ms)
{
    return sb_zk_liveness_proof_ms(&liveness, now_ms);
}

static void a_proof_counts_in_full_while_syncs_are_answered(void **state)
{
    int64_t step_ms = sb_zk_liveness_interval_ms(&liveness);

    for (int64_t now_ms = 1000; now_ms < 20 * T; now_ms += step_ms) {
        assert_int_equal(proof_at(now_ms), now_ms);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + T / 24);
        assert_int_equal(proof_at(now_ms + step_ms - 1), now_ms + step_ms - 1);
    }
}

static void many_answers_count_as_few_do(void **state)
{
    for (int64_t now_ms = 1000; now_ms < 5 * T; now_ms += 7) {
        assert_int_equal(proof_at(now_ms), now_ms);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + 5);
    }
}

static void a_proof_without_answers_ends_with_the_session_of_the_connection(void **state)
{
    assert_int_equal(proof_at(1000 + OLDEST), 1000 + OLDEST);
    assert_int_equal(proof_at(1000 + OLDEST + 1), 1000 + OLDEST);
    assert_int_equal(proof_at(1000 + 10 * T), 1000 + OLDEST);
}

/* Syncs come at any time that the interval allows. Twice as many as are remembered, and more. */
static void a_proof_counts_in_full_however_syncs_are_spread(void **state)
{
    int64_t step_ms = sb_zk_liveness_interval_ms(&liveness);
    int64_t now_ms = 1000;

    for (int i = 0; i < 2000; i++) {
        assert_int_equal(proof_at(now_ms), now_ms);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + 5);
        now_ms += i % 3 == 0 ? step_ms : (i * 37) % (step_ms - 10) + 10;
    }
}

/* Four syncs in a row, of which the second and the third come so early; returns from when the
 * fourth counts, for which the first one is too old. */
static int64_t proof_after_three(int64_t early_second_ms, int64_t early_third_ms)
{
    int64_t second_ms = 2010 + REPORT - early_second_ms;
    int64_t third_ms = second_ms + 10 + RUN - early_third_ms;

    enter(NULL);
    sb_zk_liveness_answer(&liveness, 2000, 2010);
    sb_zk_liveness_answer(&liveness, second_ms, second_ms + 10);
    sb_zk_liveness_answer(&liveness, third_ms, third_ms + 10);
    return proof_at(2 * T);
}

/* The leader pings between the answer to the first and that to the third. */
static void a_sync_counts_when_two_later_ones_were_answered(void **state)
{
    assert_int_equal(proof_after_three(1, 0), 1000 + OLDEST);
    assert_int_equal(proof_after_three(0, 1), 1000 + OLDEST);
    assert_int_equal(proof_after_three(0, 0), 2000 + OLDEST);
}

/* All that was sent while the leader stood still is answered when it goes on: before it pings. */
static void answers_that_come_together_prove_no_report(void **state)
{
    int64_t step_ms = sb_zk_liveness_interval_ms(&liveness);
    int64_t on_ms = 2000 + 8 * step_ms;
    int64_t late_ms = on_ms + 10 + RUN;

    sb_zk_liveness_answer(&liveness, 2000, 2010);
    for (int64_t sent_ms = 2000 + step_ms; sent_ms <= on_ms; sent_ms += step_ms)
        sb_zk_liveness_answer(&liveness, sent_ms, on_ms + 10);
    assert_int_equal(proof_at(on_ms + T), 1000 + OLDEST);
    sb_zk_liveness_answer(&liveness, late_ms - 1, late_ms);
    assert_int_equal(proof_at(on_ms + T), 1000 + OLDEST);
    sb_zk_liveness_answer(&liveness, late_ms, late_ms + 1);
    assert_int_equal(proof_at(on_ms + T), 2000 + OLDEST);
}

/* What is answered right after a standstill of the process was not reported yet. */
static void a_proof_after_a_standstill_counts_from_before_it(void **state)
{
    int64_t step_ms = sb_zk_liveness_interval_ms(&liveness);
    int64_t on_ms = 1000 + T * 3 / 4;
    int64_t now_ms = on_ms;

    for (; now_ms < on_ms + REPORT + RUN; now_ms += step_ms) {
        assert_int_equal(proof_at(now_ms), 1000 + OLDEST);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + 10);
    }
    for (int i = 0; i < 2; i++, now_ms += step_ms)
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + 10);
    assert_true(now_ms <= on_ms + T / 2);
    assert_int_equal(proof_at(now_ms), now_ms);
}

/* The leader counts a session that is resumed; what the older server may not have reported does not
 * matter any more. */
static void a_new_connection_counts_from_what_was_sent_before_it(void **state)
{
    sb_zk_liveness_answer(&liveness, 5000, 5010);
    sb_zk_liveness_connect(&liveness, T, 1000);
    assert_int_equal(proof_at(6000 + T), 5000 + OLDEST);
    sb_zk_liveness_answer(&liveness, 5000, 6000 + T); /* of the older one, late */
    assert_int_equal(proof_at(6000 + 2 * T), 5000 + OLDEST);
    sb_zk_liveness_connect(&liveness, T, 6000 + 2 * T);
    assert_int_equal(proof_at(6000 + 3 * T), 6000 + 2 * T + OLDEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_proof_counts_in_full_while_syncs_are_answered, enter),
        cmocka_unit_test_setup(a_proof_counts_in_full_however_syncs_are_spread, enter),
        cmocka_unit_test_setup(many_answers_count_as_few_do, enter),
        cmocka_unit_test_setup(a_proof_without_answers_ends_with_the_session_of_the_connection,
                               enter),
        cmocka_unit_test_setup(a_sync_counts_when_two_later_ones_were_answered, enter),
        cmocka_unit_test_setup(answers_that_come_together_prove_no_report, enter),
        cmocka_unit_test_setup(a_proof_after_a_standstill_counts_from_before_it, enter),
        cmocka_unit_test_setup(a_new_connection_counts_from_what_was_sent_before_it, enter)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
