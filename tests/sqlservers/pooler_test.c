/*
 * pooler_test.c - PostgreSQL behind a pooler that gives every transaction to another session.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/port.h"
#include "redis/proxy.h"
#include "tck/kit.h"

#define POOLER "/usr/sbin/pgbouncer"
#define POOL 4 /* sessions of the pooler */

static struct server pooler; /* the same server by another port */
static char config[TEST_PATH_MAX + 32];

static void write_config(void)
{
    FILE *file;

    snprintf(config, sizeof config, "%s/pooler.ini", server.folder);
    file = fopen(config, "we");
    if (file == NULL ||
        fprintf(file,
                "[databases]\n"
                "simba = host=127.0.0.1 port=%d dbname=simba user=%s\n"
                "kept = host=127.0.0.1 port=%d dbname=simba user=%s pool_mode=session\n"
                "[pgbouncer]\n"
                "listen_addr = 127.0.0.1\n"
                "listen_port = %d\n"
                "unix_socket_dir =\n"
                "auth_type = any\n"
                "pool_mode = transaction\n"
                "default_pool_size = %d\n",
                server.port, dialect_admin, server.port, dialect_admin, pooler.port, POOL) < 0 ||
        fclose(file) != 0)
        fail_msg("cannot write %s", config);
}

static bool answers(void *user)
{
    struct session *session = dialect_connect(user);

    if (session != NULL)
        dialect_disconnect(session);
    return session != NULL;
}

static int start_pooler(void **state)
{
    const char *const arguments[] = {POOLER, config, NULL};

    server_setup(state);
    pooler = server;
    pooler.port = test_free_port();
    write_config();
    pooler.pid = server_spawn(&server, arguments);
    if (!test_wait(answers, &pooler))
        fail_msg("the pooler does not answer");
    return 0;
}

static int stop_pooler(void **state)
{
    server_reap(pooler.pid);
    return server_teardown(state);
}

/* Several clients at once, so that sessions change hands. */
static void clients_behind_a_pooler_pass_the_kit(void **state)
{
    static const char *const cases[] = {"multi_contend", "contract", "guard", "late_reply"};

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

        options.only = cases[i];
        options.contend_ms = 2000;
        kit_assert_passes(&options, server_url(&pooler, dialect_admin, ""), 1);
    }
}

#define SOON_MS 800
#define TRIES 5 /* of which one must be as soon: the machine may be slow for a while */

/* How long after a release its waiter is told. */
static int64_t time_of_notice(void)
{
    struct host owner;
    struct host waiter;
    struct call held;
    int64_t released_ms;
    int64_t noticed_ms;

    assert_int_equal(host_open(&owner, server_url(&pooler, dialect_admin, "")), SIMBA_OK);
    assert_int_equal(host_open(&waiter, server_url(&pooler, dialect_admin, "")), SIMBA_OK);
    held = host_do(&owner, SIMBA_OP_ACQUIRE, "pooled", "a", 0);
    assert_string_equal(held.owner, "a");
    waiter.ops->listen(waiter.backend, "pooled", "b", true);
    assert_string_equal(host_do(&waiter, SIMBA_OP_ACQUIRE, "pooled", "b", 0).owner, "a");
    host_do(&owner, SIMBA_OP_RELEASE, "pooled", "a", held.revision);
    released_ms = test_now_ms();
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "pooled", NULL));
    noticed_ms = test_now_ms();
    assert_int_equal(host_notices(&waiter, SIMBA_NOTICE_RELEASED, "", NULL), 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
    return noticed_ms - released_ms;
}

/* LISTEN would be heard by nobody; the library finds that out and looks instead. */
static void a_release_is_noticed_without_listen(void **state)
{
    int64_t took_ms = SOON_MS;

    for (int i = 0; i < TRIES && took_ms >= SOON_MS; i++)
        took_ms = time_of_notice();
    assert_true(took_ms < SOON_MS);
}

#define LOOKS 100 /* of the first in line; if they came ever more rarely, they would take hours */
#define RESERVE_MS 900
#define LEASE_MS 1000

