/*
 * postgres_lock_test.c - locks of PostgreSQL that are not on the row: those that a commit waits
 * for, and the table's. A change is told as made only when it is committed, no lock is waited for
 * without an end, and a statement that was held up spoils nothing.
 */
#include "server.h"

#include "backend/host.h"
#include "backend/postgres/connection.h"

#include <simba/sql.h>

#include <pthread.h>

#define LIMIT_MS 1000

/* The synchronous standby that one session waits for does not exist; the library's do not wait for
 * it. */
static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    server_sql(&server, "ALTER DATABASE %s SET synchronous_commit = local", dialect_database);
    return host_open(&host, server.url) == SIMBA_OK && host_close(&host) ? 0 : -1;
}

static struct call do_limited(struct host *host, enum simba_op op, const char *mutex,
                              const char *id, uint64_t revision)
{
    struct call call = host_call(op, mutex, id, revision);

    call.request.timeout_ms = LIMIT_MS;
    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    return call;
}

static const char *owner_of(const char *mutex)
{
    return server_sql(&server, "SELECT owner_id FROM simba_mutex WHERE mutex = '%s'", mutex);
}

/* ---- At the commit --------------------------------------------------------------------------- */

static bool knows_standby(void *user)
{
    (void)user;
    return strcmp(server_sql(&server, "SHOW synchronous_standby_names"), "nobody") == 0;
}

static bool waits_for_standby(void *user)
{
    (void)user;
    return server_number(&server, "SELECT count(*) FROM pg_stat_activity"
                                  " WHERE wait_event = 'SyncRep'") > 0;
}

/* A client that notifies has a lock of the whole cluster from its commit until the standby has it
 * too. */
static void *notify(void *session)
{
    char text[64];

    return dialect_run(session,
                       "SET synchronous_commit = on;"
                       " CREATE TABLE told (n int); NOTIFY others, 'x'",
                       text, sizeof text)
               ? session
               : NULL;
}

static void a_release_that_was_rolled_back_is_not_told_as_made(void **state)
{
    struct session *session = session_open(&server);
    struct host host;
    struct call held, call;
    pthread_t thread;
    void *notified;

    server_sql(&server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server_sql(&server, "SELECT pg_reload_conf()");
    assert_true(test_wait(knows_standby, NULL));
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "released", "a", 0);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "released", "a", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "released", "b", 0); /* a waiter that the release notifies */
    assert_int_equal(pthread_create(&thread, NULL, notify, session), 0);
    assert_true(test_wait(waits_for_standby, NULL));
    call = do_limited(&host, SIMBA_OP_RELEASE, "released", "a", held.revision);
    assert_string_equal(owner_of("released"), "a"); /* the twin: it cannot have been made */
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    server_sql(&server, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                        " WHERE wait_event = 'SyncRep'");
    pthread_join(thread, &notified);
    assert_non_null(notified);
    call = host_do(&host, SIMBA_OP_RELEASE, "released", "a", held.revision);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(owner_of("released"), "");
    session_close(session);
    assert_true(host_close(&host));
}

static const char count_changes[] =
    "CREATE TABLE changes (n int); INSERT INTO changes VALUES (0);"
    "CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN UPDATE public.changes SET n = n + 1; RETURN NULL; END $$;"
    "CREATE CONSTRAINT TRIGGER count_change AFTER UPDATE ON simba_mutex"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_change()";

static void an_acquire_that_was_rolled_back_makes_nobody_an_owner(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "acquired", "a", 0);
    host_do(&host, SIMBA_OP_RELEASE, "acquired", "a", call.revision);
    server_sql(&server, "%s", count_changes);
    session_sql(admin, "BEGIN");
    session_sql(admin, "SELECT * FROM changes FOR UPDATE");
    call = do_limited(&host, SIMBA_OP_ACQUIRE, "acquired", "a", 0);
    assert_string_equal(owner_of("acquired"), "");
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    session_sql(admin, "COMMIT");
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "acquired", "b", 0).owner, "b");
    server_sql(&server, "DROP TRIGGER count_change ON simba_mutex");
    session_close(admin);
    assert_true(host_close(&host));
}

/* ---- On the table ---------------------------------------------------------------------------- */

static int64_t count_waiting(void)
{
    return server_number(&server, "SELECT count(*) FROM pg_stat_activity"
                                  " WHERE wait_event_type = 'Lock'");
}

