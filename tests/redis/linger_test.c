/*
 * linger_test.c - subscriptions that outlive their listener for a while, for whoever comes back soon.
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
        CASE(only_so_many_linger_and_the_oldest_go_first),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
