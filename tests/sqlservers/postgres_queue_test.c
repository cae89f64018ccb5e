/*
 * postgres_queue_test.c - contenders wait in line: in their order, without newcomers before them,
 * at a cost that does not grow with the crowd.
 */
#include "server.h"

#include "backend/host.h"

#include <simba/simba.h>

#include <pthread.h>

#define RESERVE_MS 900 /* long, because machines are slow at times */

static struct host one, two, three;

static int open_clients(void **state)
{
    (void)state;
    return host_open(&one, server.url) == SIMBA_OK && host_open(&two, server.url) == SIMBA_OK &&
                   host_open(&three, server.url) == SIMBA_OK
               ? 0
               : -1;
}

static int close_clients(void **state)
{
    (void)state;
    return host_close(&one) && host_close(&two) && host_close(&three) ? 0 : -1;
}

static struct call acquire(struct host *host, const char *mutex, const char *id)
{
    struct call call = host_reserve(host, SIMBA_OP_ACQUIRE, mutex, id, 0, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

static struct call wins(struct host *host, const char *mutex, const char *id)
{
    struct call call = acquire(host, mutex, id);

    assert_string_equal(call.owner, id);
    return call;
}

struct attempt {
    struct host *host;
    const char *mutex;
    const char *id;
    struct call call;
};

static bool has_won(void *user)
{
    struct attempt *attempt = user;

    attempt->call = acquire(attempt->host, attempt->mutex, attempt->id);
    return strcmp(attempt->call.owner, attempt->id) == 0;
}

/* When the reservation for another is over. */
static struct call wins_at_last(struct host *host, const char *mutex, const char *id)
{
    struct attempt attempt = {.host = host, .mutex = mutex, .id = id};

    assert_true(test_wait(has_won, &attempt));
    return attempt.call;
}

static void gives_back(struct host *host, const struct call *held)
{
    struct call call = host_reserve(host, SIMBA_OP_RELEASE, held->request.mutex, held->request.id,
                                    held->revision, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
}

static void waits(struct host *host, const char *mutex, const char *id, const char *owner)
{
    assert_string_equal(acquire(host, mutex, id).owner, owner);
}

static int64_t rows_of(const char *mutex)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM simba_waiter WHERE mutex = '%s'", mutex);
    return server_number(&server, sql);
}

/* Waits until it hears: what came before is not told. */
static void hears(struct host *host, const char *mutex, const char *id)
{
    host->ops->listen(host->backend, mutex, id, true);
}

static void heard_of_itself(struct host *host)
{
    assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "", NULL));
    host_forget_notices(host);
}

/* ---- The order ------------------------------------------------------------------------------- */

static void the_first_in_line_is_woken_and_the_second_told(void **state)
{
    struct call held;

    (void)state;
    held = wins(&one, "order", "a");
    hears(&two, "order", "b");
    waits(&two, "order", "b", "a");
    hears(&three, "order", "c");
    waits(&three, "order", "c", "a");
    heard_of_itself(&two);
    heard_of_itself(&three);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "order", "b"));
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RESERVED, "order", "c"));
    assert_int_equal(host_notices(&three, SIMBA_NOTICE_RELEASED, "order", NULL), 0);
    held = wins(&two, "order", "b");
    gives_back(&two, &held);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RELEASED, "order", "c"));
    held = wins(&three, "order", "c");
    gives_back(&three, &held);
    assert_int_equal(rows_of("order"), 0);
}

static void places_are_told_and_the_line_is_listed(void **state)
{
    struct call held = wins(&one, "places", "a");
    struct call queue;

    (void)state;
    waits(&two, "places", "b", "a");
    waits(&three, "places", "c", "a");
    assert_int_equal(host_place(&two, "places", "b"), 1);
    assert_int_equal(host_place(&three, "places", "c"), 2);
    queue = host_do(&one, SIMBA_OP_QUEUE, "places", NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 2);
    assert_string_equal(queue.list[0].owner.id, "b");
    assert_string_equal(queue.list[1].owner.id, "c");
    assert_true(simba_now_ms() - queue.list[0].owner.acquired_at_ms < 60000);
    host_do(&two, SIMBA_OP_RELEASE, "places", "b", 0);
    host_do(&three, SIMBA_OP_RELEASE, "places", "c", 0);
    gives_back(&one, &held);
    assert_int_equal(rows_of("places"), 0);
}