/* As CREATE INDEX does: others may read the table, but not change it. */
static void a_table_that_is_locked_is_not_waited_for_without_an_end(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "other", "a", 0);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "table", "a", 0);
    host_do(&host, SIMBA_OP_RELEASE, "table", "a", call.revision);
    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN SHARE MODE");
    call = do_limited(&host, SIMBA_OP_ACQUIRE, "table", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "locked"));
    assert_int_equal(count_waiting(), 0);
    session_sql(admin, "COMMIT");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "other", "a", 0).owner, "a");
    assert_string_equal(owner_of("table"), "");
    session_close(admin);
    assert_true(host_close(&host));
}

/* As ALTER TABLE does: nobody else may even read the table. */
static void a_look_does_not_wait_for_the_table_without_an_end(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "other", "a", 0);
    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE");
    call = do_limited(&host, SIMBA_OP_READ, "other", NULL, 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "locked"));
    assert_int_equal(count_waiting(), 0);
    session_sql(admin, "COMMIT");
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "other", NULL, 0).owner, "a");
    session_close(admin);
    assert_true(host_close(&host));
}

/* The connection is not kept from those who come meanwhile. */
static void others_are_tried_while_a_request_waits_for_the_table(void **state)
{
    struct call calls[2] = {host_call(SIMBA_OP_ACQUIRE, "table", "a", 0),
                            host_call(SIMBA_OP_READ, "other", NULL, 0)};
    struct session *admin = session_open(&server);
    struct host host;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN SHARE MODE");
    host_submit(&host, &calls[0], 1);
    host_submit(&host, &calls[1], 1);
    assert_true(host_wait(&host, &calls[1], 1));
    assert_string_equal(calls[1].owner, "a");
    assert_int_equal(calls[0].code, HOST_NO_ANSWER);
    session_sql(admin, "COMMIT");
    assert_true(host_wait(&host, &calls[0], 1));
    assert_string_equal(calls[0].owner, "a");
    session_close(admin);
    assert_true(host_close(&host));
}

/* ---- While connecting ------------------------------------------------------------------------ */

static bool somebody_waits_longer_than_requests_do(void *user)
{
    (void)user;
    return server_number(&server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type ="
                                  " 'Lock' AND clock_timestamp() > query_start + '400ms'") > 0;
}

/* Ends the transaction of a session when somebody has waited for it; NULL: nobody has, or it
 * failed. */
static void *commit_when_waited_for(void *session)
{
    char text[64];
    bool waited = test_wait(somebody_waits_longer_than_requests_do, NULL);

    return dialect_run(session, "COMMIT", text, sizeof text) && waited ? session : NULL;
}

static void lock_table(struct session *admin)
{
    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE");
}

/* A client that gives up leaves no session behind that waits on. */
static void connecting_does_not_wait_for_the_table_without_an_end(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;

    lock_table(admin);
    assert_int_equal(host_open(&host, server_url(&server, dialect_admin, "connect-timeout=1s")),
                     SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(host.open_error.text, "locked"));
    assert_int_equal(count_waiting(), 0);
    session_sql(admin, "COMMIT");
    session_close(admin);
}

/* Nor does it give up as early as a request, which can be tried again. */
static void a_table_that_is_locked_briefly_can_be_connected_to(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    pthread_t thread;
    void *waited;

    lock_table(admin);
    assert_int_equal(pthread_create(&thread, NULL, commit_when_waited_for, admin), 0);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    pthread_join(thread, &waited);
    assert_non_null(waited);
    assert_string_equal(server_sql(&server, "SHOW lock_timeout"), "0"); /* of other sessions */
    session_close(admin);
    assert_true(host_close(&host));
}

/* ---- While the table is created again -------------------------------------------------------- */

static void create_table(struct session *admin)
{
    session_sql(admin, "DROP TABLE simba_mutex");
    session_sql(admin, "BEGIN");
    session_sql(admin, "%s", sb_postgres_schema);
}

static void somebody_who_creates_the_table_is_waited_for(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    pthread_t thread;
    void *waited;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "created", "a", 0);
    create_table(admin);
    assert_int_equal(pthread_create(&thread, NULL, commit_when_waited_for, admin), 0);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "created", "a", 0).owner, "a");
    pthread_join(thread, &waited);
    assert_non_null(waited);
    session_close(admin);
    assert_true(host_close(&host));
}

static void who_creates_the_table_for_too_long_is_not_told_as_a_row(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    create_table(admin);
    call = do_limited(&host, SIMBA_OP_ACQUIRE, "created", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "locked"));
    assert_null(strstr(call.error.text, "row"));
    assert_int_equal(count_waiting(), 0);
    session_sql(admin, "COMMIT");
    session_close(admin);
    assert_true(host_close(&host));
}

