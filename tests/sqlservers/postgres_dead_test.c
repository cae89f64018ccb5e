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

/* ---- The last in line, in case the first two hang -------------------------------------------- */

#define FEW 16 /* behind the first: each release tells the last */

/* The ids that wait are a number each. "w" is the last, and hears. */
static struct call own_before(int behind_first)
{
    struct call held;
    char id[16];

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server.url), SIMBA_OK);
    held = acquire(&owner, "a");
    for (int i = 0; i < behind_first; i++) {
        snprintf(id, sizeof id, "%d", i);
        acquire(&owner, id);
    }
    waiter.ops->listen(waiter.backend, "m", "w", true);
    assert_int_equal(acquire(&waiter, "w").place, behind_first + 1);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "", NULL)); /* it hears */
    return held;
}

static void all_leave(int behind_first)
{
    char id[16];

    host_do(&waiter, SIMBA_OP_RELEASE, "m", "w", 0);
    for (int i = behind_first; i-- > 0;) {
        snprintf(id, sizeof id, "%d", i);
        host_do(&owner, SIMBA_OP_RELEASE, "m", id, 0);
    }
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* A term that lies in one span of the clock that is as long as a reservation. */
static void give_back_within_a_span(const struct call *held)
{
    assert_int_equal(
        host_reserve(&owner, SIMBA_OP_RELEASE, "m", "a", held->revision, INT64_C(1) << 40).code,
        SIMBA_OK);
}

/* By the first release of each such span. */
static void the_last_of_a_crowd_is_told_now_and_then(void **state)
{
    struct call held = own_before(FEW + 1);
    int64_t since_ms = test_now_ms();

    assert_true(test_wait(is_over, &since_ms));
    give_back(&owner, &held);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_STANDBY, "m", "w"));
    all_leave(FEW + 1);
}

/* The notices of one client come in their order. */
static void the_last_of_a_crowd_is_not_told_of_each_release(void **state)
{
    struct call held = own_before(FEW + 1);

    host_forget_notices(&waiter);
    give_back_within_a_span(&held);
    server_sql(&server, "DELETE FROM simba_waiter WHERE id <> 'w'");
    host_do(&owner, SIMBA_OP_RELEASE, "m", "0", 0);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "m", "w"));
    assert_int_equal(host_notices(&waiter, SIMBA_NOTICE_STANDBY, "m", NULL), 0);
    all_leave(0);
}

static void the_last_of_few_is_told_of_each_release(void **state)
{
    struct call held = own_before(FEW);

    give_back_within_a_span(&held);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_STANDBY, "m", "w"));
    all_leave(FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_of_a_crowd_is_told_now_and_then),
        cmocka_unit_test(the_last_of_a_crowd_is_not_told_of_each_release),
        cmocka_unit_test(the_last_of_few_is_told_of_each_release),
        cmocka_unit_test(a_waiter_behind_a_dead_process_is_told_when_to_come),
    };

    return server_run_tests("dead", tests);
}
