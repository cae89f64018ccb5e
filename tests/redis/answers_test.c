/*
 * answers_test.c - what the backend answers when the server refuses, is late, or is gone: each kind
 * of failure told apart, and each request answered for what is known of it.
 */
#include "backend/host.h"
#include "lib/port.h"
#include "proxy.h"
#include "server.h"

#include <signal.h>
#include <sys/stat.h>

static struct server server;
static struct host host;

static int begin(void **state)
{
    (void)state;
    memset(&server, 0, sizeof server);
    server_start(&server, "--busy-reply-threshold", "50", "--enable-protected-configs", "yes",
                 NULL);
    return host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    server_stop(&server);
    return host_close(&host) ? 0 : -1;
}

static void assert_fails(const struct call *call, int code, const char *sentence)
{
    if (call->code != code || strstr(call->error.text, sentence) == NULL)
        fail_msg("code %d (%s), not %d with '%s'", call->code, call->error.text, code, sentence);
}

static bool has_come(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

/* Lets the loop do what it has to do meanwhile. */
static void turn_loop(struct host *which)
{
    int64_t at_ms = test_now_ms() + 5;

    host_run_until(which, has_come, &at_ms);
}

static struct call acquire(const char *mutex)
{
    return host_do(&host, SIMBA_OP_ACQUIRE, mutex, "a", 0);
}

static bool is_up(void *user)
{
    (void)user;
    turn_loop(&host);
    return acquire("m").code == SIMBA_OK;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void a_replica_is_told(void **state)
{
    struct call call;

    (void)state;
    server_do(&server, "REPLICAOF 127.0.0.1 1");
    call = acquire("m");
    assert_fails(&call, SIMBA_ESTORE, "read-only replica");
    server_do(&server, "REPLICAOF NO ONE");
    assert_true(test_wait(is_up, NULL)); /* it was left, and is found again */
}

/* Owners keep renewing when there is no room for new ones. */
static void a_full_server_is_told_and_still_renews(void **state)
{
    struct call owner = acquire("held");
    struct call call;

    (void)state;
    server_do(&server, "CONFIG SET maxmemory 1");
    call = acquire("m");
    assert_fails(&call, SIMBA_ESTORE, "maxmemory");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "held", "a", owner.revision).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_RELEASE, "held", "a", owner.revision).owner, "");
    server_do(&server, "CONFIG SET maxmemory 0");
    assert_int_equal(acquire("m").code, SIMBA_OK);
}

static void a_script_that_does_not_end_is_told(void **state)
{
    redisContext *busy = redisConnect("127.0.0.1", server.port);
    struct call call;

    (void)state;
    redisAppendCommand(busy, "EVAL %s 0", "while true do end");
    assert_int_equal(redisBufferWrite(busy, NULL), REDIS_OK);
    do {
        call = acquire("m");
    } while (call.code == SIMBA_OK);
    assert_fails(&call, SIMBA_EUNAVAILABLE, "busy with a script");
    server_do(&server, "SCRIPT KILL");
    assert_true(test_wait(is_up, NULL));
    redisFree(busy);
}

/* It takes a millisecond for each key that it loads, and looks at its clients meanwhile. */
static void a_server_that_loads_its_data_is_told(void **state)
{
    struct call call;

    (void)state;
    server_do(&server, "EVAL %s 0", "for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end");
    server_do(&server, "SAVE");
    server.arguments[4] = "--key-load-delay";
    server.arguments[5] = "1000";
    server.arguments[6] = "--loading-process-events-interval-bytes";
    server.arguments[7] = "1024";
    server_kill(&server, SIGKILL);
    server_launch_again(&server);
    do {
        turn_loop(&host);
        call = acquire("m");
    } while (call.code == SIMBA_EUNKNOWN || strstr(call.error.text, "loading") == NULL);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    host_expect_failure(server_url(&server, ""), SIMBA_EUNAVAILABLE, "still loading");
    assert_true(test_wait(is_up, NULL));
}

static bool has_failed_to_save(void *user)
{
    (void)user;
    return strstr(server_text(&server, "INFO persistence"), "rdb_last_bgsave_status:err") != NULL;
}

