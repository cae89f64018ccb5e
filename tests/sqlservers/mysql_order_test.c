/*
 * mysql_order_test.c - statements that reach their row later than they began, behind others that
 * began after them.
 *
 * The server's stamp is the start of a statement, so such a statement knows an older time than the
 * row. Here a session whose clock stands still a while ago takes its place: init_connect sets it
 * for the user `plain`, and not for the administrator. And the locks that can hold a statement up
 * are real.
 */
#include "server.h"

#include "backend/host.h"

#include <simba/sql.h>

#define BEHIND_S 5 /* of the old session's clock */
#define COUNT 3

static const char *const names[COUNT] = {"m-1", "m-2", "m-3"};

static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    server_sql(&server,
               "SET GLOBAL init_connect = 'SET SESSION timestamp = unix_timestamp(now(3)) - %d'",
               BEHIND_S);
    return 0;
}

static void open_old(struct host *host)
{
    assert_int_equal(host_open(host, server_url(&server, "plain:secret", "")), SIMBA_OK);
}

static int64_t lease_end(const char *mutex)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT transition_at FROM simba_mutex WHERE mutex = '%s'", mutex);
    return server_number(&server, sql);
}

static int64_t ttl_end(const char *mutex)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT ttl_at FROM simba_mutex WHERE mutex = '%s'", mutex);
    return server_number(&server, sql);
}

static void run(struct host *host, enum simba_op op, size_t count)
{
    struct call calls[COUNT];

    for (size_t i = 0; i < count; i++)
        calls[i] = host_call(op, names[i], "a", 0);
    host_submit(host, calls, count);
    assert_true(host_wait(host, calls, count));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_string_equal(calls[i].owner, "a");
        assert_true(calls[i].ttl_left_ms <= HOST_TTL_MS);
        assert_true(calls[i].transition_left_ms <= HOST_LEASE_MS);
    }
}

/* One lease is granted in time, then an older statement of the same owner comes. */
static void assert_nothing_is_shortened(enum simba_op op, size_t count)
{
    struct host host, old;
    int64_t end_ms[COUNT];
    int64_t ttl_ms[COUNT];

    server_sql(&server, "DELETE FROM simba_mutex");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    open_old(&old);
    run(&host, SIMBA_OP_ACQUIRE, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        end_ms[i] = lease_end(names[i]);
        ttl_ms[i] = ttl_end(names[i]);
    }
    run(&old, op, count);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(lease_end(names[i]), end_ms[i]);
        assert_int_equal(ttl_end(names[i]), ttl_ms[i]);
    }
    run(&host, SIMBA_OP_GUARD, COUNT); /* and the next one in time goes on from there */
    assert_true(lease_end(names[0]) >= end_ms[0]);
    assert_true(host_close(&old));
    assert_true(host_close(&host));
}

/* The twin: an old statement is indeed old. */
static void a_session_can_have_an_older_time(void **state)
{
    struct host old;
    int64_t now_ms;

    server_sql(&server, "DELETE FROM simba_mutex");
    open_old(&old);
    now_ms = server_number(&server, "SELECT floor(unix_timestamp(now(3)) * 1000)");
    run(&old, SIMBA_OP_ACQUIRE, 1);
    assert_in_range(lease_end(names[0]), now_ms + HOST_LEASE_MS - 2 * BEHIND_S * 1000,
                    now_ms + HOST_LEASE_MS - BEHIND_S * 1000);
    assert_true(host_close(&old));
}

static void an_older_acquire_shortens_no_lease(void **state)
{
    assert_nothing_is_shortened(SIMBA_OP_ACQUIRE, 1);
    assert_nothing_is_shortened(SIMBA_OP_ACQUIRE, COUNT);
}

static void an_older_renewal_shortens_no_lease(void **state)
{
    assert_nothing_is_shortened(SIMBA_OP_GUARD, 1);
    assert_nothing_is_shortened(SIMBA_OP_GUARD, COUNT);
}

/* What a release has ended is not the same lease any more. */
static void the_lease_of_another_owner_is_no_limit(void **state)
{
    struct host host;
    struct call call;
    int64_t now_ms;

    server_sql(&server, "DELETE FROM simba_mutex");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m-1", "a", 0);
    host_do(&host, SIMBA_OP_RELEASE, "m-1", "a", call.revision);
    now_ms = server_number(&server, "SELECT floor(unix_timestamp(now(3)) * 1000)");
    call = host_call(SIMBA_OP_ACQUIRE, "m-1", "b", 0);
    call.request.ttl_ms = call.request.transition_ms = 1000;
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    assert_string_equal(call.owner, "b");
    assert_in_range(lease_end("m-1"), now_ms + 2000, now_ms + HOST_TTL_MS);
    assert_true(host_close(&host));
}