/* A client behind the pooler, whose contender waits in line. */
struct waiter {
    struct proxy proxy;
    struct host host;
    const char *id;
    int64_t asks_at_ms;
};

static void waiter_open(struct waiter *waiter, const char *id)
{
    struct server by_proxy = server;
    struct call call;

    proxy_start(&waiter->proxy, pooler.port);
    by_proxy.port = waiter->proxy.port;
    waiter->id = id;
    assert_int_equal(host_open(&waiter->host, server_url(&by_proxy, dialect_admin, "poll=60s")),
                     SIMBA_OK);
    waiter->host.ops->listen(waiter->host.backend, "line", id, true);
    waiter->asks_at_ms = test_now_ms() + LEASE_MS;
    call = host_reserve(&waiter->host, SIMBA_OP_ACQUIRE, "line", id, 0, RESERVE_MS);
    assert_string_equal(call.owner, "a");
}

static void waiter_close(struct waiter *waiter)
{
    host_reserve(&waiter->host, SIMBA_OP_RELEASE, "line", waiter->id, 0, 0);
    assert_true(host_close(&waiter->host));
    proxy_stop(&waiter->proxy);
}

/* A contender asks when a lease is over: that makes a connection, where the pooler was found out by
 * a look. */
static bool has_looked(void *user)
{
    struct waiter *waiter = user;

    if (test_now_ms() >= waiter->asks_at_ms) {
        waiter->asks_at_ms = test_now_ms() + LEASE_MS;
        host_reserve(&waiter->host, SIMBA_OP_ACQUIRE, "line", waiter->id, 0, RESERVE_MS);
    }
    return atomic_load(&waiter->proxy.writes) >= LOOKS;
}

static void only_the_first_in_line_looks_often(void **state)
{
    struct waiter first, second;
    struct host owner;
    struct call held;
    struct call call;

    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    held = host_reserve(&owner, SIMBA_OP_ACQUIRE, "line", "a", 0, RESERVE_MS);
    waiter_open(&first, "b");
    waiter_open(&second, "c");
    assert_true(test_wait(has_looked, &first)); /* by then both have found out that none hears */
    atomic_store(&first.proxy.writes, 0);
    atomic_store(&second.proxy.writes, 0);
    assert_true(test_wait(has_looked, &first));
    assert_true(atomic_load(&second.proxy.writes) < LOOKS / 4);
    host_reserve(&owner, SIMBA_OP_RELEASE, "line", "a", held.revision, RESERVE_MS);
    assert_true(host_wait_notice(&first.host, SIMBA_NOTICE_RELEASED, "line", "b"));
    call = host_reserve(&first.host, SIMBA_OP_ACQUIRE, "line", "b", 0, RESERVE_MS);
    assert_string_equal(call.owner, "b");
    host_reserve(&first.host, SIMBA_OP_RELEASE, "line", "b", call.revision, RESERVE_MS);
    waiter_close(&second);
    waiter_close(&first);
    assert_true(host_close(&owner));
}

/* Such a pooler makes up process ids too, and LISTEN works. */
static void a_pooler_that_leaves_sessions_alone_is_listened_through(void **state)
{
    struct host owner;
    struct host waiter;
    struct call held;
    char url[256];

    snprintf(url, sizeof url, "%s://%s@127.0.0.1:%d/kept?poll=60s", dialect_scheme, dialect_admin,
             pooler.port);
    assert_int_equal(host_open(&owner, server.url), SIMBA_OK);
    assert_int_equal(host_open(&waiter, url), SIMBA_OK);
    held = host_do(&owner, SIMBA_OP_ACQUIRE, "kept", "a", 0);
    waiter.ops->listen(waiter.backend, "kept", "b", true);
    assert_string_equal(host_do(&waiter, SIMBA_OP_ACQUIRE, "kept", "b", 0).owner, "a");
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "", NULL));
    host_forget_notices(&waiter);
    host_do(&owner, SIMBA_OP_RELEASE, "kept", "a", held.revision);
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "kept", NULL));
    assert_int_equal(host_notices(&waiter, SIMBA_NOTICE_RELEASED, "pooled", NULL), 0);
    assert_true(host_close(&waiter));
    assert_true(host_close(&owner));
}

