/*
 * postgres_hearing_test.c - the table of waiters on PostgreSQL, releases and waiters at the same
 * instant, and who hears of a release.
 */
#include "queue.h"

#include <simba/simba.h>

/* ---- Rows ------------------------------------------------------------------------------------ */

static int64_t all_rows(void)
{
    return server_number(&server, "SELECT count(*) FROM simba_waiter WHERE mutex = 'row'");
}

/* Also where nobody waits any more. */
static void the_row_of_a_dead_client_is_deleted(void **state)
{
    struct call held = wins(&one, "row", "a");
    struct host gone;

    assert_int_equal(host_open(&gone, server.url), SIMBA_OK);
    waits(&gone, "row", "g", "a");
    gone.ops->listen(gone.backend, "row", NULL, true);
    assert_string_equal(host_do(&gone, SIMBA_OP_READ, "row", NULL, 0).owner, "a");
    assert_true(host_close(&gone));
    assert_int_equal(all_rows(), 2);
    server_sql(&server, "UPDATE simba_waiter SET reserved_until = -1 WHERE mutex = 'row'"
                        " AND reserved_until < 0"); /* two minutes have passed */
    gives_back(&one, &held);
    held = wins_at_last(&two, "row", "b");
    server_sql(&server, "UPDATE simba_waiter SET reserved_until = reserved_until - 5000"
                        " WHERE mutex = 'row' AND reserved_until > 0");
    gives_back(&two, &held);
    assert_int_equal(all_rows(), 0);
}

/* ---- At the same instant --------------------------------------------------------------------- */

/* A release stops when it has begun and not taken its row yet, until LET_GO is free. */
#define STOPS 101
#define LET_GO 102

static void stop_releases(void)
{
    server_sql(&server,
               "CREATE FUNCTION stop_release() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
               " IF current_query() LIKE '%%SET owner_id = ''''%%' THEN"
               " PERFORM pg_advisory_xact_lock(%d);"
               " WHILE NOT pg_try_advisory_xact_lock(%d) LOOP PERFORM pg_sleep(0.001); END LOOP;"
               " END IF; RETURN NULL; END $$;"
               "CREATE TRIGGER stop_release BEFORE UPDATE ON simba_mutex FOR EACH STATEMENT"
               " EXECUTE FUNCTION stop_release()",
               STOPS, LET_GO);
}

static bool one_stops(void *user)
{
    char sql[96];

    (void)user;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pg_locks WHERE objid = %d", STOPS);
    return server_number(&server, sql) > 0;
}

static bool one_sleeps(void *user)
{
    (void)user;
    return server_number(&server, dialect_count_sleepers) > 0;
}

/* Does not wait for the answer. */
static void begins_to_give_back(struct host *host, const struct call *held, struct call *release)
{
    *release = host_call(SIMBA_OP_RELEASE, held->request.mutex, held->request.id, held->revision);
    release->request.reserve_ms = RESERVE_MS;
    hears(host, "another", "x"); /* so that the loop does not carry it out itself */
    host_submit(host, release, 1);
}

static void a_release_sees_a_waiter_that_joins_while_it_runs(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "instant", "a");
    struct call release;

    hears(&two, "instant", "b");
    session_sql(session, "SELECT pg_advisory_lock(%d)", LET_GO);
    stop_releases();
    begins_to_give_back(&one, &held, &release);
    assert_true(test_wait(one_stops, NULL));
    waits(&two, "instant", "b", "a");
    hear_by_now(&two);
    session_sql(session, "SELECT pg_advisory_unlock(%d)", LET_GO);
    assert_true(host_wait(&one, &release, 1));
    assert_int_equal(release.code, SIMBA_OK);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "instant", "b"));
    server_sql(&server, "DROP FUNCTION stop_release CASCADE");
    held = wins(&two, "instant", "b");
    gives_back(&two, &held);
    session_close(session);
}

static void a_waiter_that_joins_while_a_release_commits_wins(void **state)
{
    struct call held = wins(&one, "commit", "a");
    struct call release;

    server_sql(&server, "CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$"
                        " BEGIN PERFORM pg_sleep(0.15); RETURN NULL; END $$;"
                        "CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON simba_mutex"
                        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.owner_id = '')"
                        " EXECUTE FUNCTION slow_commit()");
    begins_to_give_back(&one, &held, &release);
    assert_true(test_wait(one_sleeps, NULL));
    held = wins(&two, "commit", "b");
    assert_true(host_wait(&one, &release, 1));
    assert_int_equal(release.code, SIMBA_OK);
    server_sql(&server, "DROP FUNCTION slow_commit CASCADE");
    gives_back(&two, &held);
    assert_int_equal(rows_of("commit"), 0);
}