static void a_newcomer_does_not_barge(void **state)
{
    struct call held = wins(&one, "barge", "a");
    struct call call;

    (void)state;
    waits(&two, "barge", "b", "a");
    gives_back(&one, &held);
    call = acquire(&three, "barge", "c");
    assert_string_equal(call.owner, "");
    assert_true(call.reserved_left_ms > 0 && call.reserved_left_ms <= RESERVE_MS);
    assert_int_equal(call.place, 1);
    held = wins(&two, "barge", "b");
    gives_back(&two, &held);
    held = wins(&three, "barge", "c");
    gives_back(&three, &held);
}

/* The twin: fair=no. */
static void without_reservations_a_newcomer_wins(void **state)
{
    struct call held = wins(&one, "unfair", "a");
    struct call call;

    (void)state;
    waits(&two, "unfair", "b", "a");
    gives_back(&one, &held);
    call = host_do(&three, SIMBA_OP_ACQUIRE, "unfair", "c", 0);
    assert_string_equal(call.owner, "c");
    host_do(&two, SIMBA_OP_RELEASE, "unfair", "b", 0);
    assert_int_equal(host_do(&three, SIMBA_OP_RELEASE, "unfair", "c", call.revision).code,
                     SIMBA_OK);
    assert_int_equal(rows_of("unfair"), 0);
}

/* ---- Those that hang, leave or die ----------------------------------------------------------- */

static void a_waiter_that_hangs_costs_one_reservation_once(void **state)
{
    struct call held = wins(&one, "hang", "a");
    struct call call;

    (void)state;
    waits(&two, "hang", "b", "a");
    waits(&three, "hang", "c", "a");
    gives_back(&one, &held);
    assert_string_equal(acquire(&three, "hang", "c").owner, "");
    held = wins_at_last(&three, "hang", "c");
    waits(&one, "hang", "a", "c");
    gives_back(&three, &held);
    call = acquire(&two, "hang", "b"); /* it has lost its place */
    assert_string_equal(call.owner, "");
    assert_int_equal(call.place, 1);
    held = wins(&one, "hang", "a");
    gives_back(&one, &held);
    held = wins(&two, "hang", "b");
    gives_back(&two, &held);
    assert_int_equal(rows_of("hang"), 0);
}

static void a_waiter_that_leaves_passes_it_on(void **state)
{
    struct call held = wins(&one, "leave", "a");

    (void)state;
    hears(&three, "leave", "c");
    waits(&two, "leave", "b", "a");
    waits(&three, "leave", "c", "a");
    heard_of_itself(&three);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RESERVED, "leave", "c"));
    host_reserve(&two, SIMBA_OP_RELEASE, "leave", "b", 0, RESERVE_MS);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RELEASED, "leave", "c"));
    held = wins(&three, "leave", "c");
    gives_back(&three, &held);
    assert_int_equal(rows_of("leave"), 0);
}

static void a_dead_client_is_passed_over_once(void **state)
{
    struct call held = wins(&one, "dead", "a");
    struct host gone;

    (void)state;
    assert_int_equal(host_open(&gone, server.url), SIMBA_OK);
    waits(&gone, "dead", "g", "a");
    assert_true(host_close(&gone));
    waits(&two, "dead", "b", "a");
    gives_back(&one, &held);
    assert_string_equal(acquire(&two, "dead", "b").owner, "");
    held = wins_at_last(&two, "dead", "b");
    waits(&one, "dead", "a", "b");
    gives_back(&two, &held);
    held = wins(&one, "dead", "a"); /* at once */
    gives_back(&one, &held);
    assert_int_equal(rows_of("dead"), 0);
}