/* There the limit cannot stay in the session, and has to come with each request. */
static void a_table_that_is_locked_is_not_waited_for_behind_a_pooler(void **state)
{
    struct session *admin = session_open(&server);
    struct call calls[] = {host_call(SIMBA_OP_ACQUIRE, "table", "a", 0),
                           host_call(SIMBA_OP_READ, "table", NULL, 0)};
    struct host host;

    assert_int_equal(host_open(&host, server_url(&pooler, dialect_admin, "")), SIMBA_OK);
    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE");
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        calls[i].request.timeout_ms = 1000;
        host_submit(&host, &calls[i], 1);
        assert_true(host_wait(&host, &calls[i], 1));
        assert_int_equal(calls[i].code, SIMBA_EUNAVAILABLE);
        assert_int_equal(server_number(&server, "SELECT count(*) FROM pg_stat_activity"
                                                " WHERE wait_event_type = 'Lock'"),
                         0);
    }
    session_sql(admin, "COMMIT");
    session_close(admin);
    assert_true(host_close(&host));
}

/* A pooler that keeps track of prepared statements (from 1.21 on) need not ask the server for those
 * that it has met, and then the client has nothing to wait for. */
static void connecting_behind_a_pooler_does_not_wait_for_the_table_without_an_end(void **state)
{
    struct session *admin = session_open(&server);
    struct host host;
    int64_t begin_ms;
    int code;

    session_sql(admin, "BEGIN");
    session_sql(admin, "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE");
    begin_ms = test_now_ms();
    code = host_open(&host, server_url(&pooler, dialect_admin, "connect-timeout=1s"));
    assert_true(test_now_ms() - begin_ms < TEST_PATIENCE_MS);
    if (code == SIMBA_OK)
        assert_true(host_close(&host));
    else
        assert_int_equal(code, SIMBA_EUNAVAILABLE);
    assert_int_equal(server_number(&server, "SELECT count(*) FROM pg_stat_activity"
                                            " WHERE wait_event_type = 'Lock'"),
                     0);
    session_sql(admin, "COMMIT");
    session_close(admin);
}

/* What a session was told must not outlive the transaction: it goes to somebody else. What was
 * prepared before the pooler was found out is named by its text, so that it can mean nothing else;
 * or by a pooler that keeps track of it. */
static void nothing_is_left_behind_in_pooled_sessions(void **state)
{
    struct session *sessions[POOL];

    for (size_t i = 0; i < POOL; i++) {
        sessions[i] = session_open(&pooler);
        session_sql(sessions[i], "BEGIN"); /* so that each has a session of its own */
    }
    for (size_t i = 0; i < POOL; i++) {
        assert_string_equal(session_sql(sessions[i], "SHOW lock_timeout"), "0");
        assert_string_equal(session_sql(sessions[i], "SELECT count(*) FROM pg_prepared_statements"
                                                     " WHERE name !~ '^simba_[a-z_]+_[0-9a-f]{8}$'"
                                                     " AND name !~ '^PGBOUNCER_[0-9]+$'"),
                            "0");
        assert_string_equal(
            session_sql(sessions[i], "SELECT count(*) FROM pg_listening_channels()"), "0");
    }
    for (size_t i = 0; i < POOL; i++)
        session_close(sessions[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_behind_a_pooler_pass_the_kit),
        cmocka_unit_test(a_release_is_noticed_without_listen),
        cmocka_unit_test(only_the_first_in_line_looks_often),
        cmocka_unit_test(a_pooler_that_leaves_sessions_alone_is_listened_through),
        cmocka_unit_test(a_table_that_is_locked_is_not_waited_for_behind_a_pooler),
        cmocka_unit_test(connecting_behind_a_pooler_does_not_wait_for_the_table_without_an_end),
        cmocka_unit_test(nothing_is_left_behind_in_pooled_sessions),
    };

    if (!server_is_installed() || access(POOLER, X_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("pooler", tests, start_pooler, stop_pooler);
}