static void the_rows_own_functions_shorten_no_lease_either(void **state)
{
    simba_repository *repository = NULL;
    struct simba_record record;
    struct host host;
    bool acquired = false;
    int64_t end_ms;

    server_sql(&server, "DELETE FROM simba_mutex");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    run(&host, SIMBA_OP_ACQUIRE, 1);
    end_ms = lease_end(names[0]);
    assert_int_equal(
        simba_repository_open(server_url(&server, "plain:secret", ""), &repository, NULL), 0);
    assert_int_equal(simba_repository_acquire(repository, names[0], "a", HOST_TTL_MS,
                                              HOST_TRANSITION_MS, &acquired, NULL),
                     0);
    assert_true(acquired);
    assert_int_equal(lease_end(names[0]), end_ms);
    assert_int_equal(simba_repository_acquire_and_get_owner(repository, names[0], "a", HOST_TTL_MS,
                                                            HOST_TRANSITION_MS, &acquired, &record,
                                                            NULL),
                     0);
    assert_true(acquired);
    assert_int_equal(record.transition_at_ms, end_ms);
    assert_int_equal(lease_end(names[0]), end_ms);
    simba_repository_close(repository);
    assert_true(host_close(&host));
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static const char *const lock_statements[] = {
    "FLUSH TABLES WITH READ LOCK",
    "LOCK TABLES simba_mutex WRITE",
};

static struct session *locker; /* who has the lock, also while a test fails */

static int open_locker(void **state)
{
    locker = session_open(&server);
    session_sql(locker, "SET SESSION lock_wait_timeout = 20");
    return 0;
}

static int close_locker(void **state)
{
    session_close(locker);
    return 0;
}

static bool nothing_hangs(void *user)
{
    (void)user;
    return server_number(&server, "SELECT count(*) FROM information_schema.processlist WHERE user ="
                                  " 'root' AND command <> 'Sleep'") == 0;
}

static void ask_behind_lock(struct host *host, enum simba_op op)
{
    struct call calls[COUNT];
    int64_t began_ms = simba_now_ms();

    for (size_t i = 0; i < COUNT; i++) {
        calls[i] = host_call(op, names[i], "a", 0);
        calls[i].request.timeout_ms = 400;
    }
    for (size_t count = 1; count <= COUNT; count += COUNT - 1) {
        host_submit(host, calls, count);
        assert_true(host_wait(host, calls, count));
        for (size_t i = 0; i < count; i++)
            assert_int_equal(calls[i].code, SIMBA_EUNAVAILABLE); /* and certainly not applied */
    }
    assert_true(simba_now_ms() - began_ms < 10000);
}

/* A session has locked the table or the server: no statement waits there for longer than its
 * client, and then comes when it is not expected any more. */
static void no_statement_is_left_behind_a_lock(void **state)
{
    struct host host;

    server_sql(&server, "DELETE FROM simba_mutex");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(lock_statements); i++) {
        uint64_t version;

        run(&host, SIMBA_OP_ACQUIRE, COUNT);
        version = host_do(&host, SIMBA_OP_READ, names[0], NULL, 0).revision;
        session_sql(locker, "%s", lock_statements[i]);
        ask_behind_lock(&host, SIMBA_OP_ACQUIRE);
        ask_behind_lock(&host, SIMBA_OP_GUARD);
        assert_true(nothing_hangs(NULL));
        session_sql(locker, "UNLOCK TABLES");
        assert_int_equal(host_do(&host, SIMBA_OP_READ, names[0], NULL, 0).revision, version);
        run(&host, SIMBA_OP_GUARD, COUNT);
    }
    assert_true(host_close(&host));
}

/* To open a store may take as long as the URL says, and what it asks for is not left behind
 * either. */
static void who_creates_the_table_waits_for_a_lock(void **state)
{
    struct host host;
    int64_t began_ms;

    server_sql(&server, "DROP TABLE simba_mutex");
    session_sql(locker, "FLUSH TABLES WITH READ LOCK");
    began_ms = simba_now_ms();
    assert_int_equal(host_open(&host, server_url(&server, dialect_admin, "connect-timeout=1500ms")),
                     SIMBA_EUNAVAILABLE);
    assert_in_range(simba_now_ms() - began_ms, 900, 10000);
    assert_true(test_wait(nothing_hangs, NULL));
    session_sql(locker, "UNLOCK TABLES");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_can_have_an_older_time),
        cmocka_unit_test(an_older_acquire_shortens_no_lease),
        cmocka_unit_test(an_older_renewal_shortens_no_lease),
        cmocka_unit_test(the_lease_of_another_owner_is_no_limit),
        cmocka_unit_test(the_rows_own_functions_shorten_no_lease_either),
        cmocka_unit_test_setup_teardown(no_statement_is_left_behind_a_lock, open_locker,
                                        close_locker),
        cmocka_unit_test_setup_teardown(who_creates_the_table_waits_for_a_lock, open_locker,
                                        close_locker),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("order", tests, open_store, server_teardown);
}
