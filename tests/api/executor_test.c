/*
 * An executor of the application: callbacks run there and nowhere else, and keep their order.
 */
#include "lib/locker.h"
#include "lib/process.h"
#include "probe.h"

#define QUEUE_MAX 1024

/* A pool of one thread, or of none: then the test itself runs what was handed over. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*run[QUEUE_MAX])(void *argument);
    void *argument[QUEUE_MAX];
    unsigned head;
    unsigned tail;
    bool closing;
    pthread_t thread;
};

static void execute(void *user, void (*run)(void *argument), void *argument)
{
    struct pool *pool = user;

    pthread_mutex_lock(&pool->lock);
    pool->run[pool->tail % QUEUE_MAX] = run;
    pool->argument[pool->tail % QUEUE_MAX] = argument;
    pool->tail++;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Runs the first one; waits for it where `wait` says so. Returns false when there was none. */
static bool run_first(struct pool *pool, bool wait)
{
    void (*run)(void *argument);
    void *argument;

    pthread_mutex_lock(&pool->lock);
    while (wait && pool->head == pool->tail && !pool->closing)
        pthread_cond_wait(&pool->changed, &pool->lock);
    if (pool->head == pool->tail) {
        pthread_mutex_unlock(&pool->lock);
        return false;
    }
    run = pool->run[pool->head % QUEUE_MAX];
    argument = pool->argument[pool->head % QUEUE_MAX];
    pool->head++;
    pthread_mutex_unlock(&pool->lock);
    run(argument);
    return true;
}

static void *run_pool(void *user)
{
    while (run_first(user, true))
        ;
    return NULL;
}

static void pool_init(struct pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
}

static void pool_start(struct pool *pool)
{
    pool_init(pool);
    pthread_create(&pool->thread, NULL, run_pool, pool);
}

static void pool_end(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    pthread_join(pool->thread, NULL);
}

static simba_client *open_on(struct pool *pool, const char *url)
{
    struct simba_executor executor = {execute, pool};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.executor = &executor;
    return probe_open_with(url, &options);
}

static void note_wrong_thread(struct probe *p)
{
    struct pool *pool = p->user;

    if (!pthread_equal(pthread_self(), pool->thread))
        atomic_fetch_add(&p->disorder, 1);
}

static void callbacks_run_on_the_executor(void **state)
{
    static struct pool pool;
    struct probe p = {
        .in_acquired = note_wrong_thread, .in_released = note_wrong_thread, .user = &pool};
    simba_client *client;

    pool_start(&pool);
    client = open_on(&pool, "memory:executor?" PROBE_LONG);
    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 20; i++) {
        probe_start(&p);
        probe_wait_count(&p.acquired, i);
        probe_stop(&p);
        assert_int_equal(atomic_load(&p.released), i);
    }
    probe_end(&p);
    probe_close(client);
    pool_end(&pool);
}

static void stop_myself(struct probe *p)
{
    if (simba_contender_stop(p->contender, NULL) != SIMBA_OK)
        atomic_fetch_add(&p->disorder, 1);
}

static void a_stop_inside_a_callback_does_not_wait_for_a_single_thread(void **state)
{
    static struct pool pool;
    struct probe p = {.in_acquired = stop_myself};
    simba_client *client;

    pool_start(&pool);
    client = open_on(&pool, "memory:executor?" PROBE_LONG);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.released, 1);
    probe_wait_status(p.contender, SIMBA_INITIAL);
    probe_end(&p);
    probe_close(client);
    pool_end(&pool);
}

static bool has_work(void *user)
{
    struct pool *pool = user;
    bool has;

    pthread_mutex_lock(&pool->lock);
    has = pool->head != pool->tail;
    pthread_mutex_unlock(&pool->lock);
    return has;
}

static void an_executor_that_takes_its_time_delays_no_renewal(void **state)
{
    static struct pool pool; /* without a thread: nothing runs before the test runs it */
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct probe p = {0};
    simba_client *client;

    pool_init(&pool);
    client = open_on(&pool, "memory:executor?" PROBE_SHORT);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    while (metrics.renewals < 3) {
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
        test_pause_ms(5);
    }
    assert_true(simba_contender_is_owner(p.contender));
    assert_int_equal(atomic_load(&p.acquired), 0);
    assert_true(run_first(&pool, false));
    assert_int_equal(atomic_load(&p.acquired), 1);
    pthread_create(&pool.thread, NULL, run_pool, &pool);
    probe_stop(&p);
    assert_int_equal(atomic_load(&p.released), 1);
    probe_end(&p);
    probe_close(client);
    pool_end(&pool);
    assert_false(has_work(&pool));
}

static void a_client_with_an_executor_has_no_callback_threads(void **state)
{
    static struct pool pool;
    int before;
    simba_client *client;

    pool_start(&pool);
    probe_close(open_on(&pool, "memory:executor"));
    before = test_thread_count();
    client = open_on(&pool, "memory:executor");
    assert_int_equal(test_thread_count(), before + 1); /* the loop */
    probe_close(client);
    pool_end(&pool);
}

