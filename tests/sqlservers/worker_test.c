/*
 * worker_test.c - the thread that carries requests out. What may hold a statement up must hold up
 * nobody else, and whatever becomes of it is told exactly once.
 */
#include "server.h"

#include "backend/host.h"
#include "backend/sql/driver.h"
#include "lib/locker.h"

#include <simba/simba.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define LEASE "ttl=1s&transition=15s&jitter=0ms..50ms&connect-timeout=1s"
#define LEASE_MS 16000
#define SHORT_LEASE "ttl=300ms&transition=4s&jitter=0ms..50ms&connect-timeout=1s"
#define CLOSE_MS 5000 /* a stop, its last request and a connection may take 3 s */
#define LATE_MS 300 /* that a wait may last longer than it was to; 100 of them are the machine's */
#define TRIES 5     /* of which one must be in time: the machine may be slow for a while */

static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_trigger);
    return 0;
}

static simba_client *open_client(const char *options)
{
    struct simba_error error;
    simba_client *client = NULL;

    if (simba_client_open(server_url(&server, dialect_admin, options), NULL, &client, &error) !=
        SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

static void close_client(simba_client *client)
{
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

static void cycle(simba_locker *locker)
{
    struct simba_error error;

    if (simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, &error) != SIMBA_OK ||
        simba_locker_release(locker, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
}

/* Its statements are prepared: the next one is a single round trip. */
static simba_locker *used_locker(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, mutex, NULL, &locker, NULL), SIMBA_OK);
    cycle(locker);
    cycle(locker);
    return locker;
}

static struct call take(struct host *host, const char *id, const char *expected)
{
    struct call call = host_do(host, SIMBA_OP_ACQUIRE, "m", id, 0);

    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, expected);
    return call;
}

static uint64_t give_back(struct host *host, const struct call *taken)
{
    struct call call = host_do(host, SIMBA_OP_RELEASE, "m", taken->request.id, taken->revision);

    assert_int_equal(call.code, SIMBA_OK);
    return taken->revision + 1;
}

/* Returns the version that it leaves. */
static uint64_t come_and_go(struct host *host, const char *id)
{
    struct call taken = take(host, id, id);

    return give_back(host, &taken);
}

/* ---- How many statements --------------------------------------------------------------------- */

#define ROUNDS 10

static void alone(struct host *mine, struct host *other)
{
    (void)other;
    come_and_go(mine, "a");
}

static void in_turn(struct host *mine, struct host *other)
{
    come_and_go(mine, "a");
    come_and_go(other, "b");
}

static void with_a_refusal(struct host *mine, struct host *other)
{
    struct call call;

    come_and_go(mine, "a");
    call = take(other, "b", "b");
    take(mine, "a", "b");
    give_back(other, &call);
}

/* On average, once both know the mutex. */
static double updates_of(void (*round)(struct host *mine, struct host *other), struct host *mine,
                         struct host *other)
{
    int64_t before;

    for (int i = 0; i < 3; i++)
        round(mine, other);
    before = server_number(&server, dialect_count_updates);
    for (int i = 0; i < ROUNDS; i++)
        round(mine, other);
    return (double)(server_number(&server, dialect_count_updates) - before) / ROUNDS;
}

static void each_change_is_one_statement_alone_and_in_turn(void **state)
{
    struct host mine, other;

    server_sql(&server, "DELETE FROM simba_mutex WHERE mutex = 'm'");
    assert_int_equal(host_open(&mine, server.url), SIMBA_OK);
    assert_int_equal(host_open(&other, server.url), SIMBA_OK);
    assert_float_equal(updates_of(alone, &mine, &other), 2, 0.01);
    assert_float_equal(updates_of(in_turn, &mine, &other), 4, 0.01);
    assert_float_equal(updates_of(with_a_refusal, &mine, &other), (float)(5 + dialect_marks), 0.01);
    assert_float_equal(updates_of(alone, &mine, &other), 2, 0.01);
    assert_true(host_close(&other));
    assert_true(host_close(&mine));
}

/* ---- A server that hangs --------------------------------------------------------------------- */

static int64_t time_of_wait(simba_locker *locker, int64_t limit_ms)
{
    int64_t began_ms = simba_now_ms();

    assert_int_not_equal(simba_locker_acquire_timeout(locker, limit_ms, NULL), SIMBA_OK);
    return simba_now_ms() - began_ms;
}

static void a_wait_with_a_limit_ends_in_time_while_the_server_hangs(void **state)
{
    simba_client *client = open_client(LEASE);
    simba_locker *locker = used_locker(client, "hangs");

    server_pause(&server);
    for (int64_t limit_ms = 50; limit_ms <= 800; limit_ms *= 4) {
        int64_t took_ms = time_of_wait(locker, limit_ms);

        for (int i = 1; i < TRIES && took_ms > limit_ms + LATE_MS; i++)
            took_ms = time_of_wait(locker, limit_ms);
        assert_in_range(took_ms, limit_ms, limit_ms + LATE_MS);
    }
    server_resume(&server);
    cycle(locker);
    simba_locker_close(locker);
    close_client(client);
}

static void a_client_closes_while_the_server_hangs(void **state)
{
    simba_client *client =
        open_client("ttl=300ms&transition=900ms&timeout=1s&connect-timeout=1s&stop-timeout=1s");
    simba_locker *locker = used_locker(client, "closes");
    int64_t began_ms;

    server_pause(&server);
    assert_int_not_equal(simba_locker_acquire_timeout(locker, 50, NULL), SIMBA_OK);
    began_ms = simba_now_ms();
    simba_locker_close(locker);
    close_client(client);
    server_resume(&server);
    assert_true(simba_now_ms() - began_ms < CLOSE_MS);
}

struct attempt {
    simba_locker *locker;
    pthread_t thread;
    atomic_bool begun;
    int code;
};

static void *acquire(void *argument)
{
    struct attempt *attempt = argument;

    atomic_store(&attempt->begun, true);
    attempt->code = simba_locker_acquire(attempt->locker, NULL);
    return NULL;
}

static bool has_begun(void *user)
{
    struct attempt *attempt = user;

    return atomic_load(&attempt->begun);
}

static void start(struct attempt *attempt, simba_locker *locker)
{
    attempt->locker = locker;
    assert_int_equal(pthread_create(&attempt->thread, NULL, acquire, attempt), 0);
    assert_true(test_wait(has_begun, attempt));
}

static int64_t time_of_cancel(simba_locker *locker)
{
    struct attempt attempt = {0};
    int64_t began_ms;

    start(&attempt, locker);
    test_pause_ms(100); /* its request is on its way; there is nothing that would tell */
    began_ms = simba_now_ms();
    simba_locker_cancel(locker);
    pthread_join(attempt.thread, NULL);
    assert_int_equal(attempt.code, SIMBA_ECANCELED);
    return simba_now_ms() - began_ms;
}

static void a_wait_is_cancelled_at_once_while_the_server_hangs(void **state)
{
    simba_client *client = open_client(LEASE);
    simba_locker *locker = used_locker(client, "cancelled");
    int64_t took_ms;

    server_pause(&server);
    took_ms = time_of_cancel(locker);
    for (int i = 1; i < TRIES && took_ms > LATE_MS; i++)
        took_ms = time_of_cancel(locker);
    assert_in_range(took_ms, 0, LATE_MS);
    server_resume(&server);
    cycle(locker);
    simba_locker_close(locker);
    close_client(client);
}

#define LOOP_LATE_MS (SB_SQL_LOOP_BUSY_MS + LATE_MS)

/* Of a new client: the loop itself waits for the answer of its first request. */
static int64_t time_of_first(int64_t (*time)(simba_locker *locker))
{
    simba_client *client = open_client(LEASE);
    simba_locker *locker = used_locker(client, "first");
    int64_t took_ms;

    server_pause(&server);
    took_ms = time(locker);
    server_resume(&server);
    cycle(locker);
    simba_locker_close(locker);
    close_client(client);
    return took_ms;
}

static int64_t time_of_short_wait(simba_locker *locker)
{
    return time_of_wait(locker, 50);
}

static void a_wait_that_the_loop_is_in_ends_in_time_too(void **state)
{
    int64_t cancel_ms = time_of_first(time_of_cancel);
    int64_t wait_ms = time_of_first(time_of_short_wait);

    for (int i = 1; i < TRIES && cancel_ms > LOOP_LATE_MS; i++)
        cancel_ms = time_of_first(time_of_cancel);
    for (int i = 1; i < TRIES && wait_ms > 50 + LOOP_LATE_MS; i++)
        wait_ms = time_of_first(time_of_short_wait);
    assert_in_range(cancel_ms, 0, LOOP_LATE_MS);
    assert_in_range(wait_ms, 50, 50 + LOOP_LATE_MS);
}

/* The timer stands for the socket of a server that sends a byte every 50 ms. */
static void bytes_of_a_slow_answer_do_not_make_the_wait_of_a_busy_loop_longer(void **state)
{
    struct itimerspec often = {{.tv_nsec = 50000000}, {.tv_nsec = 50000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    int64_t began_ms = simba_now_ms();
    uint64_t bytes;
    uv_loop_t loop;
    uv_async_t task;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_async_init(&loop, &task, NULL), 0);
    uv_run(&loop, UV_RUN_NOWAIT); /* from here on the descriptor of the loop shows the task */
    uv_async_send(&task);
    timerfd_settime(fd, 0, &often, NULL);
    struct sb_sql_connection connection = {.loop = &loop, .loop_until_ms = SIMBA_INFINITE};
    while (sb_sql_wait(&connection, fd, POLLIN, began_ms + CLOSE_MS) != 0)
        assert_int_equal(read(fd, &bytes, sizeof bytes), sizeof bytes);
    assert_in_range(simba_now_ms() - began_ms, SB_SQL_LOOP_BUSY_MS, CLOSE_MS - 1);
    close(fd);
    uv_close((uv_handle_t *)&task, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- Others go on ---------------------------------------------------------------------------- */

#define OTHERS 100

static uint64_t renewals_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics.renewals;
}

struct renewals {
    simba_client *client;
    uint64_t least;
};

static bool has_renewed(void *user)
{
    const struct renewals *renewals = user;

    return renewals_of(renewals->client) >= renewals->least;
}

static void hold_others(simba_client *client, simba_locker **others)
{
    char name[16];

    for (size_t i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof name, "other-%zu", i);
        assert_int_equal(test_locker_create(client, name, NULL, &others[i], NULL), SIMBA_OK);
        assert_int_equal(simba_locker_acquire(others[i], NULL), SIMBA_OK);
    }
}

/* The row is somebody else's for as long as the others take for three renewals each. */
static void others_are_renewed_while_a_statement_waits_for_a_row(void **state)
{
    simba_client *client = open_client(SHORT_LEASE);
    struct session *admin = session_open(&server);
    struct renewals renewals = {.client = client};
    static simba_locker *others[OTHERS];
    struct attempt attempt = {0};
    simba_locker *locker = used_locker(client, "locked");

    hold_others(client, others);
    session_sql(admin, "BEGIN");
    session_sql(admin, "SELECT * FROM simba_mutex WHERE mutex = 'locked' FOR UPDATE");
    start(&attempt, locker);
    renewals.least = renewals_of(client) + (uint64_t)OTHERS * 3;
    assert_true(test_wait(has_renewed, &renewals));
    session_sql(admin, "COMMIT");
    session_close(admin);
    pthread_join(attempt.thread, NULL);
    assert_int_equal(attempt.code, SIMBA_OK);
    for (size_t i = 0; i < OTHERS; i++) {
        assert_int_equal(simba_locker_release(others[i], NULL), SIMBA_OK);
        simba_locker_close(others[i]);
    }
    simba_locker_close(locker);
    close_client(client);
}

static bool is_slow(void *user)
{
    (void)user;
    return server_number(&server, dialect_count_sleepers) > 0;
}

static void requests_that_come_meanwhile_follow(void **state)
{
    struct call slow = host_call(SIMBA_OP_ACQUIRE, "slow", "a", 0);
    struct call next[3] = {host_call(SIMBA_OP_ACQUIRE, "n-1", "a", 0),
                           host_call(SIMBA_OP_READ, "n-1", NULL, 0),
                           host_call(SIMBA_OP_ACQUIRE, "n-2", "a", 0)};
    struct host host;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "slow", "nobody", 0);
    server_sql(&server, "UPDATE simba_mutex SET owner_id = '', transition_at = 0");
    host_submit(&host, &slow, 1);
    assert_true(test_wait(is_slow, NULL));
    for (size_t i = 0; i < TEST_COUNT(next); i++)
        host_submit(&host, &next[i], 1);
    assert_true(host_wait(&host, &slow, 1));
    assert_true(host_wait(&host, next, TEST_COUNT(next)));
    assert_string_equal(slow.owner, "a");
    assert_string_equal(next[0].owner, "a");
    assert_string_equal(next[2].owner, "a");
    for (size_t i = 0; i < TEST_COUNT(next); i++)
        assert_int_equal(next[i].answers, 1);
    assert_true(host_close(&host));
}

#define THREADS 4
#define TURNS 100

static void *take_turns(void *argument)
{
    simba_client *client = argument;
    struct simba_error error;
    simba_locker *locker = NULL;
    char name[32];
    bool good = true;

    snprintf(name, sizeof name, "own-%lx", (unsigned long)pthread_self());
    if (test_locker_create(client, name, NULL, &locker, NULL) != SIMBA_OK)
        return NULL;
    for (int i = 0; i < TURNS && good; i++)
        good = simba_locker_acquire(locker, &error) == SIMBA_OK &&
               simba_locker_release(locker, &error) == SIMBA_OK;
    simba_locker_close(locker);
    return good ? client : NULL;
}

static void threads_that_wait_at_once_are_all_served(void **state)
{
    simba_client *client = open_client(LEASE);
    pthread_t threads[THREADS];
    void *result;

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, client), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, client);
    }
    close_client(client);
}

