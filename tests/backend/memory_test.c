/*
 * memory_test.c - what the memory store adds to the operations: the wait queue, notices across
 * clients, and stores that live as long as somebody uses them.
 */
#include "host.h"

#include <stdatomic.h>

static int64_t waiters(struct host *host, const char *mutex)
{
    return host_do(host, SIMBA_OP_READ, mutex, NULL, 0).waiters;
}

static void a_release_wakes_the_oldest_waiter(void **state)
{
    struct host owner;
    struct host other;
    struct call call;

    assert_int_equal(host_open(&owner, "memory:wake"), SIMBA_OK);
    assert_int_equal(host_open(&other, "memory:wake"), SIMBA_OK);
    call = host_do(&owner, SIMBA_OP_ACQUIRE, "m", "a", 0);
    host_do(&other, SIMBA_OP_ACQUIRE, "m", "b", 0);
    host_do(&owner, SIMBA_OP_ACQUIRE, "m", "c", 0);
    host_do(&other, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_int_equal(waiters(&owner, "m"), 2);
    host_do(&owner, SIMBA_OP_RELEASE, "m", "a", call.revision);
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_equal(host_notices(&owner, SIMBA_NOTICE_RELEASED, "m", NULL), 0);

    /* The winner leaves the queue; the next one is first. */
    call = host_do(&other, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_int_equal(waiters(&owner, "m"), 1);
    host_do(&other, SIMBA_OP_RELEASE, "m", "b", call.revision);
    assert_true(host_wait_notice(&owner, SIMBA_NOTICE_RELEASED, "m", "c"));
    assert_true(host_close(&other));
    assert_true(host_close(&owner));
}

static void the_place_in_the_queue_is_told_to_who_asks(void **state)
{
    struct host host;
    struct host other;

    assert_int_equal(host_open(&host, "memory:place"), SIMBA_OK);
    assert_int_equal(host_open(&other, "memory:place"), SIMBA_OK);
    assert_int_equal(host_place(&host, "m", "a"), 0); /* it owns */
    assert_int_equal(host_place(&host, "m", "b"), 1);
    assert_int_equal(host_place(&other, "m", "c"), 2);
    assert_int_equal(host_place(&host, "m", "b"), 1);
    assert_int_equal(host_do(&other, SIMBA_OP_ACQUIRE, "m", "c", 0).place, 0);
    host_do(&host, SIMBA_OP_RELEASE, "m", "b", 0);
    assert_int_equal(host_place(&other, "m", "c"), 1);
    assert_true(host_close(&other));
    assert_true(host_close(&host));
}

static void a_waiter_that_gives_up_passes_the_wake_up_on(void **state)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, "memory:pass"), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "c", 0);
    host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", "c"), 0);
    host_do(&host, SIMBA_OP_RELEASE, "m", "b", 0);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", "c"), 1);
    assert_int_equal(waiters(&host, "m"), 1);
    assert_true(host_close(&host));
}

static void a_waiter_that_gives_up_wakes_nobody_while_the_mutex_is_owned(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, "memory:owned"), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "c", 0);
    host_do(&host, SIMBA_OP_RELEASE, "m", "b", 0);
    host.ops->listen(host.backend, "m", "c", false);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    assert_int_equal(waiters(&host, "m"), 0);
    assert_true(host_close(&host));
}

#define RESERVE_MS 60000 /* longer than the test takes */

/* "a" owns, "b" and "c" wait; then "a" releases for `reserve_ms`. */
static void reserve_for_b(struct host *host, const char *url, int64_t reserve_ms)
{
    struct call call;

    assert_int_equal(host_open(host, url), SIMBA_OK);
    call = host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(host_reserve(host, SIMBA_OP_ACQUIRE, "m", "b", 0, reserve_ms).place, 1);
    assert_int_equal(host_reserve(host, SIMBA_OP_ACQUIRE, "m", "c", 0, reserve_ms).place, 2);
    host_reserve(host, SIMBA_OP_RELEASE, "m", "a", call.revision, reserve_ms);
    assert_int_equal(host_notices(host, SIMBA_NOTICE_RELEASED, "m", "b"), 1);
    assert_int_equal(host_notices(host, SIMBA_NOTICE_RELEASED, "m", "c"), 0);
    assert_int_equal(host_notices(host, SIMBA_NOTICE_RESERVED, "m", "c"), reserve_ms > 0);
}