/* Also where nobody waits any more. */
static void the_row_of_a_dead_client_is_deleted(void **state)
{
    struct call held = wins(&one, "row", "a");
    struct host gone;

    (void)state;
    assert_int_equal(host_open(&gone, server.url), SIMBA_OK);
    waits(&gone, "row", "g", "a");
    gone.ops->listen(gone.backend, "row", NULL, true);
    assert_string_equal(host_do(&gone, SIMBA_OP_READ, "row", NULL, 0).owner, "a");
    assert_true(host_close(&gone));
    assert_int_equal(rows_of("row"), 2);
    server_sql(&server, "UPDATE simba_waiter SET reserved_until = -1 WHERE mutex = 'row'"
                        " AND reserved_until < 0"); /* two minutes have passed */
    gives_back(&one, &held);
    held = wins_at_last(&two, "row", "b");
    gives_back(&two, &held);
    assert_int_equal(rows_of("row"), 0);
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
    hears(host, "another", "a"); /* so that the loop does not carry it out itself */
    host_submit(host, release, 1);
}

static void a_release_sees_a_waiter_that_joins_while_it_runs(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "instant", "a");
    struct call release;

    (void)state;
    hears(&two, "instant", "b");
    session_sql(session, "SELECT pg_advisory_lock(%d)", LET_GO);
    stop_releases();
    begins_to_give_back(&one, &held, &release);
    assert_true(test_wait(one_stops, NULL));
    waits(&two, "instant", "b", "a");
    heard_of_itself(&two);
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

    (void)state;
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

/* The release is committed by then, so its failure is nobody's; but the connection is of no more
 * use. */
static void a_release_that_cannot_wake_in_time_does_not_concern_the_next_request(void **state)
{
    struct host hasty;
    struct call held;

    (void)state;
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

/* ---- The other library ----------------------------------------------------------------------- */

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

static void statements_of_the_other_library_share_the_mutex(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "jvm", "a");
    struct call call;

    (void)state;
    waits(&two, "jvm", "b", "a");
    assert_string_equal(session_sql(session,
                                    "UPDATE simba_mutex SET acquired_at = " NOW ", ttl_at = " NOW
                                    " + 10000, transition_at = " NOW " + 20000, owner_id = 'jvm',"
                                    " version = version + 1 WHERE mutex = 'jvm' AND (transition_at"
                                    " < " NOW " OR (owner_id = 'jvm' AND transition_at > " NOW
                                    ")) RETURNING owner_id"),
                        "");
    gives_back(&one, &held);
    /* it knows nothing of reservations, and may come first */
    assert_string_equal(session_sql(session,
                                    "UPDATE simba_mutex SET acquired_at = " NOW ", ttl_at = " NOW
                                    " + 10000, transition_at = " NOW " + 20000, owner_id = 'jvm',"
                                    " version = version + 1 WHERE mutex = 'jvm' AND (transition_at"
                                    " < " NOW " OR (owner_id = 'jvm' AND transition_at > " NOW
                                    ")) RETURNING owner_id"),
                        "jvm");
    waits(&three, "jvm", "c", "jvm");
    waits(&two, "jvm", "b", "jvm"); /* and the one that it was reserved for has its old place */
    assert_int_equal(host_place(&two, "jvm", "b"), 1);
    session_sql(session, "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0,"
                         " owner_id = '', version = version + 1 WHERE mutex = 'jvm'"
                         " AND owner_id = 'jvm'");
    call = wins(&two, "jvm", "b");
    gives_back(&two, &call);
    call = wins(&three, "jvm", "c");
    gives_back(&three, &call);
    session_close(session);
}

/* ---- Without the table ----------------------------------------------------------------------- */

static bool is_back(void *host)
{
    return strcmp(host_do(host, SIMBA_OP_ACQUIRE, "back", "a", 0).owner, "a") == 0;
}

