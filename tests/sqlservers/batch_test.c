/*
 * batch_test.c - requests that are carried out together, when one of them cannot be, when somebody
 * is in the way, and when the server or the client stops in the middle.
 *
 * The table gets a trigger: who wants to own as `poison` waits and is refused then, and the mutex
 * `slow` takes its time. So the test knows when a batch is under way.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/locker.h"

#include <simba/simba.h>
#include <simba/sql.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define CROWD 200
#define SHORT_LEASE "ttl=1200ms&transition=400ms&jitter=0ms..50ms"
#define SHORT_LEASE_MS 1600

static char names[CROWD][16];

static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_trigger);
    for (size_t i = 0; i < CROWD; i++)
        snprintf(names[i], sizeof names[i], "crowd-%03zu", i);
    return 0;
}

static void acquire_all(struct host *host, struct call *calls)
{
    for (size_t i = 0; i < CROWD; i++)
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "me", 0);
    host_submit(host, calls, CROWD);
    assert_true(host_wait(host, calls, CROWD));
    for (size_t i = 0; i < CROWD; i++)
        assert_string_equal(calls[i].owner, "me");
}

/* ---- One that cannot be carried out ---------------------------------------------------------- */

struct rival {
    atomic_bool ready;
    atomic_bool took;
};

/* Queues for the row while the batch has it, and keeps it for a while. */
static void *take_row(void *argument)
{
    struct rival *rival = argument;
    struct session *session = session_open(&server);

    session_sql(session, "BEGIN");
    atomic_store(&rival->ready, true);
    session_sql(session,
                "UPDATE simba_mutex SET owner_id = 'rival', ttl_at = 99999999999999,"
                " transition_at = 99999999999999, version = version + 1"
                " WHERE mutex = '%s' AND transition_at = 0",
                names[0]);
    test_pause_ms(100);
    session_sql(session, "COMMIT");
    session_close(session);
    atomic_store(&rival->took, true);
    return NULL;
}

static bool is_slow(void *user)
{
    (void)user;
    return server_number(&server, dialect_count_sleepers) > 0;
}

/* What was changed and rolled back with the poisoned one must not be told as if it had been
 * kept. */
static void a_poisoned_batch_makes_nobody_an_owner_beside_a_rival(void **state)
{
    static struct call calls[CROWD];
    struct rival rival = {false, false};
    struct host host;
    pthread_t thread;
    char owner[64];

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    acquire_all(&host, calls);
    server_sql(&server, "UPDATE simba_mutex SET owner_id = '', ttl_at = 0, transition_at = 0");
    for (size_t i = 0; i < CROWD; i++)
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], i == CROWD - 1 ? "poison" : "me", 0);
    host_submit(&host, calls, CROWD);
    assert_true(test_wait(is_slow, NULL));
    assert_int_equal(pthread_create(&thread, NULL, take_row, &rival), 0);
    assert_true(host_wait(&host, calls, CROWD));
    pthread_join(thread, NULL);
    assert_true(rival.took);
    snprintf(owner, sizeof owner, "%s",
             server_sql(&server, "SELECT owner_id FROM simba_mutex WHERE mutex = '%s'", names[0]));
    assert_int_equal(calls[0].code, SIMBA_OK);
    assert_string_equal(calls[0].owner, owner);
    for (size_t i = 1; i < CROWD - 1; i++)
        assert_string_equal(calls[i].owner, "me");
    assert_int_equal(calls[CROWD - 1].code, SIMBA_ESTORE);
    assert_true(host_close(&host));
}

static bool has_committed(void *user)
{
    (void)user;
    return server_number(&server, "SELECT count(*) FROM simba_mutex WHERE version > 10") > 0;
}

/* The others have been carried out already, one way or another, when the server dies under the
 * poisoned one. */
static void a_server_that_dies_in_a_poisoned_batch_leaves_nobody_without_an_answer(void **state)
{
    static struct call calls[CROWD];
    struct host host;

    assert_int_equal(host_open(&host, server_url(&server, dialect_admin, "connect-timeout=1s")),
                     SIMBA_OK);
    server_sql(&server, "UPDATE simba_mutex SET owner_id = '', ttl_at = 0, transition_at = 0");
    acquire_all(&host, calls);
    server_sql(&server, "UPDATE simba_mutex SET version = 10");
    for (size_t i = 0; i < CROWD; i++) {
        bool poison = i == CROWD - 1;

        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], poison ? "poison" : "me", 0);
        calls[i].request.timeout_ms = 5000;
    }
    server_sql(&server,
               "UPDATE simba_mutex SET owner_id = '', transition_at = 0 WHERE mutex = '%s'",
               names[CROWD - 1]);
    host_submit(&host, calls, CROWD);
    assert_true(test_wait(has_committed, NULL));
    server_kill(&server);
    assert_true(host_wait(&host, calls, CROWD));
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(calls[i].answers, 1);
    server_start(&server);
    assert_true(host_close(&host));
}

/* ---- Somebody in the way --------------------------------------------------------------------- */

