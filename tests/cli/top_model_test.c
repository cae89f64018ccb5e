/*
 * top_model_test.c - the rows of `simba top`: what two looks tell, the order, the filter, the
 * selection.
 */
#include "test.h"

#include "cli/top_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct cli_top_model model;

static int set_up(void **state)
{
    model = (struct cli_top_model){.rows = NULL};
    return 0;
}

static int tear_down(void **state)
{
    cli_top_free(&model);
    return 0;
}

/* Held by `id` with a lease that is to be renewed at `ttl_at_ms` and ends 5 s later. */
static struct simba_mutex_status held(const char *mutex, const char *id, uint64_t fence,
                                      int64_t ttl_at_ms)
{
    struct simba_mutex_status entry = {.since_ms = 0};

    snprintf(entry.mutex, sizeof entry.mutex, "%s", mutex);
    snprintf(entry.owner.id, sizeof entry.owner.id, "%s", id);
    entry.owner.fence = fence;
    entry.owner.ttl_at_ms = ttl_at_ms;
    entry.owner.transition_at_ms = ttl_at_ms + 5000;
    return entry;
}

static struct simba_mutex_status unowned(const char *mutex)
{
    struct simba_mutex_status entry = {.owner = SIMBA_OWNER_NONE};

    snprintf(entry.mutex, sizeof entry.mutex, "%s", mutex);
    return entry;
}

static void look(int64_t now_ms, struct simba_mutex_status entry)
{
    assert_true(cli_top_look(&model, &entry, 1, now_ms));
}

static void a_new_token_is_a_hand_over(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    look(1001000, held("m", "a", 7, 1011000));
    assert_int_equal(cli_top_handovers(&model, 1001000), 0);
    look(1002000, held("m", "b", 8, 1012000));
    look(1003000, held("m", "b", 9, 1013000));
    assert_int_equal(cli_top_handovers(&model, 1003000), 2);
    assert_int_equal(model.rows[0].handovers, 2);
    assert_int_equal(model.losses, 0);
    assert_int_equal(model.event.what, CLI_TOP_HANDED_OVER);
    assert_string_equal(model.event.from, "b");
}

static void a_hand_over_is_seen_also_if_the_mutex_was_free_between_two_looks(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    look(1001000, unowned("m"));
    assert_int_equal(cli_top_handovers(&model, 1001000), 0);
    look(1002000, held("m", "b", 8, 1012000));
    assert_int_equal(cli_top_handovers(&model, 1002000), 1);
    assert_string_equal(model.event.from, "a");
    assert_string_equal(model.event.to, "b");
}

static void hand_overs_are_those_of_the_last_minute(void **state)
{
    look(1000000, held("m", "a", 1, 1010000));
    look(1001000, held("m", "b", 2, 1011000));
    look(1031000, held("m", "c", 3, 1041000));
    assert_int_equal(cli_top_handovers(&model, 1060000), 2);
    assert_int_equal(cli_top_handovers(&model, 1061000), 1);
    assert_int_equal(cli_top_handovers(&model, 1091000), 0);
    assert_int_equal(cli_top_handovers(&model, 9091000), 0);
    assert_int_equal(model.rows[0].handovers, 2);
}

static void a_token_that_is_not_known_is_no_new_term(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    look(1001000, held("m", "a", 0, 1011000));
    assert_int_equal(cli_top_handovers(&model, 1001000), 0);
}

/* Not renewed at 1000, and gone when its lease had ended at 6000. */
static void a_lease_that_runs_out_is_a_loss(void **state)
{
    look(1005000, held("m", "a", 7, 1001000));
    assert_true(model.rows[0].overdue);
    look(1007000, unowned("m"));
    assert_int_equal(model.losses, 1);
    assert_int_equal(model.event.what, CLI_TOP_LOST);
    look(1008000, held("m", "b", 8, 1018000));
    assert_int_equal(model.losses, 1);
    assert_int_equal(cli_top_handovers(&model, 1008000), 1);
}

/* SQL stores keep the row of an owner whose lease has ended. */
static void an_owner_whose_lease_has_ended_on_the_store_is_a_loss(void **state)
{
    look(1005000, held("m", "a", 7, 1001000));
    look(1007000, held("m", "a", 7, 1001000));
    assert_int_equal(model.losses, 1);
    assert_int_equal(model.held, 0);
    look(1008000, held("m", "a", 7, 1001000));
    assert_int_equal(model.losses, 1);
}

static void a_release_is_no_loss(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    look(1001000, unowned("m"));
    assert_int_equal(model.losses, 0);
    /* also if the renewal was late, but the next term began before the lease ended */
    look(1002000, held("m", "a", 8, 1001000));
    struct simba_mutex_status next = held("m", "b", 9, 1020000);
    next.since_ms = 1003000;
    look(1010000, next);
    assert_int_equal(model.losses, 0);
    /* nor with looks further apart than a lease, when it was renewed in time before */
    look(1050000, unowned("m"));
    assert_int_equal(model.losses, 0);
}

static void a_lease_without_an_end_is_never_lost(void **state)
{
    struct simba_mutex_status entry = held("m", "a", 7, 0);

    entry.owner.ttl_at_ms = entry.owner.transition_at_ms = SIMBA_INFINITE;
    look(1000000, entry);
    look(9000000, unowned("m"));
    assert_int_equal(model.losses, 0);
}