static void without_the_table_everybody_is_woken_and_one_line_says_so(void **state)
{
    struct host old, other;
    struct call held;

    (void)state;
    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "GRANT SELECT, INSERT, UPDATE ON simba_mutex TO plain");
    assert_int_equal(host_open(&old, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(host_open(&other, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(old.log_count, 1);
    assert_non_null(strstr(old.log, "do not wait in line"));
    held = wins(&old, "old", "a");
    hears(&other, "old", "b");
    waits(&other, "old", "b", "a");
    heard_of_itself(&other);
    gives_back(&old, &held);
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "old", NULL));
    held = wins(&other, "old", "b");
    gives_back(&other, &held);
    dialect_kill_clients(&server);
    assert_true(test_wait(is_back, &old)); /* over a new connection, without a second line */
    assert_null(strstr(old.log, "do not wait in line"));
    assert_int_equal(rows_of("old"), 0);
    other.ops->listen(other.backend, "old", "b", false);
    assert_true(host_close(&other));
    assert_true(host_close(&old));
}

/* ---- Without the index ----------------------------------------------------------------------- */

static const char count_indexes[] =
    "SELECT count(*) FROM pg_indexes WHERE indexname = 'simba_waiter_order'";

static void a_table_without_its_index_gets_one(void **state)
{
    struct host host;

    (void)state;
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

    (void)state;
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

    (void)state;
    two.ops->listen(two.backend, "seen", NULL, true);
    assert_string_equal(host_do(&two, SIMBA_OP_READ, "seen", NULL, 0).owner, "a");
    heard_of_itself(&two);
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

    (void)state;
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
        heard_of_itself(&idle[i]);
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

#define CLIENTS 4
#define CROWD 100
#define TERMS 20 /* of each contender */

static simba_client *clients[CLIENTS];
static _Atomic int failures;
static _Atomic int64_t terms;

static void *contend(void *argument)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;

    options.mutex = "crowd";
    if (simba_locker_create(argument, &options, &locker, NULL) != SIMBA_OK)
        failures++;
    for (int i = 0; i < TERMS && failures == 0; i++) {
        if (simba_locker_acquire(locker, NULL) != SIMBA_OK)
            failures++;
        terms++;
        if (simba_locker_release(locker, NULL) != SIMBA_OK)
            failures++;
    }
    simba_locker_close(locker);
    return NULL;
}

static double commits_per_term(void)
{
    pthread_t threads[CROWD];
    double commits = (double)server_number(&server, dialect_count_commits);

    terms = 0;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, clients[i % CLIENTS]), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    test_pause_ms(1200); /* the server counts when a session is idle for a while */
    commits = ((double)server_number(&server, dialect_count_commits) - commits) / (double)terms;
    print_message("# %.2f commits per hand-over, reads included\n", commits);
    assert_int_equal(failures, 0);
    assert_int_equal(terms, CROWD * TERMS);
    return commits;
}

#define CROWDS 3 /* of which one must cost little: until clients hear, they miss reservations */

static void a_crowd_costs_few_commits_per_hand_over(void **state)
{
    double least = 1000;

    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(simba_client_open(server.url, NULL, &clients[i], NULL), SIMBA_OK);
    for (int i = 0; i < CROWDS && least > 4; i++) {
        double commits = commits_per_term();

        least = commits < least ? commits : least;
    }
    assert_true(least <= 4);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(simba_client_close(clients[i], NULL), SIMBA_OK);
    assert_int_equal(rows_of("crowd"), 0);
}

#define ON_CLIENTS(test) cmocka_unit_test_setup_teardown(test, open_clients, close_clients)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_CLIENTS(the_first_in_line_is_woken_and_the_second_told),
        ON_CLIENTS(places_are_told_and_the_line_is_listed),
        ON_CLIENTS(a_newcomer_does_not_barge),
        ON_CLIENTS(without_reservations_a_newcomer_wins),
        ON_CLIENTS(a_waiter_that_hangs_costs_one_reservation_once),
        ON_CLIENTS(a_waiter_that_leaves_passes_it_on),
        ON_CLIENTS(a_dead_client_is_passed_over_once),
        ON_CLIENTS(the_row_of_a_dead_client_is_deleted),
        ON_CLIENTS(a_release_sees_a_waiter_that_joins_while_it_runs),
        ON_CLIENTS(a_waiter_that_joins_while_a_release_commits_wins),
        ON_CLIENTS(a_release_that_cannot_wake_in_time_does_not_concern_the_next_request),
        ON_CLIENTS(statements_of_the_other_library_share_the_mutex),
        ON_CLIENTS(without_the_table_everybody_is_woken_and_one_line_says_so),
        ON_CLIENTS(a_table_without_its_index_gets_one),
        ON_CLIENTS(a_user_that_may_not_create_the_index_is_told_once),
        ON_CLIENTS(an_observer_is_told_of_a_release),
        ON_CLIENTS(clients_that_wait_for_others_do_not_slow_a_cycle_down),
        cmocka_unit_test(a_crowd_costs_few_commits_per_hand_over),
    };

    return server_run_tests("queue", tests);
}
