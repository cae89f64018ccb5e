/*
 * follow_test.c - a contender that waits and has on_notify is told of the owners between others: on
 * PostgreSQL because a release is announced to all waiters, on MySQL within the looks for waiters.
 */
/* On PostgreSQL a waiter that was reserved for and lost to a newcomer may be passed over by the
 * next release: it comes when the lease ends that it knows of. */
#define FOLLOW_LEASE_MS 1500

#include "server.h"
#include "tck/follow.h"

static void a_waiter_is_told_who_owns(void **state)
{
    (void)state;
    follow_assert_told(server.url, NULL, FOLLOW_SOON_MS + 2 * FOLLOW_LEASE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_who_owns),
    };

    return server_run_tests("follow", tests);
}