/* The mark says only that the line is to be looked at. */
static void a_mark_without_a_reservation_bars_nobody(void **state)
{
    struct call held = wins(&one, "marked", "a");

    gives_back(&one, &held);
    server_sql(&server, "UPDATE simba_mutex SET acquired_at = %s + 60000 WHERE mutex = 'marked'",
               dialect_now_ms);
    held = wins(&two, "marked", "b");
    gives_back(&two, &held);
    assert_int_equal(server_number(&server, "SELECT acquired_at FROM simba_mutex"
                                            " WHERE mutex = 'marked'"),
                     0);
}

/* Since `instant`, of the server's clock. */
static bool one_has_read_its_place(void *instant)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'simba' AND state ="
             " 'idle' AND query LIKE 'SELECT mutex, %%count(*)%%' AND query_start > '%s'",
             (const char *)instant);
    return server_number(&server, sql) > 0;
}

/* It finds the mutex free and reserved for itself, and its row locked. */
static void a_waiter_that_meets_the_lock_of_one_that_overtakes_it_is_in_line_again(void **state)
{
    struct session *jvm = session_open(&server);
    struct call held = wins(&one, "overtaken", "a");
    struct call attempt = host_call(SIMBA_OP_ACQUIRE, "overtaken", "b", 0);
    char instant[64];

    waits(&two, "overtaken", "b", "a");
    gives_back(&one, &held);
    session_sql(jvm, "BEGIN");
    session_sql(jvm,
                "UPDATE simba_mutex SET acquired_at = %s, ttl_at = %s + 10000, transition_at = %s +"
                " 20000, owner_id = 'jvm', version = version + 1 WHERE mutex = 'overtaken'",
                dialect_now_ms, dialect_now_ms, dialect_now_ms);
    snprintf(instant, sizeof instant, "%s", server_sql(&server, "SELECT clock_timestamp()"));
    hears(&two, "another", "x"); /* so that the loop does not carry it out itself */
    attempt.request.reserve_ms = RESERVE_MS;
    host_submit(&two, &attempt, 1);
    assert_true(test_wait(one_has_read_its_place, instant));
    session_sql(jvm, "COMMIT");
    assert_true(host_wait(&two, &attempt, 1));
    assert_string_equal(attempt.owner, "jvm");
    assert_int_equal(attempt.place, 1);
    assert_int_equal(server_number(&server, "SELECT reserved_until FROM simba_waiter"
                                            " WHERE mutex = 'overtaken' AND id = 'b'"),
                     0);
    jvm_releases("overtaken");
    held = wins(&two, "overtaken", "b");
    gives_back(&two, &held);
    assert_int_equal(rows_of("overtaken"), 0);
    session_close(jvm);
}

/* The release is committed by then, so its failure is nobody's; but the connection is of no more
 * use. */
static void a_release_that_cannot_wake_in_time_does_not_concern_the_next_request(void **state)
{
    struct host hasty;
    struct call held;

    assert_int_equal(host_open(&hasty, server_url(&server, dialect_admin, "timeout=300ms")),
                     SIMBA_OK);
    held = wins(&hasty, "late", "a");
    waits(&two, "late", "b", "a");
    server_sql(&server, "CREATE FUNCTION slow_wake() RETURNS trigger LANGUAGE plpgsql AS $$"
                        " BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$;"
                        "CREATE TRIGGER slow_wake BEFORE UPDATE ON simba_waiter FOR EACH ROW"
                        " EXECUTE FUNCTION slow_wake()");
    gives_back(&hasty, &held);
    held = wins(&hasty, "next", "a");
    gives_back(&hasty, &held);
    server_sql(&server, "DROP FUNCTION slow_wake CASCADE");
    held = wins(&two, "late", "b");
    gives_back(&two, &held);
    assert_true(host_close(&hasty));
}

/* ---- Without the index ----------------------------------------------------------------------- */

static const char count_indexes[] =
    "SELECT count(*) FROM pg_indexes WHERE indexname = 'simba_waiter_order'";

