/*
 * What comes late must not meet what is gone: answers to questions that nobody waits for any more,
 * news for a client that closes, the application's own locks.
 */
#include "base/random.h"
#include "lib/locker.h"
#include "probe.h"
#include "tck/shim.h"

#include <uv.h>

/* Stretches the time between the posting of a task and the signal for it, in which the task may
 * already run and end the loop. */
int __wrap_uv_async_send(uv_async_t *signal);
int __real_uv_async_send(uv_async_t *signal);

static atomic_bool slow_signals;

int __wrap_uv_async_send(uv_async_t *signal)
{
    if (atomic_load(&slow_signals))
        test_pause_ms((int64_t)(sb_random_seed() % 4));
    return __real_uv_async_send(signal);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static void ask_and_close(const char *url, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        simba_client *client = probe_open(url);
        struct simba_mutex_status *list = NULL;
        size_t count = 0;
        int code = simba_client_status(client, "m", 0, &list, &count, NULL);

        assert_true(code == SIMBA_OK || code == SIMBA_EUNAVAILABLE);
        simba_free(list);
        probe_close(client);
    }
}

static void a_question_without_patience_does_not_outlive_its_client(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    test_folder_create(folder);
    ask_and_close("memory:question", 300);
    probe_sqlite_url(url, sizeof url, folder, PROBE_LONG);
    ask_and_close(url, 100);
    test_folder_remove(folder);
}

/* ---- News ------------------------------------------------------------------------------------ */

static atomic_bool over;

static void *acquire_and_release(void *argument)
{
    simba_client *client = probe_open("memory:news");
    simba_locker *locker = NULL;

    (void)argument;
    test_locker_create(client, "m", NULL, &locker, NULL);
    while (!atomic_load(&over)) {
        if (simba_locker_acquire(locker, NULL) == SIMBA_OK)
            simba_locker_release(locker, NULL);
    }
    simba_locker_close(locker);
    probe_close(client);
    return NULL;
}

static void ignore(void *user, const struct simba_state *state)
{
    (void)user;
}

static void a_client_can_close_while_another_one_tells_it_something(void **state)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    uint64_t random = 1;
    pthread_t thread;

    options.mutex = "m";
    options.on_notify = ignore;
    atomic_store(&over, false);
    atomic_store(&slow_signals, true);
    assert_int_equal(pthread_create(&thread, NULL, acquire_and_release, NULL), 0);
    for (int i = 0; i < 60; i++) {
        simba_client *client = probe_open("memory:news");
        simba_observer *observer = NULL;

        assert_int_equal(simba_observer_create(client, &options, &observer, NULL), SIMBA_OK);
        assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
        test_pause_ms((int64_t)(sb_random_next(&random) % 6));
        simba_observer_close(observer);
        probe_close(client);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    atomic_store(&slow_signals, false);
}

/* ---- The application's locks ----------------------------------------------------------------- */

struct pool {
    simba_locker *locker;
    atomic_uint calls;
    pthread_t thread;
    void (*run)(void *argument);
    void *argument;
};

static void *run_call(void *argument)
{
    struct pool *pool = argument;

    pool->run(pool->argument);
    return NULL;
}

/* Takes the locker's lock, as any executor may do that shares one with a caller of the locker. */
static void execute(void *user, void (*run)(void *argument), void *argument)
{
    struct pool *pool = user;

    simba_locker_cancel(pool->locker);
    pool->run = run;
    pool->argument = argument;
    pthread_create(&pool->thread, NULL, run_call, pool);
    atomic_fetch_add(&pool->calls, 1);
}

static void note_loss(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static bool is_lost(void *user)
{
    return atomic_load((atomic_uint *)user) == 1;
}

static void the_executor_is_called_without_a_lock_of_the_locker(void **state)
{
    static const char url[] = "memory:executor?" PROBE_SHORT;
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_locker_options locker_options = SIMBA_LOCKER_OPTIONS_INIT;
    struct pool pool = {0};
    struct simba_executor executor = {execute, &pool};
    atomic_uint losses = 0;
    simba_client *client = NULL;
    struct sb_shim *shim = NULL;

    options.executor = &executor;
    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    locker_options.mutex = "m";
    locker_options.on_lost = note_loss;
    locker_options.user = &losses;
    assert_int_equal(simba_locker_create(client, &locker_options, &pool.locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(pool.locker, NULL), SIMBA_OK);
    sb_shim_hold_requests(shim, SB_SHIM_ALL);
    assert_true(test_wait(is_lost, &losses));
    sb_shim_let_go(shim);
    pthread_join(pool.thread, NULL);
    assert_int_equal(simba_locker_release(pool.locker, NULL), SIMBA_ELOST);
    assert_int_equal(atomic_load(&pool.calls), 1);
    simba_locker_close(pool.locker);
    probe_close(client);
    sb_shim_free(shim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_without_patience_does_not_outlive_its_client),
        cmocka_unit_test(a_client_can_close_while_another_one_tells_it_something),
        cmocka_unit_test(the_executor_is_called_without_a_lock_of_the_locker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