static void count_acquired(void *user, const struct simba_state *state)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

static void a_stop_that_calls_nobody_does_not_wait_for_the_executor(void **state)
{
    static struct pool pool; /* without a thread */
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    atomic_uint acquired = 0;
    simba_contender *contender;
    simba_client *client;

    pool_init(&pool);
    client = open_on(&pool, "memory:executor?" PROBE_LONG);
    options.mutex = "m";
    options.on_acquired = count_acquired;
    options.user = &acquired;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    assert_true(run_first(&pool, true));
    assert_int_equal(atomic_load(&acquired), 1);
    assert_int_equal(simba_contender_stop(contender, NULL), SIMBA_OK);
    assert_false(has_work(&pool));
    assert_true(probe_is_free(client, "m"));
    simba_contender_close(contender);
    probe_close(client);
}

/* ---- A single thread ------------------------------------------------------------------------- */

static void a_stop_on_the_only_thread_runs_its_callbacks_and_gives_the_mutex_back(void **state)
{
    static struct pool pool; /* without a thread: the test is the executor's thread */
    struct probe p = {0};
    simba_client *client;

    pool_init(&pool);
    client = open_on(&pool, "memory:only?ttl=20s&transition=20s&stop-timeout=2s");
    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 3; i++) {
        probe_start(&p);
        while (atomic_load(&p.acquired) < i)
            assert_true(run_first(&pool, true));
        probe_stop(&p);
        assert_int_equal(atomic_load(&p.released), i);
        assert_true(probe_is_free(client, "m"));
    }
    probe_end(&p);
    probe_close(client);
    while (run_first(&pool, false)) /* what is left stands for nothing, and harms nobody */
        ;
    assert_int_equal(atomic_load(&p.released), 3);
    assert_int_equal(atomic_load(&p.disorder), 0);
}

/* Nobody has seen that this thread is the executor's. */
static void a_client_closes_on_a_thread_that_has_not_run_any_callback(void **state)
{
    static struct pool pool;
    struct probe p = {0};
    simba_client *client;

    pool_init(&pool);
    client = open_on(&pool, "memory:only?ttl=20s&transition=20s&stop-timeout=500ms");
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    assert_true(test_wait(has_work, &pool));
    probe_end(&p);
    alarm(TEST_PATIENCE_MS / 1000); /* it would wait for good */
    probe_close(client);
    alarm(0);
    while (run_first(&pool, false))
        ;
    assert_int_equal(atomic_load(&p.acquired), atomic_load(&p.released));
}

static void an_acquire_on_the_only_thread_runs_the_on_released_that_it_waits_for(void **state)
{
    static struct pool pool;
    struct probe p = {.in_acquired = stop_myself};
    simba_locker *locker;
    simba_client *client;

    pool_init(&pool);
    client = open_on(&pool, "memory:only?ttl=20s&transition=20s&stop-timeout=20s");
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    while (atomic_load(&p.acquired) < 1)
        assert_true(run_first(&pool, true));
    assert_int_equal(simba_locker_acquire_timeout(locker, 10000, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&p.released), 1);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    probe_end(&p);
    probe_close(client);
}

static void wait_at_gate(struct probe *p)
{
    gate_wait(p->user);
}

/* A thread that is not the executor's leaves callbacks to it, and is told that one has not
 * returned. */
static void a_client_is_not_closed_while_a_callback_has_not_returned(void **state)
{
    simba_client *client = probe_open("memory:only?ttl=20s&transition=20s&stop-timeout=100ms");
    struct gate gate = GATE_INIT;
    struct probe p = {.in_acquired = wait_at_gate, .user = &gate};
    struct simba_error error = {0};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    simba_contender_close(p.contender);
    alarm(TEST_PATIENCE_MS / 1000); /* it would wait for good */
    assert_int_equal(simba_client_close(client, &error), SIMBA_EBUSY);
    alarm(0);
    probe_assert_names(error.text, "callback");
    gate_open(&gate);
    probe_close(client);
    assert_int_equal(atomic_load(&p.returned), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callbacks_run_on_the_executor),
        cmocka_unit_test(a_stop_inside_a_callback_does_not_wait_for_a_single_thread),
        cmocka_unit_test(an_executor_that_takes_its_time_delays_no_renewal),
        cmocka_unit_test(a_client_with_an_executor_has_no_callback_threads),
        cmocka_unit_test(a_client_closes_on_a_thread_that_has_not_run_any_callback),
        cmocka_unit_test(a_stop_that_calls_nobody_does_not_wait_for_the_executor),
        cmocka_unit_test(a_stop_on_the_only_thread_runs_its_callbacks_and_gives_the_mutex_back),
        cmocka_unit_test(an_acquire_on_the_only_thread_runs_the_on_released_that_it_waits_for),
        cmocka_unit_test(a_client_is_not_closed_while_a_callback_has_not_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
