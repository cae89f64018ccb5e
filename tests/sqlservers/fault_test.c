/*
 * fault_test.c - what can go wrong with a server while the library uses it: crashes, pauses, killed
 * connections, lost tables, refusals.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/locker.h"
#include "redis/proxy.h"

#include <simba/simba.h>

#include <pthread.h>
#include <stdatomic.h>

#define LEASE "ttl=500ms&transition=4s&jitter=0ms..50ms&connect-timeout=1s"
#define LONG_LEASE "ttl=500ms&transition=15s&jitter=0ms..50ms&connect-timeout=1s"
#define SHORT_LEASE "ttl=300ms&transition=900ms&jitter=0ms..50ms&connect-timeout=1s"
#define SHORT_LEASE_MS 1200

static simba_client *open_client(const char *url)
{
    struct simba_error error;
    simba_client *client = NULL;

    if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

static simba_locker *lock(simba_client *client, const char *mutex)
{
    struct simba_error error;
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, mutex, NULL, &locker, NULL), SIMBA_OK);
    if (simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return locker;
}

static void close_client(simba_client *client)
{
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

/* A lock, and what it has been renewed to. */
struct held {
    simba_locker *locker;
    int64_t deadline_ms;
};

static bool is_renewed(void *user)
{
    const struct held *held = user;

    return simba_locker_deadline_ms(held->locker) > held->deadline_ms;
}

static bool is_lost(void *user)
{
    return !simba_locker_is_held(user);
}

/* Waits until it is renewed; fails when it was lost on the way. */
static void assert_still_held(simba_locker *locker)
{
    struct held held = {locker, simba_locker_deadline_ms(locker)};

    assert_true(test_wait(is_renewed, &held));
    assert_true(simba_locker_is_held(locker));
}

/* ---- Crashes and pauses ---------------------------------------------------------------------- */

static void a_restart_within_the_lease_is_survived(void **state)
{
    simba_client *client = open_client(server_url(&server, dialect_admin, LONG_LEASE));
    simba_locker *locker = lock(client, "restart");
    uint64_t fence = simba_locker_fence(locker);

    server_kill(&server);
    server_start(&server);
    assert_still_held(locker);
    assert_true(simba_locker_fence(locker) == fence);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    close_client(client);
}

static void
a_server_that_stays_away_ends_the_belief_and_the_next_term_has_a_larger_token(void **state)
{
    simba_client *client = open_client(server_url(&server, dialect_admin, SHORT_LEASE));
    simba_locker *locker = lock(client, "away");
    uint64_t fence = simba_locker_fence(locker);
    simba_locker *next;

    server_kill(&server);
    assert_true(test_wait_within(SHORT_LEASE_MS + 500, is_lost, locker));
    server_start(&server);
    next = lock(client, "away");
    assert_true(simba_locker_fence(next) > fence);
    simba_locker_close(next);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    simba_locker_close(locker);
    close_client(client);
}

static void a_pause_below_the_lease_is_survived(void **state)
{
    simba_client *client = open_client(server_url(&server, dialect_admin, LEASE));
    simba_locker *locker = lock(client, "pause");

    server_pause(&server);
    test_pause_ms(1500); /* three renewals would have been due */
    server_resume(&server);
    assert_still_held(locker);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    close_client(client);
}

/* What the server carries out late, when it goes on, must not give the lease back to the one that
 * lost it. */
static void a_pause_past_the_lease_ends_the_belief_in_time(void **state)
{
    simba_client *client = open_client(server_url(&server, dialect_admin, SHORT_LEASE));
    simba_client *other = open_client(server_url(&server, dialect_admin, SHORT_LEASE));
    simba_locker *locker = lock(client, "past");
    uint64_t fence = simba_locker_fence(locker);
    int64_t end_ms = simba_locker_deadline_ms(locker) + SHORT_LEASE_MS;
    simba_locker *next;

    server_pause(&server);
    assert_true(test_wait_within(2 * SHORT_LEASE_MS, is_lost, locker));
    assert_true(simba_now_ms() <= end_ms);
    server_resume(&server);
    next = lock(other, "past");
    assert_true(simba_locker_fence(next) > fence);
    assert_false(simba_locker_is_held(locker));
    assert_still_held(next);
    simba_locker_close(next);
    simba_locker_close(locker);
    close_client(other);
    close_client(client);
}

