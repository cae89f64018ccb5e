/*
 * postgres_dead_test.c - a process that is killed while several of its contenders wait: each costs
 * the others a reservation, and none of them a lease.
 */
#include "server.h"

#include "backend/host.h"

#define RESERVE_MS 500
#define DEAD 3

static struct host owner, waiter, gone;

static struct call acquire(struct host *host, const char *id)
{
    struct call call = host_reserve(host, SIMBA_OP_ACQUIRE, "m", id, 0, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

static void give_back(struct host *host, const struct call *held)
{
    assert_int_equal(
        host_reserve(host, SIMBA_OP_RELEASE, "m", held->request.id, held->revision, RESERVE_MS)
            .code,
        SIMBA_OK);
}

static bool is_over(void *since_ms)
{
    return test_now_ms() - *(int64_t *)since_ms > RESERVE_MS + 5;
}

static bool waiter_owns(void *call)
{
    *(struct call *)call = acquire(&waiter, "w");
    return strcmp(((struct call *)call)->owner, "w") == 0;
}

/* Its rows stay, as those of a process that is killed. */
static void wait_and_die(void)
{
    assert_int_equal(host_open(&gone, server.url), SIMBA_OK);
    for (int i = 0; i < DEAD; i++) {
        char id[8];

        snprintf(id, sizeof id, "d%d", i);
        assert_string_equal(acquire(&gone, id).owner, "a");
    }
    assert_true(host_close(&gone));
}

static void a_waiter_behind_a_dead_process_is_told_when_to_come(void **state)
{
    struct call held;

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server.url), SIMBA_OK);
    held = acquire(&owner, "a");
    wait_and_die();
    waiter.ops->listen(waiter.backend, "m", "w", true);
    assert_string_equal(acquire(&waiter, "w").owner, "a");
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "", NULL)); /* it hears */
    for (int i = 0; i < DEAD; i++) {
        host_forget_notices(&waiter);
        give_back(i == 0 ? &owner : &waiter, &held);
        if (i > 0)
            acquire(&waiter, "w"); /* it joins again, behind the dead that are left */
        if (i == 0)
            assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RESERVED, "m", "w"));
        assert_true(test_wait(waiter_owns, &held));
    }
    give_back(&waiter, &held);
    held = acquire(&owner, "a");
    assert_string_equal(held.owner, "a"); /* no dead one is left */
    give_back(&owner, &held);
    assert_int_equal(
        server_number(&server, "SELECT count(*) FROM simba_waiter WHERE reserved_until = 0"), 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* By the first release of each span of the clock that is as long as a reservation. */
static void the_last_in_line_is_told_as_well_in_case_the_first_two_hang(void **state)
{
    struct call held;
    int64_t since_ms = test_now_ms();

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server.url), SIMBA_OK);
    held = acquire(&owner, "a");
    acquire(&owner, "b");
    acquire(&owner, "c");
    waiter.ops->listen(waiter.backend, "m", "w", true);
    assert_int_equal(acquire(&waiter, "w").place, 3);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "", NULL)); /* it hears */
    assert_true(test_wait(is_over, &since_ms));
    give_back(&owner, &held);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_STANDBY, "m", "w"));
    host_do(&waiter, SIMBA_OP_RELEASE, "m", "w", 0);
    host_do(&owner, SIMBA_OP_RELEASE, "m", "c", 0);
    host_do(&owner, SIMBA_OP_RELEASE, "m", "b", 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_in_line_is_told_as_well_in_case_the_first_two_hang),
        cmocka_unit_test(a_waiter_behind_a_dead_process_is_told_when_to_come),
    };

    return server_run_tests("dead", tests);
}