struct busy {
    simba_client *client;
    atomic_bool end;
};

static void *be_busy(void *argument)
{
    struct busy *busy = argument;
    simba_locker *locker = used_locker(busy->client, "busy");

    while (!atomic_load(&busy->end))
        cycle(locker);
    simba_locker_close(locker);
    return NULL;
}

/* A look for releases needs the connection as well. */
static void a_stream_of_requests_keeps_no_waiter_from_a_release(void **state)
{
    simba_client *other = open_client(LEASE);
    simba_locker *held = used_locker(other, "wanted");
    struct busy busy = {.client = open_client(LEASE)};
    simba_locker *locker = used_locker(busy.client, "wanted");
    struct attempt attempt = {0};
    pthread_t thread;
    int64_t released_ms;

    assert_int_equal(simba_locker_acquire(held, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&thread, NULL, be_busy, &busy), 0);
    start(&attempt, locker);
    test_pause_ms(500); /* it waits, and looks at its longest interval */
    assert_int_equal(simba_locker_release(held, NULL), SIMBA_OK);
    released_ms = simba_now_ms();
    pthread_join(attempt.thread, NULL);
    assert_int_equal(attempt.code, SIMBA_OK);
    assert_true(simba_now_ms() - released_ms < LEASE_MS / 4);
    atomic_store(&busy.end, true);
    pthread_join(thread, NULL);
    simba_locker_close(locker);
    simba_locker_close(held);
    close_client(busy.client);
    close_client(other);
}

