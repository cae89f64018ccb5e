/*
 * starved_test.c - a lease whose holder runs out of memory. Renewing takes an allocation; letting
 * go must not, or two would own.
 */
#include "heap.h"
#include "test.h"

#include <simba/simba.h>

static struct shortage allocations = {.piece = "allocation", .code = SIMBA_ENOMEM};

struct held {
    simba_client *client;
    simba_contender *contender;
    simba_locker *locker;
    atomic_uint acquired;
    atomic_uint released;
    atomic_uint lost;
};

static void on_acquired(void *user, const struct simba_state *state)
{
    struct held *held = user;

    atomic_fetch_add(&held->acquired, 1);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct held *held = user;

    atomic_fetch_add(&held->released, 1);
}

static void on_lost(void *user)
{
    struct held *held = user;

    atomic_fetch_add(&held->lost, 1);
}

static bool is_counted(void *counter)
{
    return atomic_load((atomic_uint *)counter) > 0;
}

static bool is_owner(void *contender)
{
    return simba_contender_is_owner(contender);
}

static void open_client(struct held *held, const char *url)
{
    memset(held, 0, sizeof *held);
    assert_int_equal(simba_client_open(url, NULL, &held->client, NULL), SIMBA_OK);
}

static void lead(struct held *held)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = "m";
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = held;
    assert_int_equal(simba_contender_create(held->client, &options, &held->contender, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_contender_start(held->contender, NULL), SIMBA_OK);
    assert_true(test_wait(is_counted, &held->acquired));
}

static void close_all(struct held *held)
{
    simba_contender_close(held->contender);
    simba_locker_close(held->locker);
    assert_int_equal(simba_client_close(held->client, NULL), SIMBA_OK);
    assert_int_equal(heap_live(), 0);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void an_owner_without_memory_lets_go_in_time(void **state)
{
    struct held held;
    uint64_t fence;
    int64_t deadline_ms;

    open_client(&held, "memory:?ttl=200ms&transition=200ms&jitter=0ms..1ms");
    lead(&held);
    fence = simba_contender_fence(held.contender);
    shortage_begin(&allocations, 1, true);
    deadline_ms = simba_contender_deadline_ms(held.contender);
    assert_true(test_wait(is_counted, &held.released));
    assert_false(simba_contender_is_owner(held.contender));
    assert_true(simba_now_ms() >= deadline_ms);
    assert_true(simba_now_ms() < deadline_ms + 5000);
    assert_true(shortage_end(&allocations) > 0);

    assert_true(test_wait(is_owner, held.contender)); /* it competes again when there is memory */
    assert_true(simba_contender_fence(held.contender) > fence);
    close_all(&held);
}

static bool has_renewed(void *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return simba_client_metrics(client, &metrics) == SIMBA_OK && metrics.renewals > 0;
}

static void a_renewal_without_memory_comes_later(void **state)
{
    struct held held;
    uint64_t fence;

    open_client(&held, "memory:?ttl=100ms&transition=20s");
    lead(&held);
    fence = simba_contender_fence(held.contender);
    shortage_begin(&allocations, 1, false);
    assert_true(test_wait(has_renewed, held.client));
    assert_int_equal(shortage_end(&allocations), 1);
    assert_true(simba_contender_is_owner(held.contender));
    assert_int_equal(simba_contender_fence(held.contender), fence);
    assert_int_equal(atomic_load(&held.released), 0);
    close_all(&held);
}

static void the_holder_of_a_locker_hears_of_the_loss_without_memory(void **state)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error = {0};
    struct held held;

    open_client(&held, "memory:?ttl=100ms&transition=100ms&stop-timeout=100ms");
    options.mutex = "m";
    options.on_lost = on_lost;
    options.user = &held;
    assert_int_equal(simba_locker_create(held.client, &options, &held.locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(held.locker, NULL), SIMBA_OK);
    shortage_begin(&allocations, 1, true);
    assert_true(test_wait(is_counted, &held.lost));
    assert_false(simba_locker_is_held(held.locker));
    assert_int_equal(simba_locker_release(held.locker, &error), SIMBA_ELOST);
    assert_true(shortage_end(&allocations) > 0);
    assert_int_equal(simba_locker_acquire(held.locker, NULL), SIMBA_OK);
    close_all(&held);
}

/* Closing is the last thing that can be done, so nothing may be too short for it. */
static void an_owner_without_memory_can_be_closed(void **state)
{
    struct held held;

    open_client(&held, "memory:?ttl=20s&transition=2s&stop-timeout=50ms");
    lead(&held);
    shortage_begin(&allocations, 1, true);
    close_all(&held);
    assert_true(shortage_end(&allocations) > 0);
    assert_int_equal(atomic_load(&held.released), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_without_memory_lets_go_in_time),
        cmocka_unit_test(a_renewal_without_memory_comes_later),
        cmocka_unit_test(the_holder_of_a_locker_hears_of_the_loss_without_memory),
        cmocka_unit_test(an_owner_without_memory_can_be_closed),
    };

    if (heap_install(&allocations) != SIMBA_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