/* ---- Killed connections ---------------------------------------------------------------------- */

#define STORM 20
#define KILLS 15
#define RIVALS 3

struct storm {
    simba_client *client;
    atomic_int turns;
    atomic_int inside;   /* how many own the mutex now */
    atomic_int overlaps; /* how often it was more than one */
    atomic_bool end;
};

static void take_turn(struct storm *storm, simba_locker *locker)
{
    if (atomic_fetch_add(&storm->inside, 1) > 0 && simba_locker_is_held(locker))
        atomic_fetch_add(&storm->overlaps, 1);
    atomic_fetch_add(&storm->turns, 1);
    atomic_fetch_sub(&storm->inside, 1);
}

/* Locks and releases all the time; every failure but a wrong answer is fine. */
static void *weather(void *argument)
{
    struct storm *storm = argument;
    simba_locker *locker = NULL;

    if (test_locker_create(storm->client, "storm", NULL, &locker, NULL) != SIMBA_OK)
        return NULL;
    while (!atomic_load(&storm->end)) {
        if (simba_locker_acquire_timeout(locker, 5000, NULL) == SIMBA_OK)
            take_turn(storm, locker);
        simba_locker_release(locker, NULL);
    }
    simba_locker_close(locker);
    return storm;
}

struct turns {
    struct storm *storm;
    int more_than;
};

static bool has_turned(void *user)
{
    const struct turns *turns = user;

    return atomic_load(&turns->storm->turns) > turns->more_than;
}

/* Connections die at any moment, also in the middle of a transaction and behind a commit. */
static void connections_that_are_killed_lose_nothing_that_is_held(void **state)
{
    simba_client *client = open_client(server_url(&server, dialect_admin, LEASE));
    struct storm storm = {.client = client};
    simba_locker *held[STORM];
    uint64_t fences[STORM];
    pthread_t threads[RIVALS];
    char name[16];
    void *result;

    for (size_t i = 0; i < STORM; i++) {
        snprintf(name, sizeof name, "held-%zu", i);
        held[i] = lock(client, name);
        fences[i] = simba_locker_fence(held[i]);
    }
    for (size_t i = 0; i < RIVALS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, weather, &storm), 0);
    for (int kill = 0; kill < KILLS; kill++) {
        struct turns turns = {&storm, atomic_load(&storm.turns)};

        dialect_kill_clients(&server);
        assert_true(test_wait(has_turned, &turns));
    }
    atomic_store(&storm.end, true);
    for (size_t i = 0; i < RIVALS; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &storm);
    }
    assert_int_equal(storm.overlaps, 0);
    for (size_t i = 0; i < STORM; i++) {
        assert_still_held(held[i]);
        assert_true(simba_locker_fence(held[i]) == fences[i]);
        simba_locker_close(held[i]);
    }
    close_client(client);
}

#define SLOW_MS 20     /* between two pieces of what the server says */
#define REQUEST_MS 100 /* less than a connection takes then, and more than an answer */

static bool is_answered_in_time(void *host)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "slow-server", "a", 0);

    call.request.timeout_ms = REQUEST_MS;
    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    return call.code == SIMBA_OK;
}

/* As with short leases on a busy machine. */
static void a_connection_may_take_longer_than_the_request_that_needs_it(void **state)
{
    struct server slow = server;
    struct proxy proxy;
    struct host host;

    proxy_start(&proxy, server.port);
    slow.port = proxy.port;
    assert_int_equal(host_open(&host, server_url(&slow, dialect_admin, "")), SIMBA_OK);
    assert_true(test_wait(is_answered_in_time, &host));
    atomic_store(&proxy.rest_ms, SLOW_MS);
    atomic_store(&proxy.piece, 65536);
    atomic_store(&proxy.cut, true);
    assert_true(test_wait(is_answered_in_time, &host));
    atomic_store(&proxy.piece, 0);
    assert_true(host_close(&host));
    proxy_stop(&proxy);
}

