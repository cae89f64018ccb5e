/*
 * postgres_dead_test.c - waiters that do not come in time. Those of a process that is killed: each
 * costs the others a reservation, and none of them a lease. One that comes too late for its
 * reservation has its old place, and more time the next time.
 */
#include "server.h"

#include "backend/host.h"

#define RESERVE_MS 500
#define SHORT_MS 20 /* a reservation that a waiter misses */
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

/* ---- Late ones ------------------------------------------------------------------------------- */

static struct call acquire_soon(struct host *host, const char *mutex, const char *id)
{
    struct call call = host_reserve(host, SIMBA_OP_ACQUIRE, mutex, id, 0, SHORT_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

static void give_back_soon(struct host *host, const struct call *held)
{
    assert_int_equal(host_reserve(host, SIMBA_OP_RELEASE, held->request.mutex, held->request.id,
                                  held->revision, SHORT_MS)
                         .code,
                     SIMBA_OK);
}

static bool next_owns(void *call)
{
    *(struct call *)call = acquire_soon(&owner, "slow", "n");
    return strcmp(((struct call *)call)->owner, "n") == 0;
}

static void two_wait_and_the_first_misses_its_reservation(struct call *ret_held)
{
    struct call held;

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server.url), SIMBA_OK);
    held = acquire_soon(&owner, "slow", "a");
    assert_string_equal(acquire_soon(&waiter, "slow", "w").owner, "a");
    assert_string_equal(acquire_soon(&owner, "slow", "n").owner, "a");
    give_back_soon(&owner, &held);
    assert_true(test_wait(next_owns, ret_held));
    assert_string_equal(acquire_soon(&owner, "slow", "x").owner, "n");
}

/* Otherwise one that is always a little late would never own. */
static void a_waiter_that_comes_too_late_has_its_old_place_and_more_time(void **state)
{
    struct call held;
    struct call rival;

    two_wait_and_the_first_misses_its_reservation(&held);
    assert_string_equal(acquire_soon(&waiter, "slow", "w").owner, "n");
    assert_int_equal(host_place(&waiter, "slow", "w"), 1); /* before x */
    give_back_soon(&owner, &held);
    rival = acquire_soon(&owner, "slow", "x");
    assert_string_equal(rival.owner, "");
    assert_true(rival.reserved_left_ms > SHORT_MS);
    held = acquire_soon(&waiter, "slow", "w");
    assert_string_equal(held.owner, "w");
    give_back_soon(&waiter, &held);
    host_do(&owner, SIMBA_OP_RELEASE, "slow", "x", 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* The twin: it hangs, so nothing is reserved for it any more. */
static void a_waiter_that_does_not_come_again_costs_one_reservation(void **state)
{
    struct call held;

    two_wait_and_the_first_misses_its_reservation(&held);
    give_back_soon(&owner, &held);
    held = acquire_soon(&owner, "slow", "x");
    assert_string_equal(held.owner, "x");
    give_back_soon(&owner, &held);
    held = acquire_soon(&owner, "slow", "n");
    assert_string_equal(held.owner, "n");
    give_back_soon(&owner, &held);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_that_comes_too_late_has_its_old_place_and_more_time),
        cmocka_unit_test(a_waiter_that_does_not_come_again_costs_one_reservation),
        cmocka_unit_test(a_waiter_behind_a_dead_process_is_told_when_to_come),
    };

    return server_run_tests("dead", tests);
}