static void a_table_without_its_index_gets_one(void **state)
{
    struct host host;

    server_sql(&server, "DROP INDEX simba_waiter_order");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_int_equal(server_number(&server, count_indexes), 1);
    assert_int_equal(host.log_count, 0);
    assert_true(host_close(&host));
}

static void a_user_that_may_not_create_the_index_is_told_once(void **state)
{
    struct host host;
    struct call held;

    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    server_sql(&server, "DROP INDEX simba_waiter_order");
    assert_int_equal(host_open(&host, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(host.log_count, 1);
    assert_non_null(strstr(host.log, "has no index simba_waiter_order"));
    dialect_kill_clients(&server);
    assert_true(test_wait(is_back, &host)); /* over a new connection, without a second line */
    assert_null(strstr(host.log, "has no index"));
    held = wins(&host, "back", "a");
    gives_back(&host, &held);
    assert_true(host_close(&host));
    server_sql(&server, "%s", dialect_revoke_use);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK); /* which creates it */
    assert_true(host_close(&host));
}

/* ---- Observers ------------------------------------------------------------------------------- */

static void an_observer_is_told_of_a_release(void **state)
{
    struct call held = wins(&one, "seen", "a");

    two.ops->listen(two.backend, "seen", NULL, true);
    assert_string_equal(host_do(&two, SIMBA_OP_READ, "seen", NULL, 0).owner, "a");
    hear_by_now(&two);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_CHANGED, "seen", NULL));
    two.ops->listen(two.backend, "seen", NULL, false);
}

/* ---- What it costs --------------------------------------------------------------------------- */

static int64_t cycles_ms(int count)
{
    int64_t began_ms = test_now_ms();

    for (int i = 0; i < count; i++) {
        struct call held = wins(&one, "cycle", "a");

        gives_back(&one, &held);
    }
    return test_now_ms() - began_ms;
}

#define IDLE 40
#define CYCLES 200

/* An uncontended release notifies nobody: the server has nothing to say to those that listen. */
static void clients_that_wait_for_others_do_not_slow_a_cycle_down(void **state)
{
    static struct host idle[IDLE];
    struct call held = wins(&two, "other", "x");
    int64_t alone_ms = INT64_MAX, among_ms = INT64_MAX;

    cycles_ms(CYCLES);
    for (int i = 0; i < 3; i++) {
        int64_t took_ms = cycles_ms(CYCLES);

        alone_ms = took_ms < alone_ms ? took_ms : alone_ms;
    }
    for (int i = 0; i < IDLE; i++) {
        char id[16];

        snprintf(id, sizeof id, "w%d", i);
        assert_int_equal(host_open(&idle[i], server.url), SIMBA_OK);
        hears(&idle[i], "other", id);
        waits(&idle[i], "other", id, "x");
        hear_by_now(&idle[i]);
    }
    for (int i = 0; i < 30 && (i < 3 || among_ms >= alone_ms * 5 / 2); i++) {
        int64_t took_ms = cycles_ms(CYCLES);

        among_ms = took_ms < among_ms ? took_ms : among_ms;
    }
    print_message("# %d cycles: %d ms alone, %d ms among %d clients\n", CYCLES, (int)alone_ms,
                  (int)among_ms, IDLE);
    assert_true(among_ms < alone_ms * 5 / 2); /* it was 5 times; the machine may be busy */
    for (int i = 0; i < IDLE; i++) {
        assert_int_equal(host_notices(&idle[i], SIMBA_NOTICE_RELEASED, "cycle", NULL), 0);
        assert_true(host_close(&idle[i]));
    }
    gives_back(&two, &held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_CLIENTS(the_row_of_a_dead_client_is_deleted),
        ON_CLIENTS(a_release_sees_a_waiter_that_joins_while_it_runs),
        ON_CLIENTS(a_waiter_that_joins_while_a_release_commits_wins),
        ON_CLIENTS(a_mark_without_a_reservation_bars_nobody),
        ON_CLIENTS(a_waiter_that_meets_the_lock_of_one_that_overtakes_it_is_in_line_again),
        ON_CLIENTS(a_release_that_cannot_wake_in_time_does_not_concern_the_next_request),
        ON_CLIENTS(a_table_without_its_index_gets_one),
        ON_CLIENTS(a_user_that_may_not_create_the_index_is_told_once),
        ON_CLIENTS(an_observer_is_told_of_a_release),
        ON_CLIENTS(clients_that_wait_for_others_do_not_slow_a_cycle_down),
    };

    return server_run_tests("hearing", tests);
}
