/*
 * follow_test.c - a contender that waits and has on_notify is told of the owners between others by
 * a watch on the leader's node.
 */
#include "stage.h"
#include "tck/follow.h"

static void a_waiter_is_told_who_owns(void **state)
{
    follow_assert_told(server_url(&server, ""), NULL, FOLLOW_SOON_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_who_owns),
    };

    return cmocka_run_group_tests(tests, stage_start, stage_stop);
}
