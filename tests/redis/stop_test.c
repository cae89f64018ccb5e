/*
 * stop_test.c - contenders that stop to wait: their subscriptions, and what is published to them.
 */
#include "backend/host.h"
#include "server.h"

static struct server server;
static struct host host;

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    server_do(&server, "CONFIG RESETSTAT");
    server_do(&server, "SET simba:{m} jvm PX 60000");
    return host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
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

static void a_contender_that_stops_unsubscribes(void **state)
{
    wait_as("a");
    await_channels(1);
    stop_as("a");
    await_channels(0);
    wait_as("a"); /* anew */
    await_channels(1);
    assert_int_equal(calls_of("subscribe"), 2);
    stop_as("a");
}

static void a_message_to_a_contender_that_has_stopped_wakes_nobody(void **state)
{
    wait_as("a");
    await_channels(1);
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    stop_as("a");
    host_forget_notices(&host);
    server_do(&server, "PUBLISH simba:{m}:a released@@jvm");
    await_channels(0);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 0);
}

/* An attempt that came late has put it into the queue again, where nobody listens for it. */
static void a_release_passes_over_a_contender_that_has_stopped(void **state)
{
    struct call owner;

    wait_as("a");
    wait_as("b");
    await_channels(2);
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    stop_as("a");
    await_channels(1);
    server_do(&server, "ZADD simba:{m}:contender 1 a");
    server_do(&server, "DEL simba:{m}");
    owner = host_do(&host, SIMBA_OP_ACQUIRE, "m", "o", 0);
    assert_string_equal(owner.owner, "o");
    host_forget_notices(&host);
    host_do(&host, SIMBA_OP_RELEASE, "m", "o", owner.revision);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", "a"), 0);
    stop_as("b");
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_contender_that_stops_unsubscribes),
        CASE(a_message_to_a_contender_that_has_stopped_wakes_nobody),
        CASE(a_release_passes_over_a_contender_that_has_stopped),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
