/*
 * What waits to be told merges with what comes.
 */
#include "core/report.h"

#include "test.h"

#include <string.h>

static struct sb_step change(const char *before, const char *after, bool acquired, bool released)
{
    struct sb_step step = {.changed = true, .acquired = acquired, .released = released};

    strcpy(step.state.before.id, before);
    strcpy(step.state.after.id, after);
    return step;
}

static void a_step_without_a_change_is_not_told(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step step = {.changed = false};

    assert_int_equal(sb_report_keep(&report, &step), 0);
    assert_false(report.pending);
}

static void a_change_is_taken_once(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step step = change("", "me", true, false);
    struct sb_report taken;

    assert_int_equal(sb_report_keep(&report, &step), 0);
    taken = sb_report_take(&report);
    assert_true(taken.pending && taken.acquired && !taken.released);
    assert_string_equal(taken.state.after.id, "me");
    assert_false(sb_report_take(&report).pending);
}

static void what_waits_goes_on_from_where_it_began(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step first = change("me", "", false, true);
    struct sb_step second = change("", "them", false, false);

    assert_int_equal(sb_report_keep(&report, &first), 0);
    assert_int_equal(sb_report_keep(&report, &second), 1);
    assert_string_equal(report.state.before.id, "me");
    assert_string_equal(report.state.after.id, "them");
    assert_true(report.released && !report.acquired);
}

static void a_term_that_was_lost_untold_is_not_told(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step won = change("them", "me", true, false);
    struct sb_step lost = change("me", "", false, true);

    sb_report_keep(&report, &won);
    assert_int_equal(sb_report_keep(&report, &lost), 1);
    assert_false(report.acquired || report.released);
    assert_string_equal(report.state.before.id, "them");
    assert_string_equal(report.state.after.id, "");
}

static void a_renewal_gives_way_to_a_change(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step won = change("", "me", true, false);
    struct sb_step lost = change("me", "", false, true);
    struct sb_step renewed = change("me", "me", false, false);

    renewed.changed = false;
    renewed.renewed = true;
    assert_int_equal(sb_report_keep(&report, &renewed), 0);
    assert_true(report.renewed);
    assert_int_equal(sb_report_keep(&report, &renewed), 1);
    assert_true(report.pending && report.renewed);
    assert_int_equal(sb_report_keep(&report, &lost), 1);
    assert_true(report.released && !report.renewed);
    sb_report_take(&report);
    sb_report_keep(&report, &won);
    assert_int_equal(sb_report_keep(&report, &renewed), 1);
    assert_true(report.acquired && !report.renewed);
}

static void what_is_dropped_has_no_callback(void **state)
{
    struct sb_report report = {.pending = false};
    struct sb_step step = change("", "me", true, false);

    assert_int_equal(sb_report_drop(&report), 0);
    sb_report_keep(&report, &step);
    assert_int_equal(sb_report_drop(&report), 1);
    assert_false(report.pending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_without_a_change_is_not_told),
        cmocka_unit_test(a_change_is_taken_once),
        cmocka_unit_test(what_waits_goes_on_from_where_it_began),
        cmocka_unit_test(a_term_that_was_lost_untold_is_not_told),
        cmocka_unit_test(a_renewal_gives_way_to_a_change),
        cmocka_unit_test(what_is_dropped_has_no_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