/* The folder that it saves to is gone. */
static void a_server_that_cannot_persist_is_told(void **state)
{
    char path[TEST_PATH_MAX + 16];
    struct call call;

    (void)state;
    snprintf(path, sizeof path, "%s/gone", server.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    server_do(&server, "CONFIG SET dir %s", path);
    assert_int_equal(rmdir(path), 0);
    server_do(&server, "CONFIG SET save %s", "3600 1000000");
    server_do(&server, "BGSAVE");
    assert_true(test_wait(has_failed_to_save, NULL));
    call = acquire("m");
    assert_fails(&call, SIMBA_ESTORE, "cannot persist");
    server_do(&server, "CONFIG SET stop-writes-on-bgsave-error no");
    assert_int_equal(acquire("m").code, SIMBA_OK);
}

static void keys_of_another_type_are_told(void **state)
{
    struct call call;

    (void)state;
    server_do(&server, "LPUSH simba:{owner} x");
    call = acquire("owner");
    assert_fails(&call, SIMBA_ESTORE, "holds other data");
    server_do(&server, "SET simba:{queue}:contender x");
    call = acquire("queue");
    assert_fails(&call, SIMBA_ESTORE, "holds other data");
    assert_int_equal(server_number(&server, "EXISTS simba:{queue}"), 0); /* nothing was granted */
    server_do(&server, "LPUSH simba:{fence}:fence x");
    call = acquire("fence");
    assert_fails(&call, SIMBA_ESTORE, "holds other data");
    assert_int_equal(server_number(&server, "EXISTS simba:{fence}"), 0);
}

/* ---- Silence --------------------------------------------------------------------------------- */

static struct call late_read(const char *mutex, int64_t timeout_ms)
{
    struct call call = host_call(SIMBA_OP_READ, mutex, NULL, 0);

    call.request.timeout_ms = timeout_ms;
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    return call;
}

/* The request is given up soon, so that the connection lives on: the reply comes and is
 * nobody's. */
static void a_reply_after_its_deadline_is_not_taken_for_a_later_one(void **state)
{
    struct call call;

    (void)state;
    server_do(&server, "SET simba:{x} owner-of-x PX 60000");
    server_do(&server, "SET simba:{y} owner-of-y PX 60000");
    assert_string_equal(late_read("x", 5000).owner, "owner-of-x");
    server_pause(&server);
    call = late_read("x", 30);
    assert_fails(&call, SIMBA_EUNAVAILABLE, "did not answer in time");
    server_go_on(&server);
    assert_string_equal(late_read("y", 5000).owner, "owner-of-y");
    assert_string_equal(late_read("x", 5000).owner, "owner-of-x");
    assert_int_equal(server_clients(&server, "simba"), 1);
}

static void a_request_is_answered_in_time_by_a_server_that_is_paused(void **state)
{
    struct call calls[2];
    int64_t begin_ms;

    (void)state;
    acquire("warm-up");
    calls[0] = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    calls[1] = host_call(SIMBA_OP_READ, "m", NULL, 0);
    calls[0].request.timeout_ms = 300;
    calls[1].request.timeout_ms = 300;
    server_pause(&server);
    begin_ms = test_now_ms();
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 2));
    assert_in_range(test_now_ms() - begin_ms, 250, 3000);
    assert_int_equal(calls[0].code, SIMBA_EUNKNOWN);
    assert_int_equal(calls[1].code, SIMBA_EUNAVAILABLE);
    assert_int_equal(calls[0].answers, 1);
    server_go_on(&server);
}

/* While the new connection is not ready a request waits; given up, it must never be carried out. */
static void a_request_that_was_given_up_before_it_was_sent_is_never_sent(void **state)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "first", "a", 0);

    (void)state;
    acquire("warm-up");
    server_pause(&server);
    call.request.timeout_ms = 200;
    host_submit(&host, &call, 1); /* its silence ends the connection */
    assert_true(host_wait(&host, &call, 1));
    do {
        turn_loop(&host);
        call = host_call(SIMBA_OP_ACQUIRE, "never", "a", 0);
        call.request.timeout_ms = 50;
        host_submit(&host, &call, 1);
        assert_true(host_wait(&host, &call, 1));
        assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    } while (strstr(call.error.text, "in time") == NULL); /* until it waited for a connection */
    server_go_on(&server);
    do {
        turn_loop(&host);
        call = host_do(&host, SIMBA_OP_READ, "never", NULL, 0);
    } while (call.code != SIMBA_OK);
    assert_string_equal(call.owner, "");
}