static void what_is_reserved_for_one_waiter_is_left_to_it(void **state)
{
    struct host host;
    struct call call;

    reserve_for_b(&host, "memory:reserved", RESERVE_MS);
    call = host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "new", 0, RESERVE_MS);
    assert_string_equal(call.owner, "");
    assert_in_range(call.reserved_left_ms, 1, RESERVE_MS);
    assert_int_equal(call.place, 2);
    call = host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "c", 0, RESERVE_MS);
    assert_in_range(call.reserved_left_ms, 1, RESERVE_MS);
    assert_int_equal(call.place, 1);
    call = host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "b", 0, RESERVE_MS);
    assert_string_equal(call.owner, "b");
    assert_true(host_close(&host));
}

static void the_last_is_told_in_case_the_first_two_hang(void **state)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, "memory:standby"), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    for (const char *id = "bcde"; *id != '\0'; id++)
        host_reserve(&host, SIMBA_OP_ACQUIRE, "m", (char[]){*id, '\0'}, 0, RESERVE_MS);
    host_reserve(&host, SIMBA_OP_RELEASE, "m", "a", call.revision, RESERVE_MS);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_STANDBY, "m", NULL), 1);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_STANDBY, "m", "e"), 1);
    assert_true(host_close(&host));
}

static bool c_owns(void *host)
{
    return strcmp(host_reserve(host, SIMBA_OP_ACQUIRE, "m", "c", 0, 1).owner, "c") == 0;
}

static void a_reservation_ends_by_the_clock(void **state)
{
    struct host host;

    reserve_for_b(&host, "memory:over", 1);
    assert_true(test_wait(c_owns, &host));
    assert_int_equal(host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "b", 0, 1).place, 1);
    assert_true(host_close(&host));
}

static void a_reservation_is_passed_on_by_the_one_that_leaves(void **state)
{
    struct host host;

    reserve_for_b(&host, "memory:passed", RESERVE_MS);
    host_reserve(&host, SIMBA_OP_RELEASE, "m", "b", 0, RESERVE_MS);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", "c"), 1);
    assert_true(host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "new", 0, RESERVE_MS).reserved_left_ms >
                0);
    assert_string_equal(host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "c", 0, RESERVE_MS).owner, "c");
    assert_true(host_close(&host));
}

static void a_contender_that_is_not_fair_takes_what_is_reserved(void **state)
{
    struct host host;

    reserve_for_b(&host, "memory:barge", RESERVE_MS);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "new", 0).owner, "new");
    assert_true(host_close(&host));
    reserve_for_b(&host, "memory:luck", 0);
    assert_string_equal(host_reserve(&host, SIMBA_OP_ACQUIRE, "m", "new", 0, RESERVE_MS).owner,
                        "new");
    assert_true(host_close(&host));
}