/* ---- Connections that are lost --------------------------------------------------------------- */

static void *kill_clients_when_slow(void *unused)
{
    (void)unused;
    if (test_wait(is_slow, NULL))
        dialect_kill_clients(&server);
    return NULL;
}

static void *kill_server_when_slow(void *unused)
{
    (void)unused;
    if (test_wait(is_slow, NULL))
        server_kill(&server);
    return NULL;
}

/* An acquire that `meddle` interrupts. The loop carries it out itself, unless the client has two
 * listeners. */
static void acquire_slowly(struct host *host, struct call *call, bool on_loop,
                           void *(*meddle)(void *unused))
{
    struct host other;
    pthread_t thread;

    *call = host_call(SIMBA_OP_ACQUIRE, "slow", "a", 0);
    assert_int_equal(host_open(&other, server.url), SIMBA_OK);
    host_do(&other, SIMBA_OP_ACQUIRE, "slow", "nobody", 0);
    assert_true(host_close(&other));
    server_sql(&server, "UPDATE simba_mutex SET owner_id = '', transition_at = 0");
    for (int i = 0; i < 2 && !on_loop; i++)
        host->ops->listen(host->backend, "other", NULL, true);
    assert_int_equal(pthread_create(&thread, NULL, meddle, NULL), 0);
    host_submit(host, call, 1);
    pthread_join(thread, NULL);
    assert_true(host_wait(host, call, 1));
}

