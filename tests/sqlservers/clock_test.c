/*
 * clock_test.c - steps of the server's clock. Leases are on it, so a step moves them; what must not
 * happen is that a token goes back, that somebody is locked out for good, or that an owner is not
 * told.
 */
#include "backend/host.h"
#include "lib/locker.h"
#include "server.h"

#include <simba/simba.h>

#include <stdatomic.h>

#define HOUR 3600
#define RESERVE_MS 900
#define LEASE "ttl=300ms&transition=900ms&jitter=0ms..50ms"

static struct server stepped;

static int setup(void **state)
{
    server_create(&stepped, true);
    return 0;
}

static int teardown(void **state)
{
    server_destroy(&stepped);
    return 0;
}

static simba_client *open_client(void)
{
    struct simba_error error;
    simba_client *client = NULL;

    if (simba_client_open(server_url(&stepped, dialect_admin, LEASE), NULL, &client, &error) !=
        SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

static simba_locker *lock(simba_client *client, const char *mutex)
{
    struct simba_error error;
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, mutex, NULL, &locker, NULL), SIMBA_OK);
    if (simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return locker;
}

struct held {
    simba_locker *locker;
    int64_t deadline_ms;
};

static bool is_renewed(void *user)
{
    const struct held *held = user;

    return simba_locker_deadline_ms(held->locker) > held->deadline_ms + 500;
}

static bool is_lost(void *user)
{
    return !simba_locker_is_held(user);
}

static int64_t server_clock(void)
{
    return server_number(&stepped, "SELECT max(acquired_at) FROM simba_mutex");
}

/* An hour back: the owner goes on, and gives it back as if nothing had happened. */
static void a_step_back_takes_nothing_from_the_owner(void **state)
{
    simba_client *client = open_client();
    simba_client *other = open_client();
    simba_locker *locker = lock(client, "back");
    struct held held = {locker, simba_locker_deadline_ms(locker)};
    int64_t before_ms = server_clock();
    uint64_t fence = simba_locker_fence(locker);
    simba_locker *next;

    server_step_clock(&stepped, -HOUR);
    assert_true(test_wait(is_renewed, &held));
    assert_true(server_clock() < before_ms - HOUR * 500); /* the step has arrived */
    assert_true(simba_locker_is_held(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    next = lock(other, "back");
    assert_true(simba_locker_fence(next) > fence);
    simba_locker_close(next);
    simba_locker_close(locker);
    simba_client_close(other, NULL);
    simba_client_close(client, NULL);
    server_step_clock(&stepped, 0);
}

/* An hour ahead: the lease is over by the server's clock. The owner finds out at its next renewal,
 * and the next term has a larger token. */
static void a_step_ahead_ends_the_term_and_the_owner_is_told(void **state)
{
    simba_client *client = open_client();
    simba_client *other = open_client();
    simba_locker *locker = lock(client, "ahead");
    uint64_t fence = simba_locker_fence(locker);
    simba_locker *next;

    server_step_clock(&stepped, HOUR);
    assert_true(test_wait(is_lost, locker));
    next = lock(other, "ahead");
    assert_true(simba_locker_fence(next) > fence);
    assert_false(simba_locker_is_held(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    simba_locker_close(next);
    simba_locker_close(locker);
    simba_client_close(other, NULL);
    simba_client_close(client, NULL);
    server_step_clock(&stepped, 0);
}

static struct call ask(struct host *host, enum simba_op op, const char *id, uint64_t revision)
{
    struct call call = host_reserve(host, op, "win", id, revision, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

/* What the store keeps of it would count for an hour. */
static void a_waiter_that_wins_before_a_step_back_leaves_no_place(void **state)
{
    struct host owner, waiter;
    struct call held;

    assert_int_equal(host_open(&owner, stepped.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, stepped.url), SIMBA_OK);
    server_step_clock(&stepped, HOUR);
    held = ask(&owner, SIMBA_OP_ACQUIRE, "a", 0);
    assert_string_equal(ask(&waiter, SIMBA_OP_ACQUIRE, "b", 0).owner, "a");
    ask(&owner, SIMBA_OP_RELEASE, "a", held.revision);
    held = ask(&waiter, SIMBA_OP_ACQUIRE, "b", 0);
    assert_string_equal(held.owner, "b");
    ask(&waiter, SIMBA_OP_RELEASE, "b", held.revision);
    server_step_clock(&stepped, 0);
    assert_string_equal(server_sql(&stepped,
                                   "SELECT count(*) FROM simba_waiter WHERE mutex = 'win'%s",
                                   dialect_counts),
                        "0");
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_back_takes_nothing_from_the_owner),
        cmocka_unit_test(a_step_ahead_ends_the_term_and_the_owner_is_told),
        cmocka_unit_test(a_waiter_that_wins_before_a_step_back_leaves_no_place),
    };

    if (!server_is_installed() || access(SERVER_FAKETIME_LIBRARY, R_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("clock", tests, setup, teardown);
}
