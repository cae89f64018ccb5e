/*
 * The contend period: exact delays, bounds over many random numbers, and times at the edge of
 * int64.
 */
#include "base/random.h"
#include "test.h"

#include <simba/simba.h>

#define NOW INT64_C(1000000)
#define ROUNDS 200000

static struct simba_owner lease(int64_t ttl_at_ms, int64_t transition_at_ms)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    owner.id[0] = 'a';
    owner.ttl_at_ms = ttl_at_ms;
    owner.transition_at_ms = transition_at_ms;
    return owner;
}

static void an_owner_waits_for_the_end_of_its_ttl(void **state)
{
    struct simba_owner owner = lease(NOW + 10000, NOW + 16000);

    assert_int_equal(simba_period_owner_delay_ms(&owner, NOW), 10000);
    assert_int_equal(simba_period_owner_delay_ms(&owner, NOW + 9999), 1);
    assert_int_equal(simba_period_owner_delay_ms(&owner, NOW + 10000), 0);
    assert_int_equal(simba_period_owner_delay_ms(&owner, NOW + 12000), 0);
}

struct bounds {
    int64_t least;
    int64_t most;
};

static struct bounds contender_bounds(int64_t left_ms, int64_t transition_ms, int64_t jitter_min_ms,
                                      int64_t jitter_max_ms)
{
    struct simba_owner owner = lease(NOW + left_ms - transition_ms, NOW + left_ms);
    struct bounds bounds = {INT64_MAX, INT64_MIN};
    uint64_t random = 42;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t delay = simba_period_contender_delay_ms(&owner, NOW, transition_ms, jitter_min_ms,
                                                        jitter_max_ms, sb_random_next(&random));

        bounds.least = delay < bounds.least ? delay : bounds.least;
        bounds.most = delay > bounds.most ? delay : bounds.most;
    }
    return bounds;
}

static void a_contender_waits_for_the_lease_with_a_jitter(void **state)
{
    struct bounds bounds = contender_bounds(16000, 6000, -200, 1000);

    assert_int_equal(bounds.least, 16000 - 200);
    assert_int_equal(bounds.most, 16000 + 999);
}

static void without_a_transition_nobody_comes_early(void **state)
{
    struct bounds bounds = contender_bounds(10000, 0, -200, 1000);

    assert_int_equal(bounds.least, 10000);
    assert_int_equal(bounds.most, 10000 + 999);
}

static void without_a_transition_a_late_range_stays(void **state)
{
    struct bounds bounds = contender_bounds(10000, 0, 50, 60);

    assert_int_equal(bounds.least, 10050);
    assert_int_equal(bounds.most, 10059);
}

static void a_contender_never_waits_less_than_nothing(void **state)
{
    struct bounds nearly_over = contender_bounds(100, 6000, -200, 1000);
    struct bounds long_over = contender_bounds(-5000, 6000, -200, 1000);

    assert_int_equal(nearly_over.least, 0);
    assert_int_equal(nearly_over.most, 1099);
    assert_int_equal(long_over.least, 0);
    assert_int_equal(long_over.most, 0);
}

static void an_empty_range_is_its_lower_bound(void **state)
{
    struct bounds none = contender_bounds(1000, 500, 0, 0);
    struct bounds turned = contender_bounds(1000, 500, 7, -7);

    assert_int_equal(none.least, 1000);
    assert_int_equal(none.most, 1000);
    assert_int_equal(turned.least, 1007);
    assert_int_equal(turned.most, 1007);
}

static void a_session_is_waited_for_without_end(void **state)
{
    struct simba_owner owner = lease(SIMBA_INFINITE, SIMBA_INFINITE);

    assert_int_equal(simba_period_owner_delay_ms(&owner, NOW), SIMBA_INFINITE);
    assert_int_equal(simba_period_contender_delay_ms(&owner, NOW, 6000, -200, 1000, 0),
                     SIMBA_INFINITE);
    assert_int_equal(simba_period_contender_delay_ms(&owner, NOW, 6000, -200, 1000, UINT64_MAX),
                     SIMBA_INFINITE);
}

static void extreme_times_do_not_overflow(void **state)
{
    struct simba_owner late = lease(INT64_MAX - 1, INT64_MAX - 1);
    struct simba_owner early = lease(INT64_MIN, INT64_MIN);

    assert_int_equal(simba_period_owner_delay_ms(&late, -10), SIMBA_INFINITE);
    assert_int_equal(simba_period_owner_delay_ms(&early, 10), 0);
    assert_int_equal(simba_period_contender_delay_ms(&late, 0, 1, 1000, 1001, 5), SIMBA_INFINITE);
    assert_int_equal(simba_period_contender_delay_ms(&late, INT64_MIN, 1, -5, 5, 5),
                     SIMBA_INFINITE);
    assert_int_equal(simba_period_contender_delay_ms(&early, INT64_MAX, 1, INT64_MIN, INT64_MAX, 5),
                     0);
}

static void nobody_is_not_waited_for(void **state)
{
    struct simba_owner none = SIMBA_OWNER_NONE;

    assert_int_equal(simba_period_owner_delay_ms(&none, NOW), 0);
    assert_int_equal(simba_period_contender_delay_ms(&none, NOW, 6000, -200, 1000, 7), 0);
}

static void the_margin_is_a_hundredth_and_ten(void **state)
{
    assert_int_equal(simba_drift_margin_ms(0), 10);
    assert_int_equal(simba_drift_margin_ms(16000), 170);
    assert_int_equal(simba_drift_margin_ms(700), 17);
    assert_int_equal(simba_drift_margin_ms(-5), 10);
    assert_int_equal(simba_drift_margin_ms(INT64_MIN), 10);
    assert_int_equal(simba_drift_margin_ms(SIMBA_INFINITE), INT64_MAX / 100 + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_waits_for_the_end_of_its_ttl),
        cmocka_unit_test(a_contender_waits_for_the_lease_with_a_jitter),
        cmocka_unit_test(without_a_transition_nobody_comes_early),
        cmocka_unit_test(without_a_transition_a_late_range_stays),
        cmocka_unit_test(a_contender_never_waits_less_than_nothing),
        cmocka_unit_test(an_empty_range_is_its_lower_bound),
        cmocka_unit_test(a_session_is_waited_for_without_end),
        cmocka_unit_test(extreme_times_do_not_overflow),
        cmocka_unit_test(nobody_is_not_waited_for),
        cmocka_unit_test(the_margin_is_a_hundredth_and_ten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
