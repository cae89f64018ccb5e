/*
 * Threads that wait inside the library turn the client's loop meanwhile. What the loop owes to
 * others it must not forget for that.
 */
#include "lib/locker.h"
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* ---- A thread that waits for a mutex that another client holds ------------------------------- */

struct waiter {
    simba_client *other; /* holds it */
    simba_locker *held;
    simba_locker *locker;
    pthread_t thread;
    int code;
};

static void *acquire(void *argument)
{
    struct waiter *w = argument;

    w->code = simba_locker_acquire(w->locker, NULL);
    return NULL;
}

static void start_waiting(struct waiter *w, simba_client *client, const char *url)
{
    w->other = probe_open(url);
    assert_int_equal(test_locker_create(w->other, "wanted", NULL, &w->held, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(w->held, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(client, "wanted", NULL, &w->locker, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&w->thread, NULL, acquire, w), 0);
}

static void let_it_have(struct waiter *w)
{
    assert_int_equal(simba_locker_release(w->held, NULL), SIMBA_OK);
    pthread_join(w->thread, NULL);
    assert_int_equal(w->code, SIMBA_OK);
    assert_int_equal(simba_locker_release(w->locker, NULL), SIMBA_OK);
    simba_locker_close(w->locker);
    simba_locker_close(w->held);
    probe_close(w->other);
}

struct renewals {
    simba_client *client;
    uint64_t least;
};

static bool has_renewed(void *argument)
{
    struct renewals *r = argument;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return simba_client_metrics(r->client, &metrics) == SIMBA_OK && metrics.renewals >= r->least;
}

static void check_renewals_during_a_wait(const char *url)
{
    simba_client *client = probe_open(url);
    struct renewals renewals = {client, 8};
    struct waiter waiter = {0};
    struct probe p = {0};
    uint64_t fence;

    probe_create(&p, client, "kept", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    fence = simba_contender_fence(p.contender);
    start_waiting(&waiter, client, url);
    assert_true(test_wait(has_renewed, &renewals));
    if (!probe_is_slowed()) {
        assert_int_equal(atomic_load(&p.released), 0);
        assert_int_equal(simba_contender_fence(p.contender), fence);
    }
    let_it_have(&waiter);
    probe_end(&p);
    probe_close(client);
}

static void leases_are_renewed_while_a_thread_waits(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    check_renewals_during_a_wait("memory:borrower-renewals?" PROBE_SHORT);
    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, PROBE_SHORT);
    check_renewals_during_a_wait(url);
    test_folder_remove(folder);
}

static void a_contender_started_while_a_thread_waits_wins(void **state)
{
    static const char url[] = "memory:borrower-start?" PROBE_LONG;
    simba_client *client = probe_open(url);
    struct waiter waiter = {0};
    struct probe p = {0};

    start_waiting(&waiter, client, url);
    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 20; i++) {
        probe_start(&p);
        probe_wait_count(&p.acquired, i);
        probe_stop(&p);
    }
    let_it_have(&waiter);
    probe_end(&p);
    probe_close(client);
}

/* ---- Several threads ------------------------------------------------------------------------- */

#define CROWD 4
#define CYCLES 100

struct worker {
    simba_client *client;
    char mutex[16];
    pthread_t thread;
    unsigned failures;
};

static void *cycle(void *argument)
{
    struct worker *w = argument;
    simba_locker *locker = NULL;

    if (test_locker_create(w->client, w->mutex, NULL, &locker, NULL) != SIMBA_OK) {
        w->failures++;
        return NULL;
    }
    for (int i = 0; i < CYCLES; i++) {
        if (simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, NULL) != SIMBA_OK ||
            simba_locker_release(locker, NULL) != SIMBA_OK)
            w->failures++;
        if (i % 25 == 0)
            test_pause_ms(2); /* the others get along without it */
    }
    simba_locker_close(locker);
    return NULL;
}

/* `same`: all of them compete for one mutex. */
static void let_threads_cycle(const char *url, bool same)
{
    struct worker workers[CROWD] = {0};
    simba_client *client = probe_open(url);

    for (size_t i = 0; i < CROWD; i++) {
        workers[i].client = client;
        snprintf(workers[i].mutex, sizeof workers[i].mutex, "m%zu", same ? 0 : i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, cycle, &workers[i]), 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    probe_close(client);
}

static void threads_acquire_at_the_same_time_on_one_client(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    let_threads_cycle("memory:borrower-crowd?" PROBE_LONG, false);
    let_threads_cycle("memory:borrower-crowd?" PROBE_LONG, true);
    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, PROBE_LONG);
    let_threads_cycle(url, false);
    test_folder_remove(folder);
}

/* ---- fork() ---------------------------------------------------------------------------------- */

/* Runs in the child: the number of the first check that fails, or 0. */
static int check_child(simba_client *client, simba_locker *locker)
{
    simba_client *own = NULL;
    simba_locker *fresh = NULL;

    if (simba_locker_release(locker, NULL) != SIMBA_EFORKED ||
        simba_client_close(client, NULL) != SIMBA_EFORKED)
        return 1;
    simba_locker_cancel(locker);
    simba_locker_close(locker);
    if (simba_client_open("memory:borrower-child", NULL, &own, NULL) != SIMBA_OK)
        return 2;
    if (test_locker_create(own, "m", NULL, &fresh, NULL) != SIMBA_OK ||
        simba_locker_acquire(fresh, NULL) != SIMBA_OK ||
        simba_locker_release(fresh, NULL) != SIMBA_OK)
        return 3;
    simba_locker_close(fresh);
    return simba_client_close(own, NULL) == SIMBA_OK ? 0 : 4;
}

static void a_child_forked_while_a_thread_waits_finds_dead_handles(void **state)
{
    static const char url[] = "memory:borrower-fork?" PROBE_LONG;
    simba_client *client = probe_open(url);
    struct waiter waiter = {0};

    start_waiting(&waiter, client, url);
    for (int i = 0; i < 10; i++) {
        int status = 0;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            alarm(10);
            _exit(PROBE_SANITIZED ? 0 : check_child(client, waiter.locker));
        }
        while (waitpid(child, &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    let_it_have(&waiter);
    probe_close(client);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

/* Acquires and releases inside a callback, which turns the loop, and stops another contender from
 * there. */
static void work_in_callback(struct probe *p)
{
    simba_locker *locker = p->user;

    simba_locker_acquire(locker, NULL);
    simba_locker_release(locker, NULL);
}

static void a_callback_can_wait_and_turn_the_loop(void **state)
{
    static const char url[] = "memory:borrower-callback?" PROBE_LONG;
    simba_client *client = probe_open(url);
    simba_locker *locker = NULL;
    struct probe p = {.in_acquired = work_in_callback, .in_released = work_in_callback};

    assert_int_equal(test_locker_create(client, "inner", NULL, &locker, NULL), SIMBA_OK);
    p.user = locker;
    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 20; i++) {
        probe_start(&p);
        probe_wait_count(&p.acquired, i);
        probe_stop(&p);
        assert_int_equal(atomic_load(&p.returned), 2 * i);
    }
    probe_end(&p);
    simba_locker_close(locker);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_are_renewed_while_a_thread_waits),
        cmocka_unit_test(a_contender_started_while_a_thread_waits_wins),
        cmocka_unit_test(threads_acquire_at_the_same_time_on_one_client),
        cmocka_unit_test(a_child_forked_while_a_thread_waits_finds_dead_handles),
        cmocka_unit_test(a_callback_can_wait_and_turn_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
