/*
 * follow_test.c - a contender that waits and has on_notify is told of the owners between others: on
 * PostgreSQL because a release is announced to all waiters, on MySQL within the looks for waiters.
 */
#include "server.h"
#include "tck/follow.h"

static void a_waiter_is_told_who_owns(void **state)
{
    follow_assert_told(server.url, NULL, FOLLOW_SOON_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_who_owns),
    };

    return server_run_tests("follow", tests);
}