/* ---- Limits that are undone ------------------------------------------------------------------ */

static const char undo_limit[] = "CREATE FUNCTION undo_limit() RETURNS trigger LANGUAGE plpgsql AS"
                                 " $$ BEGIN SET lock_timeout = 0; RETURN NEW; END $$;"
                                 "CREATE TRIGGER undo_limit BEFORE UPDATE ON simba_mutex"
                                 " FOR EACH ROW EXECUTE FUNCTION undo_limit()";

static bool acquires(void *host)
{
    return host_do(host, SIMBA_OP_ACQUIRE, "undone", "a", 0).code == SIMBA_OK;
}

/* The first request that is not answered in time makes the client send the limit with each. */
static void a_limit_that_a_trigger_undoes_is_sent_with_each_request(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "undone", "a", 0);
    session_sql(admin, "%s", undo_limit);
    host_do(&host, SIMBA_OP_ACQUIRE, "undone", "a", 0);
    lock_table(admin);
    call = do_limited(&host, SIMBA_OP_ACQUIRE, "undone", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNKNOWN); /* the twin: it was undone */
    session_sql(admin, "COMMIT");
    assert_true(test_wait(acquires, &host));
    lock_table(admin);
    call = do_limited(&host, SIMBA_OP_ACQUIRE, "undone", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "locked"));
    assert_int_equal(count_waiting(), 0);
    session_sql(admin, "COMMIT");
    session_sql(admin, "DROP TRIGGER undo_limit ON simba_mutex");
    session_close(admin);
    assert_true(host_close(&host));
}

/* ---- Statements that come late --------------------------------------------------------------- */

/* Holds every change of the user `plain` up before it has looked at a row, until the gate is
 * open. */
static const char hold_up[] =
    "CREATE TABLE gate (opened bool); INSERT INTO gate VALUES (false);"
    "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS"
    " $$ BEGIN WHILE session_user = 'plain' AND NOT (SELECT opened FROM public.gate) LOOP"
    " PERFORM pg_sleep(0.01); END LOOP; RETURN NULL; END $$;"
    "CREATE TRIGGER hold_up BEFORE UPDATE ON simba_mutex"
    " FOR EACH STATEMENT EXECUTE FUNCTION hold_up()";

static int64_t count_sessions_of_plain(void)
{
    return server_number(&server, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'plain'");
}

static bool plain_is_gone(void *user)
{
    (void)user;
    return count_sessions_of_plain() == 0;
}

/* A release of the rows' own functions gives up, the same id acquires again, and then the release
 * is carried out. */
static void a_release_that_comes_late_ends_no_newer_lease(void **state)
{
    simba_repository *late = NULL;
    struct host host;
    bool released = false;

    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    server_sql(&server, "%s", hold_up);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "late", "a", 0);
    assert_int_equal(
        simba_repository_open(server_url(&server, "plain:secret", "timeout=2s"), &late, NULL),
        SIMBA_OK);
    assert_int_equal(simba_repository_release(late, "late", "a", &released, NULL), SIMBA_EUNKNOWN);
    simba_repository_close(late);
    assert_int_equal(count_sessions_of_plain(), 1); /* the twin: it is still to come */
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "late", "a", 0).owner, "a");
    server_sql(&server, "UPDATE gate SET opened = true");
    assert_true(test_wait(plain_is_gone, NULL));
    assert_string_equal(owner_of("late"), "a");
    server_sql(&server, "DROP TRIGGER hold_up ON simba_mutex");
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_that_was_rolled_back_is_not_told_as_made),
        cmocka_unit_test(an_acquire_that_was_rolled_back_makes_nobody_an_owner),
        cmocka_unit_test(a_table_that_is_locked_is_not_waited_for_without_an_end),
        cmocka_unit_test(a_look_does_not_wait_for_the_table_without_an_end),
        cmocka_unit_test(others_are_tried_while_a_request_waits_for_the_table),
        cmocka_unit_test(connecting_does_not_wait_for_the_table_without_an_end),
        cmocka_unit_test(a_table_that_is_locked_briefly_can_be_connected_to),
        cmocka_unit_test(somebody_who_creates_the_table_is_waited_for),
        cmocka_unit_test(who_creates_the_table_for_too_long_is_not_told_as_a_row),
        cmocka_unit_test(a_limit_that_a_trigger_undoes_is_sent_with_each_request),
        cmocka_unit_test(a_release_that_comes_late_ends_no_newer_lease),
    };

    return server_is_installed()
               ? cmocka_run_group_tests_name("lock", tests, open_store, server_teardown)
               : 77;
}