static struct proxy silent;
static int looks_left; /* at the table of waiters, until the server falls silent */

static void fall_silent(bool from_server, const char *bytes, size_t count)
{
    if (!from_server && memmem(bytes, count, "simba_waiter", strlen("simba_waiter")) != NULL &&
        --looks_left == 0)
        atomic_store(&silent.swallow, true);
}

/* The client says once in its life that there is no queue, so it must be true. */
static void a_server_that_falls_silent_is_not_taken_for_one_without_a_queue(void **state)
{
    struct server other = server;
    int code = SIMBA_EUNAVAILABLE;

    for (int look = 1; code != SIMBA_OK; look++) {
        struct host host;

        looks_left = look;
        atomic_store(&silent.swallow, false);
        proxy_start_watched(&silent, server.port, fall_silent);
        other.port = silent.port;
        code = host_open(&host, server_url(&other, dialect_admin, "connect-timeout=1s"));
        assert_true(code == SIMBA_OK || code == SIMBA_EUNAVAILABLE);
        assert_int_equal(host.log_count, 0);
        assert_true(look > 1 || code != SIMBA_OK); /* the twin: it does look */
        if (code == SIMBA_OK)
            assert_true(host_close(&host));
        proxy_stop(&silent);
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static void a_table_that_is_dropped_is_created_again(void **state)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    server_sql(&server, "DROP TABLE simba_mutex");
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, ""); /* what was held is gone with it */
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "b");
    server_sql(&server, "DROP TABLE simba_mutex");
    server_sql(&server, "%s", dialect_old_table);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "c", 0).owner, "c");
    assert_true(host_close(&host));
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static int create_plain(void **state)
{
    server_sql(&server, "%s", dialect_create_user);
    return 0;
}

static const char *refusal(const char *url, int code)
{
    static struct simba_error error;
    simba_client *client = NULL;

    assert_int_equal(simba_client_open(url, NULL, &client, &error), code);
    return error.text;
}

static void a_wrong_password_is_denied(void **state)
{
    refusal(server_url(&server, "plain:wrong", ""), SIMBA_EDENIED);
    refusal(server_url(&server, "plain", ""), SIMBA_EDENIED);
    refusal(server_url(&server, "nobody:secret", ""), SIMBA_EDENIED);
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
    struct server nobody = {.port = 1};

    refusal(server_url(&nobody, "plain:secret", "connect-timeout=2s"), SIMBA_EUNAVAILABLE);
}

static void a_missing_database_is_a_matter_of_configuration(void **state)
{
    char url[512];

    snprintf(url, sizeof url, "%s://%s@127.0.0.1:%d/no_such_database", dialect_scheme,
             dialect_admin, server.port);
    refusal(url, SIMBA_ECONFIG);
}

static void unknown_options_are_refused(void **state)
{
    refusal(server_url(&server, "plain:secret", "tls=perhaps"), SIMBA_EINVAL);
    refusal(server_url(&server, "plain:secret", "tls-cert=only"), SIMBA_EINVAL);
    refusal(server_url(&server, "plain:secret", "socket=/tmp/x"), SIMBA_EINVAL);
    refusal(server_url(&server, "plain:secret", "timeout=0s"), SIMBA_EINVAL);
    refusal(server_url(&server, dialect_admin, "tiemout=1s"), SIMBA_ECONFIG);
}

static void restart(bool without_tls)
{
    server_kill(&server);
    server.without_tls = without_tls;
    server_start(&server);
}

/* The server has no certificate, so a client that asks for TLS must not be let in without. */
static void tls_that_was_asked_for_is_not_left_out(void **state)
{
    restart(true);
    refusal(server_url(&server, dialect_admin, "tls=on&tls-verify=no"), SIMBA_EUNAVAILABLE);
    refusal(server_url(&server, dialect_admin, "tls-ca=/nowhere"), SIMBA_EUNAVAILABLE);
    restart(false);
}

