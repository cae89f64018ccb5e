/*
 * place_test.c - a waiter that comes too late for its reservation has its old place, and more time
 * the next time. One that does not come at all costs the others one reservation.
 */
#include "server.h"

#include "backend/host.h"

#define SHORT_MS 20 /* a reservation that a waiter misses */

static struct host owner, waiter;
static const char *mutex; /* of the test */

static struct call acquire(struct host *host, const char *id)
{
    struct call call = host_reserve(host, SIMBA_OP_ACQUIRE, mutex, id, 0, SHORT_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

static void give_back(struct host *host, const struct call *held)
{
    assert_int_equal(host_reserve(host, SIMBA_OP_RELEASE, held->request.mutex, held->request.id,
                                  held->revision, SHORT_MS)
                         .code,
                     SIMBA_OK);
}

static bool owns(struct call *call, const char *id)
{
    *call = acquire(&owner, id);
    return strcmp(call->owner, id) == 0;
}

static bool next_owns(void *call)
{
    return owns(call, "n");
}

static bool third_owns(void *call)
{
    return owns(call, "x");
}

static void two_wait_and_the_first_misses_its_reservation(struct call *ret_held)
{
    struct call held;

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server.url), SIMBA_OK);
    held = acquire(&owner, "a");
    assert_string_equal(acquire(&waiter, "w").owner, "a");
    assert_string_equal(acquire(&owner, "n").owner, "a");
    give_back(&owner, &held);
    assert_true(test_wait(next_owns, ret_held));
    assert_string_equal(acquire(&owner, "x").owner, "n");
}

/* Otherwise one that is always a little late would never own. */
static void a_waiter_that_comes_too_late_has_its_old_place_and_more_time(void **state)
{
    struct call held;
    struct call rival;

    mutex = "late";
    two_wait_and_the_first_misses_its_reservation(&held);
    assert_string_equal(acquire(&waiter, "w").owner, "n");
    assert_int_equal(host_place(&waiter, mutex, "w"), 1); /* before x */
    give_back(&owner, &held);
    rival = acquire(&owner, "x");
    assert_string_equal(rival.owner, "");
    assert_true(rival.reserved_left_ms > SHORT_MS);
    held = acquire(&waiter, "w");
    assert_string_equal(held.owner, "w");
    give_back(&waiter, &held);
    host_do(&owner, SIMBA_OP_RELEASE, mutex, "x", 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* One that is always late costs the others a second for each time that it was at the front, and not
 * for each release. */
static void a_waiter_that_misses_the_longer_reservation_too_loses_its_place(void **state)
{
    struct call held;

    mutex = "later";
    two_wait_and_the_first_misses_its_reservation(&held);
    assert_string_equal(acquire(&waiter, "w").owner, "n");
    give_back(&owner, &held);
    assert_true(test_wait(third_owns, &held));
    assert_string_equal(acquire(&owner, "n").owner, "x");
    assert_string_equal(acquire(&waiter, "w").owner, "x");
    assert_int_equal(host_place(&waiter, mutex, "w"), 2); /* behind n */
    give_back(&owner, &held);
    held = acquire(&owner, "n");
    assert_string_equal(held.owner, "n");
    host_do(&waiter, SIMBA_OP_RELEASE, mutex, "w", 0);
    give_back(&owner, &held);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* The twin: it hangs, so nothing is reserved for it any more. */
static void a_waiter_that_does_not_come_again_costs_one_reservation(void **state)
{
    struct call held;

    mutex = "hung";
    two_wait_and_the_first_misses_its_reservation(&held);
    give_back(&owner, &held);
    held = acquire(&owner, "x");
    assert_string_equal(held.owner, "x");
    give_back(&owner, &held);
    held = acquire(&owner, "n");
    assert_string_equal(held.owner, "n");
    give_back(&owner, &held);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_that_comes_too_late_has_its_old_place_and_more_time),
        cmocka_unit_test(a_waiter_that_misses_the_longer_reservation_too_loses_its_place),
        cmocka_unit_test(a_waiter_that_does_not_come_again_costs_one_reservation),
    };

    return server_run_tests("place", tests);
}