static void observers_are_told_of_every_change_but_not_of_renewals(void **state)
{
    struct host owner;
    struct host observer;
    struct call call;

    assert_int_equal(host_open(&owner, "memory:feed"), SIMBA_OK);
    assert_int_equal(host_open(&observer, "memory:feed"), SIMBA_OK);
    observer.ops->listen(observer.backend, "m", NULL, true);
    call = host_do(&owner, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(host_notices(&observer, SIMBA_NOTICE_CHANGED, "m", NULL), 1);
    call = host_do(&owner, SIMBA_OP_GUARD, "m", "a", call.revision);
    assert_int_equal(host_notices(&observer, SIMBA_NOTICE_CHANGED, "m", NULL), 1);
    host_do(&owner, SIMBA_OP_RELEASE, "m", "a", call.revision);
    assert_int_equal(host_notices(&observer, SIMBA_NOTICE_CHANGED, "m", NULL), 2);
    observer.ops->listen(observer.backend, "m", NULL, false);
    host_do(&owner, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(host_notices(&observer, SIMBA_NOTICE_CHANGED, "m", NULL), 2);
    assert_true(host_close(&observer));
    assert_true(host_close(&owner));
}

static void a_store_lives_as_long_as_its_last_client(void **state)
{
    struct host first;
    struct host second;

    assert_int_equal(host_open(&first, "memory:life"), SIMBA_OK);
    host_do(&first, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(host_open(&second, "memory:life"), SIMBA_OK);
    assert_true(host_close(&first));
    assert_string_equal(host_do(&second, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_true(host_close(&second));
    assert_int_equal(host_open(&first, "memory:life"), SIMBA_OK);
    assert_string_equal(host_do(&first, SIMBA_OP_READ, "m", NULL, 0).owner, "");
    assert_true(host_close(&first));
}

static void an_option_that_nobody_knows_is_refused(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, "memory:x?tll=1s"), SIMBA_ECONFIG);
    assert_non_null(strstr(host.open_error.text, "tll"));
}

static void stores_of_different_names_are_different(void **state)
{
    struct host named;
    struct host unnamed;

    assert_int_equal(host_open(&named, "memory:one"), SIMBA_OK);
    assert_int_equal(host_open(&unnamed, "memory:"), SIMBA_OK);
    host_do(&named, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(host_do(&unnamed, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "b");
    assert_true(host_close(&named));
    assert_true(host_close(&unnamed));
}

/* ---- A client that closes while another one tells it something ------------------------------- */

#define COMINGS 300

static atomic_bool over;

/* Makes as many changes as it can, each of which is told to observers and waiters. */
static void *change_all_the_time(void *argument)
{
    struct host host;
    bool *ret_fine = argument;

    *ret_fine = host_open(&host, "memory:close") == SIMBA_OK;
    while (*ret_fine && !atomic_load(&over)) {
        struct call call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);

        *ret_fine = call.code == SIMBA_OK;
        host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision);
    }
    *ret_fine = host_close(&host) && *ret_fine;
    return NULL;
}

static void a_client_may_close_while_others_tell_it_something(void **state)
{
    pthread_t thread;
    bool fine = false;
    size_t told = 0;

    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, change_all_the_time, &fine), 0);
    for (int i = 0; i < COMINGS || told == 0; i++) {
        struct host host;

        assert_int_equal(host_open(&host, "memory:close"), SIMBA_OK);
        host.ops->listen(host.backend, "m", NULL, true);
        host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
        if (i % 16 == 0)
            host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", NULL);
        told += host_notices(&host, SIMBA_NOTICE_CHANGED, "m", NULL);
        host_do(&host, SIMBA_OP_RELEASE, "m", "b",
                host_do(&host, SIMBA_OP_READ, "m", NULL, 0).revision);
        assert_true(host_close(&host));
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    assert_true(fine);
    assert_true(told > 0);
}

static void the_longest_name_is_a_mutex(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, "memory:longest"), SIMBA_OK);
    host_check_longest_name(&host);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_wakes_the_oldest_waiter),
        cmocka_unit_test(the_place_in_the_queue_is_told_to_who_asks),
        cmocka_unit_test(a_waiter_that_gives_up_passes_the_wake_up_on),
        cmocka_unit_test(a_waiter_that_gives_up_wakes_nobody_while_the_mutex_is_owned),
        cmocka_unit_test(what_is_reserved_for_one_waiter_is_left_to_it),
        cmocka_unit_test(the_last_is_told_in_case_the_first_two_hang),
        cmocka_unit_test(a_reservation_ends_by_the_clock),
        cmocka_unit_test(a_reservation_is_passed_on_by_the_one_that_leaves),
        cmocka_unit_test(a_contender_that_is_not_fair_takes_what_is_reserved),
        cmocka_unit_test(observers_are_told_of_every_change_but_not_of_renewals),
        cmocka_unit_test(a_store_lives_as_long_as_its_last_client),
        cmocka_unit_test(an_option_that_nobody_knows_is_refused),
        cmocka_unit_test(stores_of_different_names_are_different),
        cmocka_unit_test(the_longest_name_is_a_mutex),
        cmocka_unit_test(a_client_may_close_while_others_tell_it_something),
    };

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
