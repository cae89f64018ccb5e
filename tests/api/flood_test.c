/*
 * What a flood of notices costs a client: a user who may only send messages can send them faster
 * than the client acts upon them. And what becomes of a notice that is none.
 */
#include "probe.h"

#include <string.h>

#define NOTICES 300000
#define GROWTH_MAX_KIB (16 * 1024) /* one copy of each notice would be ten times that */
#define FLOOD_MS 2000              /* several leases */

/* ---- A store whose loop can be held up ------------------------------------------------------- */

static const struct simba_backend_host *host; /* of the last client */
static atomic_bool is_held;
static atomic_bool is_waiting;
static atomic_uint submitted;

static int open_store(const struct simba_backend_config *config,
                      const struct simba_backend_host *new_host, simba_backend **ret_backend,
                      struct simba_error *error)
{
    host = new_host;
    return simba_backend_find("memory")->open(config, new_host, ret_backend, error);
}

static void submit(simba_backend *backend, struct simba_request *batch)
{
    while (atomic_load(&is_held)) {
        atomic_store(&is_waiting, true);
        test_pause_ms(1);
    }
    atomic_store(&is_waiting, false);
    atomic_fetch_add(&submitted, 1);
    simba_backend_find("memory")->submit(backend, batch);
}

static struct simba_backend_ops store;

static simba_client *open_client(const char *url)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    store = *simba_backend_find("memory");
    store.open = open_store;
    store.submit = submit;
    options.backend = &store;
    return probe_open_with(url, &options);
}

static bool is_loop_waiting(void *user)
{
    (void)user;
    return atomic_load(&is_waiting);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void ignore(void *user, const struct simba_state *state)
{
    (void)user;
}

/* Of mutexes that the client follows, that it waits for, and that it does not know. */
static void flood(void)
{
    char unknown[32];

    for (int i = 0; i < NOTICES; i += 3) {
        snprintf(unknown, sizeof unknown, "unknown-%d", i);
        host->notice(host, SIMBA_NOTICE_CHANGED, "followed", NULL);
        host->notice(host, SIMBA_NOTICE_RELEASED, "awaited", "waiter");
        host->notice(host, SIMBA_NOTICE_RELEASED, unknown, NULL);
    }
}

static void notices_that_wait_for_the_loop_take_no_memory(void **state)
{
    simba_client *client = open_client("memory:held?" PROBE_LONG);
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct probe probe = {0};
    simba_observer *observer;
    long before_kib;
    long growth_kib;

    options.mutex = "followed";
    options.on_notify = ignore;
    assert_int_equal(simba_observer_create(client, &options, &observer, NULL), SIMBA_OK);
    assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
    probe_create(&probe, client, "awaited", "waiter");
    probe_start(&probe);
    probe_wait_owner(&probe);
    atomic_store(&is_held, true);
    host->notice(host, SIMBA_NOTICE_CHANGED, "followed", NULL);
    assert_true(test_wait(is_loop_waiting, NULL));
    before_kib = resident_kib();
    flood();
    growth_kib = resident_kib() - before_kib;
    atomic_store(&is_held, false);
    assert_true(growth_kib < GROWTH_MAX_KIB);
    simba_observer_close(observer);
    probe_end(&probe);
    probe_close(client);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static atomic_bool goes_on;
static atomic_bool has_ended;

/* The loop finds another task as soon as it has run one. */
static void run_again(struct simba_task *task)
{
    if (atomic_load(&goes_on))
        host->post(host, task);
    else
        atomic_store(&has_ended, true);
}

static bool is_ended(void *user)
{
    (void)user;
    return atomic_load(&has_ended);
}

static void timers_fire_however_many_tasks_there_are(void **state)
{
    simba_client *client = open_client("memory:busy?" PROBE_SHORT);
    struct simba_task task = {.run = run_again};
    struct probe probe = {0};
    int64_t end_ms;

    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    probe_wait_owner(&probe);
    atomic_store(&goes_on, true);
    host->post(host, &task);
    end_ms = test_now_ms() + FLOOD_MS;
    while (test_now_ms() < end_ms)
        test_pause_ms(10);
    atomic_store(&goes_on, false);
    assert_true(test_wait(is_ended, NULL));
    assert_int_equal(atomic_load(&probe.released), 0); /* it has renewed all the time */
    probe_end(&probe);
    probe_close(client);
}

/* A release that is told during a flood is not lost in it. */
static void the_last_of_equal_notices_is_told_after_what_came_before_it(void **state)
{
    simba_client *client = open_client("memory:last?ttl=20s&transition=20s&jitter=60s..61s");
    struct probe owner = {0};
    struct probe waiter = {0};

    probe_create(&owner, client, "m", "owner");
    probe_start(&owner);
    probe_wait_owner(&owner);
    probe_create(&waiter, client, "m", "waiter");
    probe_start(&waiter);
    probe_wait_status(waiter.contender, SIMBA_RUNNING);
    for (int i = 0; i < 1000; i++)
        host->notice(host, SIMBA_NOTICE_RELEASED, "m", "waiter");
    probe_end(&owner);
    probe_wait_owner(&waiter);
    probe_end(&waiter);
    probe_close(client);
}

/* A backend of the application's own may be wrong, or newer. */
static void a_notice_of_an_unknown_kind_is_a_hint_to_try(void **state)
{
    static const int kinds[] = {-1, SIMBA_NOTICE_STANDBY + 1, 1000};
    simba_client *client = open_client("memory:kinds?ttl=20s&transition=20s&jitter=60s..61s");
    struct probe owner = {0};
    struct probe waiter = {0};

    probe_create(&owner, client, "m", "owner");
    probe_start(&owner);
    probe_wait_owner(&owner);
    probe_create(&waiter, client, "m", "waiter");
    probe_start(&waiter);
    probe_wait_status(waiter.contender, SIMBA_RUNNING);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        unsigned before = atomic_load(&submitted);

        host->notice(host, (enum simba_notice)kinds[i], "m", "waiter");
        probe_wait_count(&submitted, before + 1);
    }
    probe_end(&waiter);
    probe_end(&owner);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_that_wait_for_the_loop_take_no_memory),
        cmocka_unit_test(timers_fire_however_many_tasks_there_are),
        cmocka_unit_test(the_last_of_equal_notices_is_told_after_what_came_before_it),
        cmocka_unit_test(a_notice_of_an_unknown_kind_is_a_hint_to_try),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
