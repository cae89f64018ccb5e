/*
 * Lockers under pressure: wins at the very moment of a time-out, storms of signals, many threads.
 */
#include "base/random.h"
#include "lib/locker.h"
#include "probe.h"

#include <signal.h>
#include <sys/time.h>

static simba_locker *make_locker(simba_client *client)
{
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    return locker;
}

/* ---- Time-outs ------------------------------------------------------------------------------- */

struct attempt {
    simba_locker *locker;
    int64_t timeout_ms;
    int code;
    bool held;
};

static void *attempt(void *user)
{
    struct attempt *a = user;

    a->code = simba_locker_acquire_timeout(a->locker, a->timeout_ms, NULL);
    a->held = simba_locker_is_held(a->locker);
    return NULL;
}

static void pause_us(uint64_t us)
{
    struct timespec pause = {0, (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* Releases about when the wait of the other runs out. In either case the mutex must be free in the
 * end. */
static unsigned race_release_against_timeout(const char *url, int rounds)
{
    simba_client *client = probe_open(url);
    simba_locker *holder = make_locker(client);
    struct attempt a = {.locker = make_locker(client)};
    unsigned wins = 0;
    uint64_t random = 3;

    for (int i = 0; i < rounds; i++) {
        pthread_t thread;

        a.timeout_ms = (int64_t)(sb_random_next(&random) % 4);
        assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
        pthread_create(&thread, NULL, attempt, &a);
        pause_us(sb_random_next(&random) % 4000);
        assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
        pthread_join(thread, NULL);
        assert_true(a.code == SIMBA_OK || a.code == SIMBA_ETIMEDOUT);
        assert_int_equal(a.held, a.code == SIMBA_OK);
        if (a.code == SIMBA_OK) {
            wins++;
            assert_int_equal(simba_locker_release(a.locker, NULL), SIMBA_OK);
        }
        assert_true(probe_is_free(client, "m"));
    }
    simba_locker_close(a.locker);
    simba_locker_close(holder);
    probe_close(client);
    return wins;
}

static void a_win_at_the_moment_of_the_time_out_is_kept_or_given_back(void **state)
{
    unsigned wins = race_release_against_timeout("memory:race?" PROBE_LONG, 300);

    assert_in_range(wins, 1, 299); /* else nothing was raced */
}

static void the_same_holds_on_sqlite(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, PROBE_LONG);
    race_release_against_timeout(url, 200);
    test_folder_remove(folder);
}

static void a_time_out_of_nothing_on_a_free_mutex_leaves_it_free(void **state)
{
    simba_client *client = probe_open("memory:race?" PROBE_LONG);
    struct attempt a = {.locker = make_locker(client)};

    for (int i = 0; i < 300; i++) {
        a.timeout_ms = i % 2;
        attempt(&a);
        assert_int_equal(a.held, a.code == SIMBA_OK);
        if (a.code == SIMBA_OK)
            assert_int_equal(simba_locker_release(a.locker, NULL), SIMBA_OK);
        assert_true(probe_is_free(client, "m"));
    }
    simba_locker_close(a.locker);
    probe_close(client);
}

/* ---- Signals and threads --------------------------------------------------------------------- */

#define THREADS 4
#define TURNS 60

struct work {
    simba_client *client;
    long *counter; /* guarded by the mutex alone */
    atomic_uint unheld;
    atomic_uint failed;
    atomic_uint done;
};

static atomic_uint signals;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* A counter that is read, and written after a pause: without the mutex turns would get lost. */
static void take_turn(struct work *work, simba_locker *locker)
{
    long value;

    if (simba_locker_acquire(locker, NULL) != SIMBA_OK) {
        atomic_fetch_add(&work->failed, 1);
        return;
    }
    if (!simba_locker_is_held(locker))
        atomic_fetch_add(&work->unheld, 1);
    value = *(volatile long *)work->counter;
    pause_us(20);
    *(volatile long *)work->counter = value + 1;
    if (simba_locker_release(locker, NULL) != SIMBA_OK)
        atomic_fetch_add(&work->failed, 1);
}

static void *take_turns(void *user)
{
    struct work *work = user;
    simba_locker *locker = NULL;

    if (test_locker_create(work->client, "m", NULL, &locker, NULL) == SIMBA_OK)
        for (int i = 0; i < TURNS; i++)
            take_turn(work, locker);
    simba_locker_close(locker);
    atomic_fetch_add(&work->done, 1);
    return NULL;
}

static void storm(pthread_t *threads, struct work *work)
{
    while (atomic_load(&work->done) < THREADS) {
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGUSR1); /* they have not been joined, so this is allowed */
        pause_us(300);
    }
}

static void signals_never_return_a_lock_that_is_not_held(void **state)
{
    const struct itimerval often = {{0, 500}, {0, 500}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    struct work work = {.client = probe_open("memory:signals?" PROBE_LONG)};
    pthread_t threads[THREADS];
    long counter = 0;

    work.counter = &counter;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_turns, &work);
    storm(threads, &work);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(atomic_load(&work.failed), 0);
    assert_int_equal(atomic_load(&work.unheld), 0);
    assert_int_equal(counter, THREADS * TURNS);
    assert_true(atomic_load(&signals) > 100);
    probe_close(work.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_win_at_the_moment_of_the_time_out_is_kept_or_given_back),
        cmocka_unit_test(the_same_holds_on_sqlite),
        cmocka_unit_test(a_time_out_of_nothing_on_a_free_mutex_leaves_it_free),
        cmocka_unit_test(signals_never_return_a_lock_that_is_not_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