static simba_client *open_client(const char *options)
{
    struct simba_error error;
    simba_client *client = NULL;

    if (simba_client_open(server_url(&server, dialect_admin, options), NULL, &client, &error) !=
        SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

/* A row that somebody else is adding cannot be added, nor can anybody see it. */
static void a_blocked_insert_delays_no_renewal(void **state)
{
    simba_client *client = open_client(SHORT_LEASE);
    struct session *admin = session_open(&server);
    struct simba_error error;
    simba_locker *held = NULL;
    simba_locker *blocked = NULL;

    assert_int_equal(test_locker_create(client, "held", NULL, &held, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(client, "blocked", NULL, &blocked, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(held, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    session_sql(admin, "BEGIN");
    session_sql(admin, "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at,"
                       " owner_id, version) VALUES ('blocked', 0, 0, 0, '', 0)");
    assert_int_not_equal(simba_locker_acquire_timeout(blocked, 3 * SHORT_LEASE_MS, &error),
                         SIMBA_OK);
    assert_non_null(strstr(error.text, "locked"));
    assert_int_equal(simba_locker_release(held, NULL), SIMBA_OK); /* not lost meanwhile */
    session_sql(admin, "ROLLBACK");
    session_close(admin);
    assert_int_equal(simba_locker_acquire_timeout(blocked, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    simba_locker_close(blocked);
    simba_locker_close(held);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

/* ---- A client that stops --------------------------------------------------------------------- */

/* Ends as a child process, when it is killed. */
static void contend_for_ever(void)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *client = NULL;

    if (simba_client_open(server_url(&server, dialect_admin, SHORT_LEASE), NULL, &client, NULL) !=
        SIMBA_OK)
        _exit(1);
    for (size_t i = 0; i < CROWD; i++) {
        simba_contender *contender = NULL;

        options.mutex = i == CROWD / 2 ? "slow" : names[i];
        if (simba_contender_create(client, &options, &contender, NULL) != SIMBA_OK ||
            simba_contender_start(contender, NULL) != SIMBA_OK)
            _exit(1);
    }
    for (;;)
        pause();
}

static void acquire_for_ever(void)
{
    simba_repository *repository = NULL;

    if (simba_repository_open(server.url, &repository, NULL) != SIMBA_OK)
        _exit(1);
    for (;;) {
        struct simba_record record;
        bool acquired;

        simba_repository_acquire_and_get_owner(repository, "slow", "frozen", 1200, 400, &acquired,
                                               &record, NULL);
    }
}

static pid_t start_child(void (*run)(void))
{
    pid_t pid = fork();

    if (pid == 0)
        run();
    return pid;
}

struct takeover {
    struct host host;
    const char *mutex;
};

static bool takes_over(void *user)
{
    struct takeover *takeover = user;

    return strcmp(host_do(&takeover->host, SIMBA_OP_ACQUIRE, takeover->mutex, "heir", 0).owner,
                  "heir") == 0;
}

/* Freezes the child while the server is at work for it, and demands what it held. */
static void freeze_and_take_over(void (*run)(void), const char *mutex)
{
    struct takeover takeover = {.mutex = mutex};
    pid_t child;
    bool taken;

    server_sql(&server, "UPDATE simba_mutex SET owner_id = '', ttl_at = 0, transition_at = 0");
    child = start_child(run);
    assert_int_equal(host_open(&takeover.host, server.url), SIMBA_OK);
    for (int i = 0; i < 3; i++) { /* so that it has renewed, too */
        assert_true(test_wait(is_slow, NULL));
        test_pause_ms(i < 2 ? SHORT_LEASE_MS / 4 : 0);
    }
    kill(child, SIGSTOP);
    taken = test_wait_within(SHORT_LEASE_MS + 6000, takes_over, &takeover);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(taken);
    assert_true(host_close(&takeover.host));
}

static void a_client_that_freezes_in_a_batch_keeps_no_row(void **state)
{
    freeze_and_take_over(contend_for_ever, names[0]);
}

static void a_repository_that_freezes_in_a_transaction_keeps_no_row(void **state)
{
    freeze_and_take_over(acquire_for_ever, "slow");
}

/* ---- Renewals that wait for others ----------------------------------------------------------- */

#define GATHER_MS 25

static int64_t renewal_ms(struct host *host)
{
    int64_t begin_ms = test_now_ms();

    assert_string_equal(host_do(host, SIMBA_OP_GUARD, "lonely", "me", 0).owner, "me");
    return test_now_ms() - begin_ms;
}

static bool renews_at_once(void *host)
{
    return renewal_ms(host) < GATHER_MS;
}

/* An owner that is killed meanwhile would have its lease end so much later. */
static void the_renewal_of_an_only_contender_waits_for_no_other(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host.ops->listen(host.backend, "lonely", "me", true);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "lonely", "me", 0).owner, "me");
    assert_true(test_wait(renews_at_once, &host));
    host.ops->listen(host.backend, "another", "you", true);
    assert_true(renewal_ms(&host) >= GATHER_MS); /* the twin: there may be company */
    host.ops->listen(host.backend, "another", "you", false);
    host.ops->listen(host.backend, "lonely", "me", false);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_renewal_of_an_only_contender_waits_for_no_other),
        cmocka_unit_test(a_poisoned_batch_makes_nobody_an_owner_beside_a_rival),
        cmocka_unit_test(a_blocked_insert_delays_no_renewal),
        cmocka_unit_test(a_client_that_freezes_in_a_batch_keeps_no_row),
        cmocka_unit_test(a_repository_that_freezes_in_a_transaction_keeps_no_row),
        cmocka_unit_test(a_server_that_dies_in_a_poisoned_batch_leaves_nobody_without_an_answer),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("batch", tests, open_store, server_teardown);
}
