/*
 * The lifecycle: every pair of statuses is tried, so that a move can neither be missing nor sneak
 * in.
 */
#include "core/status.h"
#include "test.h"

static const enum simba_status all[] = {SIMBA_INITIAL, SIMBA_STARTING, SIMBA_RUNNING,
                                        SIMBA_STOPPING};

static const enum simba_status legal[][2] = {
    {SIMBA_INITIAL, SIMBA_STARTING},  {SIMBA_STARTING, SIMBA_RUNNING},
    {SIMBA_STARTING, SIMBA_STOPPING}, {SIMBA_RUNNING, SIMBA_STOPPING},
    {SIMBA_STOPPING, SIMBA_INITIAL},
};

static bool is_legal(enum simba_status from, enum simba_status to)
{
    for (size_t i = 0; i < TEST_COUNT(legal); i++)
        if (legal[i][0] == from && legal[i][1] == to)
            return true;
    return false;
}

static void legal_moves_are_allowed_and_no_others(void **state)
{
    for (size_t from = 0; from < TEST_COUNT(all); from++)
        for (size_t to = 0; to < TEST_COUNT(all); to++)
            assert_int_equal(sb_status_may_move(all[from], all[to]), is_legal(all[from], all[to]));
}

static void numbers_that_are_no_status_move_nowhere(void **state)
{
    assert_false(sb_status_may_move((enum simba_status)4, SIMBA_INITIAL));
    assert_false(sb_status_may_move((enum simba_status) - 1, SIMBA_INITIAL));
    assert_false(sb_status_may_move(SIMBA_INITIAL, (enum simba_status)4));
}

static void every_status_has_its_name(void **state)
{
    assert_string_equal(simba_status_name(SIMBA_INITIAL), "INITIAL");
    assert_string_equal(simba_status_name(SIMBA_STARTING), "STARTING");
    assert_string_equal(simba_status_name(SIMBA_RUNNING), "RUNNING");
    assert_string_equal(simba_status_name(SIMBA_STOPPING), "STOPPING");
    assert_string_equal(simba_status_name((enum simba_status)99), "UNKNOWN");
}

static void starting_and_running_are_active(void **state)
{
    assert_false(simba_status_is_active(SIMBA_INITIAL));
    assert_true(simba_status_is_active(SIMBA_STARTING));
    assert_true(simba_status_is_active(SIMBA_RUNNING));
    assert_false(simba_status_is_active(SIMBA_STOPPING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_moves_are_allowed_and_no_others),
        cmocka_unit_test(numbers_that_are_no_status_move_nowhere),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(starting_and_running_are_active),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