/* It was not applied, and then it is tried again; or nobody knows. */
static void a_connection_that_is_lost_meanwhile_is_told_once(void **state)
{
    for (int on_loop = 0; on_loop < 2; on_loop++) {
        struct host host;
        struct call call;

        assert_int_equal(host_open(&host, server.url), SIMBA_OK);
        acquire_slowly(&host, &call, on_loop != 0, kill_clients_when_slow);
        assert_true(call.code == SIMBA_EUNKNOWN || strcmp(call.owner, "a") == 0);
        assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "b");
        assert_int_equal(call.answers, 1);
        assert_true(host_close(&host));
    }
}

static void a_server_that_dies_meanwhile_leaves_the_outcome_unknown(void **state)
{
    for (int on_loop = 0; on_loop < 2; on_loop++) {
        struct host host;
        struct call call;

        assert_int_equal(host_open(&host, server_url(&server, dialect_admin, "connect-timeout=1s")),
                         SIMBA_OK);
        acquire_slowly(&host, &call, on_loop != 0, kill_server_when_slow);
        assert_int_equal(call.code, SIMBA_EUNKNOWN);
        assert_int_equal(call.on_loop, on_loop);
        assert_int_equal(call.answers, 1);
        server_start(&server);
        assert_true(host_close(&host));
    }
}

