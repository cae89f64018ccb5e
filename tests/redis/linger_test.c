/*
 * linger_test.c - subscriptions that outlive their listener for a while, for a listener that comes
 * back soon.
 */
#include "backend/host.h"
#include "server.h"

#define MANY 70 /* more than may linger */
#define LINGER_MAX 64

static struct server server;
static struct host host;

static int begin(void **state)
{
    (void)state;
    server_do(&server, "FLUSHALL");
    server_do(&server, "CONFIG RESETSTAT");
    server_do(&server, "SET simba:{m} jvm PX 60000");
    return host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return host_close(&host) ? 0 : -1;
}

static size_t channels(void)
{
    redisReply *reply = server_ask(&server, "PUBSUB CHANNELS");
    size_t count = reply->elements;

    freeReplyObject(reply);
    return count;
}

static bool has_channels(void *user)
{
    return channels() == *(const size_t *)user;
}

static void await_channels(size_t count)
{
    assert_true(host_run_until(&host, has_channels, &count));
}

static int calls_of(const char *command)
{
    const char *stats = server_text(&server, "INFO commandstats");
    char name[64];
    const char *found;

    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    found = strstr(stats, name);
    return found != NULL ? atoi(found + strlen(name)) : 0;
}

static void wait_as(const char *id)
{
    host.ops->listen(host.backend, "m", id, true);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", id, 0).owner, "jvm");
}

static void stop_as(const char *id)
{
    host_do(&host, SIMBA_OP_RELEASE, "m", id, 0);
    host.ops->listen(host.backend, "m", id, false);
}

static void whoever_waits_again_soon_is_still_subscribed(void **state)
{
    (void)state;
    wait_as("a");
    await_channels(1);
    stop_as("a");
    wait_as("a");
    host_forget_notices(&host);
    assert_int_equal(server_number(&server, "PUBLISH simba:{m}:a released@@jvm"), 1);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", "a"));
    assert_int_equal(calls_of("subscribe"), 1);
    assert_int_equal(calls_of("unsubscribe"), 0);
    stop_as("a");
}

static void a_subscription_that_nobody_comes_back_for_ends(void **state)
{
    (void)state;
    wait_as("a");
    await_channels(1);
    stop_as("a");
    assert_int_equal(channels(), 1);
    await_channels(0);
    wait_as("a"); /* anew */
    await_channels(1);
    assert_int_equal(calls_of("subscribe"), 2);
}

/* Nobody is there to look. */
static void a_message_to_whoever_has_stopped_wakes_nobody(void **state)
{
    (void)state;
    wait_as("a");
    await_channels(1);
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    stop_as("a");
    host_forget_notices(&host);
    server_do(&server, "PUBLISH simba:{m}:a released@@jvm");
    await_channels(0);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 0);
}

/* A server takes every subscriber for alive: without a word from us it would tell nobody
 * else. */
static void what_is_told_to_whoever_has_stopped_reaches_the_next_waiter(void **state)
{
    struct call owner;

    (void)state;
    wait_as("a");
    wait_as("b");
    await_channels(2);
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    stop_as("a");
    server_do(&server, "ZADD simba:{m}:contender 1 a"); /* by an attempt that came late */
    server_do(&server, "DEL simba:{m}");
    owner = host_do(&host, SIMBA_OP_ACQUIRE, "m", "o", 0);
    assert_string_equal(owner.owner, "o");
    host_forget_notices(&host);
    host_do(&host, SIMBA_OP_RELEASE, "m", "o", owner.revision);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", "a"), 0);
    stop_as("b");
}

static bool is_queue_empty(void *user)
{
    (void)user;
    return server_number(&server, "ZCARD simba:{m}:contender") == 0;
}

static bool has_called_a_script(void *user)
{
    (void)user;
    return calls_of("evalsha") > 0;
}

/* Sent again it could come behind an attempt of a contender that is back, and take that one out of
 * the queue. */
static void a_leave_that_a_server_does_not_know_is_not_sent_again(void **state)
{
    (void)state;
    wait_as("a");
    await_channels(1);
    stop_as("a");
    server_do(&server, "ZADD simba:{m}:contender 1 a");
    server_do(&server, "SCRIPT FLUSH");
    server_do(&server, "CONFIG RESETSTAT");
    server_do(&server, "PUBLISH simba:{m}:a released@@jvm");
    assert_true(host_run_until(&host, has_called_a_script, NULL));
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0); /* what was sent before has been answered */
    assert_int_equal(calls_of("eval"), 1);       /* of the READ */
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
}

/* It is answered when its contender has stopped, and is neither in the queue then nor where a later
 * contest begins. */
static void an_attempt_that_came_late_leaves_the_queue_again(void **state)
{
    double before;

    (void)state;
    wait_as("a");
    await_channels(1);
    stop_as("a");
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_true(host_run_until(&host, is_queue_empty, NULL));
    assert_int_equal(channels(), 1); /* it lingers still */
    before = (double)server_time_us(&server) / 1e6;
    wait_as("a");
    assert_true(strtod(server_text(&server, "ZSCORE simba:{m}:contender a"), NULL) >= before);
    stop_as("a");
}

static void only_so_many_linger_and_the_oldest_go_first(void **state)
{
    char ids[MANY][16];
    int calls;

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "id-%d", i);
        wait_as(ids[i]);
    }
    await_channels(MANY);
    for (int i = 0; i < MANY; i++)
        stop_as(ids[i]);
    await_channels(LINGER_MAX);
    calls = calls_of("subscribe");
    wait_as(ids[MANY - 1]);
    wait_as(ids[MANY - LINGER_MAX]);
    assert_int_equal(calls_of("subscribe"), calls);
    wait_as(ids[0]);
    await_channels(3); /* the others have ended */
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(whoever_waits_again_soon_is_still_subscribed),
        CASE(a_subscription_that_nobody_comes_back_for_ends),
        CASE(a_message_to_whoever_has_stopped_wakes_nobody),
        CASE(what_is_told_to_whoever_has_stopped_reaches_the_next_waiter),
        CASE(a_leave_that_a_server_does_not_know_is_not_sent_again),
        CASE(an_attempt_that_came_late_leaves_the_queue_again),
        CASE(only_so_many_linger_and_the_oldest_go_first),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