static int create_table(void **state)
{
    struct host host;

    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    return host_open(&host, server.url) == SIMBA_OK && host_close(&host) ? 0 : -1;
}

/* The sentence holds the whole statement, ready to be given to an administrator who runs it as it
 * is, and then has what the library would have created. */
static void without_the_right_to_create_the_statement_is_told(void **state)
{
    const char *text;
    char statement[512];
    char created[2048];

    snprintf(created, sizeof created, "%s", server_sql(&server, "%s", dialect_describe));
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    text = strstr(refusal(server_url(&server, "plain:secret", ""), SIMBA_EDENIED), "CREATE TABLE");
    if (text == NULL && strcmp(dialect_scheme, "mysql") == 0) {
        /* who has no right at all is not let into the database either */
        server_sql(&server, "GRANT SELECT ON simba.* TO plain");
        text =
            strstr(refusal(server_url(&server, "plain:secret", ""), SIMBA_EDENIED), "CREATE TABLE");
        server_sql(&server, "REVOKE SELECT ON simba.* FROM plain");
    }
    assert_non_null(text);
    snprintf(statement, sizeof statement, "%s", text);
    server_sql(&server, "%s", statement);
    assert_string_equal(server_sql(&server, "%s", dialect_describe), created);
}

static void the_documented_rights_suffice_and_no_less(void **state)
{
    struct host host;
    struct call call;

    server_sql(&server, "%s", dialect_grant_use);
    assert_int_equal(host_open(&host, server_url(&server, "plain:secret", "")), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "rights", "a", 0);
    assert_string_equal(call.owner, "a");
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "rights", "a", call.revision).code, SIMBA_OK);
    server_sql(&server, "%s", dialect_revoke_use);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "rights", "a", 0);
    assert_int_equal(call.code, SIMBA_EDENIED);
    assert_true(host_close(&host));
    server_sql(&server, "%s", dialect_grant_use);
}

static bool acquires(void *user)
{
    return strcmp(host_do(user, SIMBA_OP_ACQUIRE, "rights", "a", 0).owner, "a") == 0;
}

/* Reading still works there, and writing again as soon as it may. */
static void a_read_only_server_says_so(void **state)
{
    struct host host;
    struct call call;

    server_sql(&server, "%s", dialect_read_only);
    assert_int_equal(host_open(&host, server_url(&server, "plain:secret", "")), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "rights", "a", 0);
    assert_int_equal(call.code, SIMBA_ESTORE);
    assert_non_null(strstr(call.error.text, "read-only"));
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "rights", NULL, 0).code, SIMBA_OK);
    server_sql(&server, "%s", dialect_read_write);
    dialect_kill_clients(&server);
    assert_true(test_wait(acquires, &host));
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_within_the_lease_is_survived),
        cmocka_unit_test(
            a_server_that_stays_away_ends_the_belief_and_the_next_term_has_a_larger_token),
        cmocka_unit_test(a_pause_below_the_lease_is_survived),
        cmocka_unit_test(a_pause_past_the_lease_ends_the_belief_in_time),
        cmocka_unit_test(connections_that_are_killed_lose_nothing_that_is_held),
        cmocka_unit_test(a_connection_may_take_longer_than_the_request_that_needs_it),
        cmocka_unit_test(a_server_that_falls_silent_is_not_taken_for_one_without_a_queue),
        cmocka_unit_test(a_table_that_is_dropped_is_created_again),
        cmocka_unit_test_setup(a_wrong_password_is_denied, create_plain),
        cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
        cmocka_unit_test(a_missing_database_is_a_matter_of_configuration),
        cmocka_unit_test(unknown_options_are_refused),
        cmocka_unit_test(tls_that_was_asked_for_is_not_left_out),
        cmocka_unit_test_setup(without_the_right_to_create_the_statement_is_told, create_table),
        cmocka_unit_test(the_documented_rights_suffice_and_no_less),
        cmocka_unit_test(a_read_only_server_says_so),
    };

    return server_run_tests("fault", tests);
}