static double cpu_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

/* The farewell stays on the socket until somebody reads it. */
static void a_connection_that_was_closed_while_idle_costs_nothing(void **state)
{
    simba_client *client = open_client(LEASE);
    simba_locker *locker = used_locker(client, "idle");
    double began_ms;

    dialect_kill_clients(&server);
    began_ms = cpu_ms();
    test_pause_ms(500);
    assert_true(cpu_ms() - began_ms < 100);
    cycle(locker);
    simba_locker_close(locker);
    close_client(client);
}

/* The application's thread would get it. */
static void a_connection_that_is_lost_raises_no_signal(void **state)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "piped", "a", 0);
    struct host host;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    server_pause(&server);
    server_break_pipes(&server);
    host_submit(&host, &call, 1);
    server_resume(&server);
    assert_true(host_wait(&host, &call, 1));
    assert_true(call.code == SIMBA_EUNKNOWN || strcmp(call.owner, "a") == 0);
    assert_true(host_close(&host));
    assert_int_equal(server_pipe_signals(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_change_is_one_statement_alone_and_in_turn),
        cmocka_unit_test(a_wait_with_a_limit_ends_in_time_while_the_server_hangs),
        cmocka_unit_test(a_client_closes_while_the_server_hangs),
        cmocka_unit_test(a_wait_is_cancelled_at_once_while_the_server_hangs),
        cmocka_unit_test(a_wait_that_the_loop_is_in_ends_in_time_too),
        cmocka_unit_test(bytes_of_a_slow_answer_do_not_make_the_wait_of_a_busy_loop_longer),
        cmocka_unit_test(others_are_renewed_while_a_statement_waits_for_a_row),
        cmocka_unit_test(requests_that_come_meanwhile_follow),
        cmocka_unit_test(threads_that_wait_at_once_are_all_served),
        cmocka_unit_test(a_stream_of_requests_keeps_no_waiter_from_a_release),
        cmocka_unit_test(a_connection_that_is_lost_meanwhile_is_told_once),
        cmocka_unit_test(a_server_that_dies_meanwhile_leaves_the_outcome_unknown),
        cmocka_unit_test(a_connection_that_was_closed_while_idle_costs_nothing),
        cmocka_unit_test(a_connection_that_is_lost_raises_no_signal),
    };

    return server_is_installed()
               ? cmocka_run_group_tests_name("worker", tests, open_store, server_teardown)
               : 77;
}