static void a_mutex_that_became_free_stays_for_a_minute(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    look(1001000, unowned("m"));
    assert_int_equal(model.shown_count, 1);
    look(1060999, unowned("m"));
    assert_int_equal(model.shown_count, 1);
    look(1061000, unowned("m"));
    assert_int_equal(model.shown_count, 0);
    model.all = true;
    cli_top_arrange(&model, 1061000);
    assert_int_equal(model.shown_count, 1);
}

static void a_mutex_that_the_store_forgets_is_free_and_then_gone(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    assert_true(cli_top_look(&model, NULL, 0, 1001000));
    assert_int_equal(model.count, 1);
    assert_int_equal(model.held, 0);
    look(1002000, held("m", "b", 8, 1012000));
    assert_int_equal(model.rows[0].handovers, 1);
    assert_true(cli_top_look(&model, NULL, 0, 1003000));
    assert_true(cli_top_look(&model, NULL, 0, 1063000));
    assert_int_equal(model.count, 0);
}

static void a_term_without_a_date_begins_when_it_is_seen_first(void **state)
{
    look(1000000, held("m", "a", 7, 1010000));
    assert_int_equal(model.rows[0].now.since_ms, 0);
    look(1001000, held("m", "b", 8, 1011000));
    look(1002000, held("m", "b", 8, 1011000));
    assert_int_equal(model.rows[0].now.since_ms, 1001000);
}

/* ---- What is shown --------------------------------------------------------------------------- */

static void three_rows(void)
{
    struct simba_mutex_status list[] = {held("c", "host1", 1, 1010000),
                                        held("a", "host2", 1, 1010000),
                                        held("b", "host3", 1, 1010000)};

    list[0].since_ms = 500000;
    list[0].waiters = 1;
    list[1].since_ms = 900000;
    list[2].since_ms = 700000;
    list[2].waiters = 5;
    assert_true(cli_top_look(&model, list, 3, 1000000));
}

static const char *order(void)
{
    static char names[16];
    size_t used = 0;

    for (size_t i = 0; i < model.shown_count; i++)
        names[used++] = model.shown[i]->now.mutex[0];
    names[used] = 0;
    return names;
}

static void assert_order(enum cli_top_sort sort, const char *expected)
{
    model.sort = sort;
    cli_top_arrange(&model, 1001000);
    assert_string_equal(order(), expected);
}

static void rows_are_sorted(void **state)
{
    three_rows();
    assert_int_equal(model.held, 3);
    assert_int_equal(model.waiting, 6);
    assert_order(CLI_TOP_BY_NAME, "abc");
    assert_order(CLI_TOP_BY_SINCE, "cba");
    assert_order(CLI_TOP_BY_WAITERS, "bca");
    model.rows[2].handovers = 4;
    assert_order(CLI_TOP_BY_HANDOVERS, "cab");
}

static void assert_filtered(const char *filter, const char *expected)
{
    snprintf(model.filter, sizeof model.filter, "%s", filter);
    cli_top_arrange(&model, 1001000);
    assert_string_equal(order(), expected);
}

static void a_filter_is_a_pattern_or_a_part(void **state)
{
    three_rows();
    assert_filtered("host", "abc");
    assert_filtered("host3", "b");
    assert_filtered("[ab]", "ab");
    assert_filtered("h*", "");
    assert_filtered("c", "c");
    assert_filtered("", "abc");
}

static void the_selection_stays_with_its_mutex(void **state)
{
    three_rows();
    cli_top_move(&model, 1);
    assert_string_equal(cli_top_selected(&model)->now.mutex, "b");
    assert_order(CLI_TOP_BY_WAITERS, "bca");
    assert_string_equal(cli_top_selected(&model)->now.mutex, "b");
    cli_top_move(&model, -100);
    assert_string_equal(cli_top_selected(&model)->now.mutex, "b");
    cli_top_move(&model, 100);
    assert_string_equal(cli_top_selected(&model)->now.mutex, "a");
    assert_filtered("c", "c");
    assert_string_equal(cli_top_selected(&model)->now.mutex, "c");
    assert_filtered("nothing", "");
    assert_null(cli_top_selected(&model));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_new_token_is_a_hand_over),
        CASE(a_hand_over_is_seen_also_if_the_mutex_was_free_between_two_looks),
        CASE(hand_overs_are_those_of_the_last_minute),
        CASE(a_token_that_is_not_known_is_no_new_term),
        CASE(a_lease_that_runs_out_is_a_loss),
        CASE(an_owner_whose_lease_has_ended_on_the_store_is_a_loss),
        CASE(a_release_is_no_loss),
        CASE(a_lease_without_an_end_is_never_lost),
        CASE(a_mutex_that_became_free_stays_for_a_minute),
        CASE(a_mutex_that_the_store_forgets_is_free_and_then_gone),
        CASE(a_term_without_a_date_begins_when_it_is_seen_first),
        CASE(rows_are_sorted),
        CASE(a_filter_is_a_pattern_or_a_part),
        CASE(the_selection_stays_with_its_mutex),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
