/*
 * liveness_test.c - from when a proof counts, by a clock of the test's own.
 */
#include "test.h"

#include "backend/zookeeper/handle/session.h"

#define T 24000 /* the session timeout */
#define LEASE (T * 5 / 12)
#define OLDEST (T - LEASE) /* of a request that a whole proof needs */
#define REPORT (T * 7 / 24)

static struct sb_zk_liveness liveness;

static int enter(void **state)
{
    (void)state;
    memset(&liveness, 0, sizeof liveness);
    sb_zk_liveness_connect(&liveness, T, 1000);
    return 0;
}

static int64_t proof_at(int64_t now_ms)
{
    return sb_zk_liveness_proof_ms(&liveness, now_ms);
}

static void a_proof_counts_in_full_while_requests_are_answered(void **state)
{
    int64_t step_ms = sb_zk_liveness_interval_ms(&liveness);

    (void)state;
    for (int64_t now_ms = 1000; now_ms < 20 * T; now_ms += step_ms) {
        assert_int_equal(proof_at(now_ms), now_ms);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + T / 24);
        assert_int_equal(proof_at(now_ms + step_ms - 1), now_ms + step_ms - 1);
    }
}

static void many_answers_count_as_few_do(void **state)
{
    (void)state;
    for (int64_t now_ms = 1000; now_ms < 5 * T; now_ms += 7) {
        assert_int_equal(proof_at(now_ms), now_ms);
        sb_zk_liveness_answer(&liveness, now_ms, now_ms + 5);
    }
}

static void a_proof_without_answers_ends_with_the_session_of_the_connection(void **state)
{
    (void)state;
    assert_int_equal(proof_at(1000 + OLDEST), 1000 + OLDEST);
    assert_int_equal(proof_at(1000 + OLDEST + 1), 1000 + OLDEST);
    assert_int_equal(proof_at(1000 + 10 * T), 1000 + OLDEST);
}

/* What is answered right after a standstill was not reported yet. */
static void a_proof_after_a_standstill_counts_from_before_it(void **state)
{
    int64_t on_ms = 2000 + T * 3 / 4;

    (void)state;
    sb_zk_liveness_answer(&liveness, 2000, 2010);
    assert_int_equal(proof_at(on_ms), 2000 + OLDEST);
    sb_zk_liveness_answer(&liveness, on_ms, on_ms + 10);
    assert_int_equal(proof_at(on_ms + 20), 2000 + OLDEST);
    assert_int_equal(proof_at(on_ms + 10 + REPORT - 1), 2000 + OLDEST);
    assert_int_equal(proof_at(on_ms + 10 + REPORT), on_ms + 10 + REPORT);
}

/* The leader counts a session that is resumed; what the older server may not have reported does not
 * matter any more. */
static void a_new_connection_counts_from_what_was_sent_before_it(void **state)
{
    (void)state;
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
        cmocka_unit_test_setup(a_proof_counts_in_full_while_requests_are_answered, enter),
        cmocka_unit_test_setup(many_answers_count_as_few_do, enter),
        cmocka_unit_test_setup(a_proof_without_answers_ends_with_the_session_of_the_connection,
                               enter),
        cmocka_unit_test_setup(a_proof_after_a_standstill_counts_from_before_it, enter),
        cmocka_unit_test_setup(a_new_connection_counts_from_what_was_sent_before_it, enter)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
