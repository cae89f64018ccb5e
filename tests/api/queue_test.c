/*
 * The wait queue as the application sees it: the places, the order of the terms, and who may be
 * faster than the first in line.
 */
#include "probe.h"

#include "lib/locker.h"

#define WAITERS 6

struct line {
    simba_client *client;
    struct probe waiters[WAITERS];
};

static bool is_in_place(void *user)
{
    const struct probe *waiter = user;
    const int64_t *place = waiter->user;

    return simba_contender_place(waiter->contender) == *place;
}

/* One after the other, while somebody else owns. */
static void line_up(struct line *line, const char *mutex)
{
    for (int64_t i = 0; i < WAITERS; i++) {
        struct probe *waiter = &line->waiters[i];
        int64_t place = i + 1;

        waiter->user = &place;
        probe_create(waiter, line->client, mutex, NULL);
        assert_int_equal(simba_contender_place(waiter->contender), 0);
        probe_start(waiter);
        assert_true(test_wait(is_in_place, waiter));
    }
}

static void waiters_own_in_the_order_in_which_they_came(void **state)
{
    struct line line = {.client = probe_open("memory:order?" PROBE_LONG)};
    simba_locker *holder = NULL;

    assert_int_equal(test_locker_create(line.client, "m", "holder", &holder, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    line_up(&line, "m");
    assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
    for (size_t i = 0; i < WAITERS; i++) {
        probe_wait_owner(&line.waiters[i]);
        assert_int_equal(simba_contender_place(line.waiters[i].contender), 0);
        for (size_t k = i + 1; k < WAITERS; k++)
            assert_int_equal(atomic_load(&line.waiters[k].acquired), 0);
        probe_stop(&line.waiters[i]);
    }
    for (size_t i = 0; i < WAITERS; i++)
        probe_end(&line.waiters[i]);
    simba_locker_close(holder);
    probe_close(line.client);
}

static void the_queue_tells_who_waits_and_since_when(void **state)
{
    struct line line = {.client = probe_open("memory:since?" PROBE_LONG)};
    struct simba_waiter *queue = NULL;
    simba_locker *holder = NULL;
    int64_t began_ms = simba_now_ms();
    size_t count = 0;

    assert_int_equal(test_locker_create(line.client, "m", "holder", &holder, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    line_up(&line, "m");
    assert_int_equal(simba_client_queue(line.client, "m", 5000, &queue, &count, NULL), SIMBA_OK);
    assert_int_equal(count, WAITERS);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_string_equal(queue[i].id, simba_contender_id(line.waiters[i].contender));
        assert_in_range(queue[i].since_ms, i > 0 ? queue[i - 1].since_ms : began_ms,
                        simba_now_ms());
    }
    simba_free(queue);
    for (size_t i = 0; i < WAITERS; i++)
        probe_end(&line.waiters[i]);
    simba_locker_close(holder);
    probe_close(line.client);
}

/* How often a locker acquires again before a waiter owns. */
static unsigned cycles_before_waiter(const char *url)
{
    simba_client *client = probe_open(url);
    simba_client *other = probe_open(url);
    struct probe waiter = {0};
    simba_locker *busy = NULL;
    int64_t place = 1;
    unsigned cycles = 0;

    assert_int_equal(test_locker_create(client, "m", "busy", &busy, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(busy, NULL), SIMBA_OK);
    waiter.user = &place;
    probe_create(&waiter, other, "m", "waiter");
    probe_start(&waiter);
    assert_true(test_wait(is_in_place, &waiter));
    do {
        assert_int_equal(simba_locker_release(busy, NULL), SIMBA_OK);
        cycles++;
    } while (simba_locker_try_acquire(busy, NULL) == SIMBA_OK);
    probe_wait_owner(&waiter);
    probe_end(&waiter);
    simba_locker_close(busy);
    probe_close(other);
    probe_close(client);
    return cycles;
}

static void a_busy_contender_is_not_faster_than_a_waiter(void **state)
{
    for (int i = 0; i < 100; i++)
        assert_int_equal(cycles_before_waiter("memory:fair?turn=100ms&" PROBE_LONG), 1);
}

static void it_may_be_without_fairness(void **state)
{
    unsigned most = 1;

    for (int i = 0; i < 1000 && most == 1; i++)
        most = cycles_before_waiter("memory:unfair?fair=no&" PROBE_LONG);
    assert_true(most > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiters_own_in_the_order_in_which_they_came),
        cmocka_unit_test(the_queue_tells_who_waits_and_since_when),
        cmocka_unit_test(a_busy_contender_is_not_faster_than_a_waiter),
        cmocka_unit_test(it_may_be_without_fairness),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
