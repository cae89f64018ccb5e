/*
 * pending_test.c - the requests that wait for a worker: when they are due, and which go together.
 */
#include "test.h"

#include "backend/sql/batch.h"

#define LATER_MS 60000

static struct sb_sql_pending pending;
static struct sb_sql_batch batch;
static struct simba_request request;

static void add(size_t count, int64_t due_in_ms, unsigned attempts)
{
    const struct sb_sql_pending_entry entry = {&request, simba_now_ms() + 2 * LATER_MS,
                                               simba_now_ms() + due_in_ms, attempts};

    for (size_t i = 0; i < count; i++)
        assert_true(sb_sql_pending_add(&pending, &entry));
}

static int teardown(void **state)
{
    sb_sql_pending_clear(&pending);
    return 0;
}

static void what_is_due_is_taken_and_the_blocked_stay_behind(void **state)
{
    add(2, 0, 0);
    add(1, LATER_MS, 1);
    assert_true(sb_sql_pending_due_ms(&pending) <= simba_now_ms());
    sb_sql_pending_take(&pending, &batch, false);
    assert_int_equal(batch.count, 2);
    assert_int_equal(pending.count, 1);
}

static void a_blocked_one_that_is_due_goes_by_itself(void **state)
{
    add(2, LATER_MS, 0);
    add(1, 0, 1);
    sb_sql_pending_take(&pending, &batch, false);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.jobs[0].attempts, 1);
}

/* Otherwise the worker would be told that there is work, and get none, until the blocked one is
 * due. */
static void a_full_batch_does_not_wait_for_a_blocked_one(void **state)
{
    add(1, LATER_MS / 2, 1);
    add(SB_SQL_BATCH_MAX, LATER_MS, 0);
    assert_int_equal(sb_sql_pending_due_ms(&pending), 0);
    sb_sql_pending_take(&pending, &batch, false);
    assert_int_equal(batch.count, SB_SQL_BATCH_MAX);
    assert_int_equal(batch.jobs[0].attempts, 0);
    assert_true(sb_sql_pending_due_ms(&pending) > simba_now_ms());
}

static void at_the_end_everything_is_taken(void **state)
{
    add(1, LATER_MS / 2, 1);
    add(1, LATER_MS, 0);
    sb_sql_pending_take(&pending, &batch, true);
    assert_int_equal(batch.count, 1);
    sb_sql_pending_take(&pending, &batch, true);
    assert_int_equal(batch.count, 1);
    assert_int_equal(pending.count, 0);
}

#define ON_QUEUE(test) cmocka_unit_test_teardown(test, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_QUEUE(what_is_due_is_taken_and_the_blocked_stay_behind),
        ON_QUEUE(a_blocked_one_that_is_due_goes_by_itself),
        ON_QUEUE(a_full_batch_does_not_wait_for_a_blocked_one),
        ON_QUEUE(at_the_end_everything_is_taken),
    };

    return cmocka_run_group_tests_name("pending", tests, NULL, NULL);
}