struct down {
    struct call call;
};

static bool is_down(void *user)
{
    struct down *down = user;

    down->call = acquire("m");
    return down->call.code == SIMBA_EUNAVAILABLE;
}

static void a_server_that_is_gone_is_unavailable_at_once_and_found_again(void **state)
{
    struct down down;
    int64_t begin_ms;

    (void)state;
    acquire("m");
    server_kill(&server, SIGKILL);
    assert_true(test_wait(is_down, &down));
    begin_ms = test_now_ms();
    assert_true(is_down(&down));
    assert_true(test_now_ms() - begin_ms < down.call.request.timeout_ms / 2);
    assert_fails(&down.call, SIMBA_EUNAVAILABLE, "127.0.0.1");
    server_start_again(&server);
    assert_true(test_wait(is_up, NULL));
}

static void a_server_that_vanishes_without_a_word_is_noticed_by_an_idle_client(void **state)
{
    struct proxy proxy;
    struct host idle;
    char url[128];

    (void)state;
    proxy_start(&proxy, server.port);
    snprintf(url, sizeof url,
             "redis://127.0.0.1:%d?idle-timeout=100ms&command-timeout=200ms&wait-timeout=100ms",
             proxy.port);
    assert_int_equal(host_open(&idle, url), SIMBA_OK);
    assert_int_equal(host_do(&idle, SIMBA_OP_ACQUIRE, "m", "a", 0).code, SIMBA_OK);
    atomic_store(&proxy.swallow, true);
    for (int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS; idle.log_count == 0;) {
        assert_true(test_now_ms() < end_ms);
        turn_loop(&idle);
    }
    assert_non_null(strstr(idle.log, "redis: "));
    atomic_store(&proxy.swallow, false);
    while (host_do(&idle, SIMBA_OP_ACQUIRE, "m", "a", 0).code != SIMBA_OK)
        turn_loop(&idle);
    assert_true(host_close(&idle));
    proxy_stop(&proxy);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void a_store_that_cannot_be_used_is_not_opened(void **state)
{
    char url[128];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", test_free_port());
    host_expect_failure(url, SIMBA_EUNAVAILABLE, "cannot be reached");
    host_expect_failure("redis+unix:/no/such/socket", SIMBA_EUNAVAILABLE, "cannot be reached");
    host_expect_failure("redis://no-such-host.invalid", SIMBA_EUNAVAILABLE, "cannot be found");
    host_expect_failure(server_url(&server, "/99"), SIMBA_ECONFIG, "no such database");
    server_pause(&server);
    host_expect_failure(server_url(&server, "?connect-timeout=200ms"), SIMBA_EUNAVAILABLE,
                        "connect-timeout");
    server_go_on(&server);
}

static void a_password_that_is_wrong_missing_or_needless_is_told(void **state)
{
    char url[128];

    (void)state;
    snprintf(url, sizeof url, "redis://:needless@127.0.0.1:%d", server.port);
    host_expect_failure(url, SIMBA_EDENIED, "has no password");
    server_do(&server, "CONFIG SET requirepass secret");
    host_expect_failure(server_url(&server, ""), SIMBA_EDENIED, "wants a password");
    snprintf(url, sizeof url, "redis://:wrong@127.0.0.1:%d", server.port);
    host_expect_failure(url, SIMBA_EDENIED, "refused the user or the password");
    snprintf(url, sizeof url, "redis://nobody:secret@127.0.0.1:%d", server.port);
    host_expect_failure(url, SIMBA_EDENIED, "refused the user or the password");
    snprintf(url, sizeof url, "redis://:secret@127.0.0.1:%d", server.port);
    {
        struct host other;

        assert_int_equal(host_open(&other, url), SIMBA_OK);
        assert_int_equal(host_do(&other, SIMBA_OP_ACQUIRE, "m", "a", 0).code, SIMBA_OK);
        assert_true(host_close(&other));
    }
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define BATCH 3000

/* Scripts are sent once more, not once for each request that missed them. */
static void a_batch_after_a_script_flush_is_answered_exactly_once_each(void **state)
{
    struct call *calls = calloc(BATCH, sizeof *calls);
    char(*names)[16] = calloc(BATCH, sizeof *names);

    (void)state;
    for (size_t i = 0; i < BATCH; i++) {
        snprintf(names[i], sizeof names[i], "batch-%zu", i);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    acquire("warm-up");
    server_do(&server, "SCRIPT FLUSH");
    server_do(&server, "CONFIG RESETSTAT");
    host_submit(&host, calls, BATCH);
    assert_true(host_wait(&host, calls, BATCH));
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_int_equal(calls[i].answers, 1);
        assert_string_equal(calls[i].owner, "a");
    }
    assert_non_null(strstr(server_text(&server, "INFO commandstats"), "cmdstat_eval:calls=1,"));
    free(names);
    free(calls);
}

static void the_list_finds_every_mutex_once_whatever_is_left_of_it(void **state)
{
    struct call call = acquire("a-held");

    (void)state;
    call = acquire("b-free");
    host_do(&host, SIMBA_OP_RELEASE, "b-free", "a", call.revision);
    server_do(&server, "ZADD simba:{c-waited}:contender 1 x 2 y");
    server_do(&server, "SET simba:{d-jvm} jvm PX 60000");
    server_do(&server, "SET simba:{not-a-mutex x");
    server_do(&server, "SET simba:{} x");
    server_do(&server, "SET other:{m} x");
    call = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(call.list_count, 4);
    assert_string_equal(call.list[0].mutex, "a-held");
    assert_string_equal(call.list[0].owner.id, "a");
    assert_string_equal(call.list[1].mutex, "b-free");
    assert_string_equal(call.list[1].owner.id, "");
    assert_string_equal(call.list[2].mutex, "c-waited");
    assert_int_equal(call.list[2].waiters, 2);
    assert_string_equal(call.list[3].mutex, "d-jvm");
    assert_string_equal(call.list[3].owner.id, "jvm");
}

static bool is_acquired(void *user)
{
    return server_number(&server, "EXISTS simba:{%s}", (const char *)user) == 1;
}

/* The answer has long been there when the loop is turned again, past the limit of the request and
 * past the silence that ends a connection. */
static void a_loop_that_was_held_up_does_not_blame_the_server(void **state)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "late", "a", 0);
    int64_t at_ms;

    (void)state;
    acquire("warm-up");
    server_do(&server, "CONFIG RESETSTAT");
    call.request.timeout_ms = 300;
    at_ms = test_now_ms() + 600;
    host_submit(&host, &call, 1);
    assert_true(test_wait(is_acquired, "late"));
    assert_true(test_wait(has_come, &at_ms));
    assert_true(host_wait(&host, &call, 1));
    if (call.code != SIMBA_OK)
        fail_msg("%s", call.error.text);
    assert_string_equal(call.owner, "a");
    assert_non_null(strstr(server_text(&server, "INFO stats"), "total_connections_received:0"));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_loop_that_was_held_up_does_not_blame_the_server),
        CASE(a_replica_is_told),
        CASE(a_full_server_is_told_and_still_renews),
        CASE(a_script_that_does_not_end_is_told),
        CASE(a_server_that_loads_its_data_is_told),
        CASE(a_server_that_cannot_persist_is_told),
        CASE(keys_of_another_type_are_told),
        CASE(a_reply_after_its_deadline_is_not_taken_for_a_later_one),
        CASE(a_request_is_answered_in_time_by_a_server_that_is_paused),
        CASE(a_request_that_was_given_up_before_it_was_sent_is_never_sent),
        CASE(a_server_that_is_gone_is_unavailable_at_once_and_found_again),
        CASE(a_server_that_vanishes_without_a_word_is_noticed_by_an_idle_client),
        CASE(a_store_that_cannot_be_used_is_not_opened),
        CASE(a_password_that_is_wrong_missing_or_needless_is_told),
        CASE(a_batch_after_a_script_flush_is_answered_exactly_once_each),
        CASE(the_list_finds_every_mutex_once_whatever_is_left_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
