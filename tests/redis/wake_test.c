/*
 * wake_test.c - a release tells a waiter to try. What a message says is a reason to look and
 * nothing else, a waiter that was told and does not come costs a reservation, and no token is
 * believed that nobody can have given.
 */
#include "backend/host.h"
#include "party.h"
#include "proxy.h"
#include "server.h"

#include <pthread.h>

#define ACQUIRE SIMBA_OP_ACQUIRE
#define GUARD SIMBA_OP_GUARD
#define RELEASE SIMBA_OP_RELEASE

#define LONG_LEASE "?ttl=20s&transition=20s&jitter=0ms..50ms"
#define SOON_MS 3000 /* nothing but a word is so fast with the long lease */
#define DAY_US ((uint64_t)24 * 3600 * 1000000)

static struct server server;
static struct host host;

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    return host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    return host_close(&host) ? 0 : -1;
}

static struct call ask(struct host *asked, enum simba_op op, const char *id, uint64_t revision)
{
    struct call call = host_do(asked, op, "m", id, revision);

    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

static uint64_t fence(void)
{
    return strtoull(server_text(&server, "GET simba:{m}:fence"), NULL, 10);
}

static void assert_owner(const char *id)
{
    assert_string_equal(server_text(&server, "GET simba:{m}"), id);
}

/* "b" has lost to another, and is subscribed. */
static void wait_as_b(struct host *waiter)
{
    waiter->ops->listen(waiter->backend, "m", "b", true);
    assert_string_not_equal(ask(waiter, ACQUIRE, "b", 0).owner, "b");
    assert_true(host_wait_notice(waiter, SIMBA_NOTICE_RELEASED, "", ""));
    host_forget_notices(waiter);
}

static void stop_as_b(struct host *waiter)
{
    ask(waiter, RELEASE, "b", 0);
    waiter->ops->listen(waiter->backend, "m", "b", false);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Anybody may PUBLISH. */
static void what_a_message_says_is_only_a_reason_to_look(void **state)
{
    char texts[6][160] = {"released@@", "released@@a", "reserved@@", "reserved@@a"};

    snprintf(texts[4], sizeof texts[4], "released@@%0*d", 128, 0);
    snprintf(texts[5], sizeof texts[5], "reserved@@%0*d", 128, 0);
    ask(&host, ACQUIRE, "a", 0);
    wait_as_b(&host);
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        host_forget_notices(&host);
        server_do(&server, "PUBLISH simba:{m}:b %s", texts[i]);
        assert_true(host_wait_notice(
            &host, texts[i][2] == 'l' ? SIMBA_NOTICE_RELEASED : SIMBA_NOTICE_RESERVED, "m", "b"));
        assert_string_equal(ask(&host, ACQUIRE, "b", 0).owner, "a");
        assert_int_equal(server_number(&server, "ZRANK simba:{m}:contender b"), 0);
    }
    assert_owner("a");
    stop_as_b(&host);
}

/* All databases have their channels in common. */
static void a_message_of_another_database_is_only_a_reason_to_look(void **state)
{
    struct call call = ask(&host, ACQUIRE, "a", 0);
    struct host other;

    assert_int_equal(host_open(&other, server_url(&server, "/1")), SIMBA_OK);
    ask(&other, ACQUIRE, "owner-there", 0);
    wait_as_b(&other);
    wait_as_b(&host);
    ask(&host, RELEASE, "a", call.revision);
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_string_equal(ask(&other, ACQUIRE, "b", 0).owner, "owner-there");
    stop_as_b(&other);
    assert_true(host_close(&other));
    stop_as_b(&host);
}

static void a_release_that_may_tell_nobody_gives_the_mutex_back(void **state)
{
    struct call call = ask(&host, ACQUIRE, "a", 0);
    struct host mute;
    char url[128];

    server_do(&server, "ACL SETUSER mute on >secret ~* +@all resetchannels &simba:{m}");
    snprintf(url, sizeof url, "redis://mute:secret@127.0.0.1:%d", server.port);
    assert_int_equal(host_open(&mute, url), SIMBA_OK);
    wait_as_b(&host);
    assert_string_equal(ask(&mute, RELEASE, "a", call.revision).owner, "");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    assert_string_equal(ask(&host, ACQUIRE, "b", 0).owner, "b");
    assert_true(host_close(&mute));
    stop_as_b(&host);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* The counter is an hour ahead of the clock, which is what a clock that went back leaves. */
static void a_token_grows_also_when_the_clock_went_back(void **state)
{
    uint64_t ahead = (uint64_t)server_time_us(&server) + 3600000000;
    struct call call;

    server_do(&server, "SET simba:{m}:fence %llu", (unsigned long long)ahead);
    call = ask(&host, ACQUIRE, "a", 0);
    assert_int_equal(call.revision, ahead + 1);
    ask(&host, RELEASE, "a", call.revision);
    assert_int_equal(ask(&host, ACQUIRE, "b", 0).revision, ahead + 2);
}

/* A client that was told so by somebody else does not tell the store. */
static void a_token_far_ahead_of_the_clock_is_refused(void **state)
{
    static const enum simba_op ops[] = {GUARD, RELEASE, ACQUIRE};
    struct call owned = ask(&host, ACQUIRE, "a", 0);
    uint64_t absurd = (uint64_t)server_time_us(&server) + 2 * DAY_US;

    for (size_t i = 0; i < TEST_COUNT(ops); i++) {
        struct call call = host_do(&host, ops[i], "m", "a", absurd);

        assert_int_equal(call.code, SIMBA_ESTORE);
        assert_non_null(strstr(call.error.text, "more than a day ahead"));
        assert_int_equal(fence(), owned.revision);
    }
    assert_owner("a");
    assert_int_equal(host_do(&host, ACQUIRE, "free", "a", absurd).code, SIMBA_ESTORE);
    assert_int_equal(server_number(&server, "EXISTS simba:{free} simba:{free}:fence"), 0);
}

/* The counter was lost, the owner is not: up to a day the term goes on. */
static void a_token_that_the_store_has_lost_is_believed_for_a_day(void **state)
{
    struct call call = ask(&host, ACQUIRE, "a", 0);
    uint64_t ahead = call.revision + DAY_US / 2;

    server_do(&server, "DEL simba:{m}:fence");
    assert_int_equal(ask(&host, GUARD, "a", ahead).revision, ahead);
    assert_int_equal(fence(), ahead);
}

/* A client that may write one mutex, and no other, has set its counter. */
static void the_token_of_one_mutex_does_not_spread_to_others(void **state)
{
    uint64_t absurd = (uint64_t)server_time_us(&server) + 300 * DAY_US;

    server_do(&server, "SET simba:{m}:fence %llu", (unsigned long long)absurd);
    assert_true(ask(&host, ACQUIRE, "a", 0).revision > absurd);
    assert_true(host_do(&host, ACQUIRE, "other", "a", 0).revision <
                (uint64_t)server_time_us(&server) + DAY_US);
}

/* ---- Who does not come ----------------------------------------------------------------------- */

static bool has_subscriber(void *user)
{
    redisReply *reply = server_ask(&server, "PUBSUB NUMSUB simba:{m}:%s", (const char *)user);
    bool has = reply->element[1]->integer > 0;

    freeReplyObject(reply);
    return has;
}

static bool has_waiters(void *user)
{
    return server_number(&server, "ZCARD simba:{m}:contender") == *(const int *)user;
}

static void join_and_wait(struct party *party, const char *url, const char *id, int waiters)
{
    party_join(party, url, "m", id);
    assert_true(test_wait(has_subscriber, (void *)id));
    assert_true(test_wait(has_waiters, &waiters));
}

static void *leave(void *party)
{
    party_leave(party);
    return NULL;
}

/* Whatever comes first, the message or the stop. */
static void a_waiter_that_stops_while_it_is_told_strands_nobody(void **state)
{
    for (int i = 0; i < 10; i++) {
        struct party parties[3];
        pthread_t thread;
        int64_t begin_ms;

        party_join(&parties[0], server_url(&server, LONG_LEASE), "m", "first");
        party_await_acquired(&parties[0], 1);
        join_and_wait(&parties[1], server_url(&server, LONG_LEASE), "stops", 1);
        join_and_wait(&parties[2], server_url(&server, LONG_LEASE), "last", 2);
        begin_ms = test_now_ms();
        assert_int_equal(pthread_create(&thread, NULL, leave, &parties[1]), 0);
        party_leave(&parties[0]);
        party_await_acquired(&parties[2], 1);
        assert_true(test_now_ms() - begin_ms < SOON_MS);
        pthread_join(thread, NULL);
        party_leave(&parties[2]);
        assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    }
}

/* Somebody listens for it, so that it looks alive, but nobody tries. The waiter behind it comes
 * when the reservation is over, far before the end of a lease. */
static void a_waiter_that_is_told_and_does_not_come_costs_a_reservation(void **state)
{
    redisContext *ear = redisConnect("127.0.0.1", server.port);
    struct party first;
    struct party last;
    int64_t begin_ms;

    freeReplyObject(redisCommand(ear, "SUBSCRIBE simba:{m}:gone"));
    party_join(&first, server_url(&server, LONG_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    server_do(&server, "ZADD simba:{m}:contender 1.5 gone");
    join_and_wait(&last, server_url(&server, LONG_LEASE), "last", 2);
    begin_ms = test_now_ms();
    party_leave(&first);
    party_await_acquired(&last, 1);
    assert_true(test_now_ms() - begin_ms < SOON_MS);
    party_leave(&last);
    redisFree(ear);
}

/* The server counts it as heard. The waiter looks when it is subscribed again. */
static void a_message_that_is_lost_with_its_connection_costs_a_reconnection(void **state)
{
    struct party first;
    struct party second;
    struct proxy proxy;
    char url[128];
    int64_t begin_ms;

    proxy_start(&proxy, server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", proxy.port, LONG_LEASE);
    party_join(&first, server_url(&server, LONG_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    join_and_wait(&second, url, "second", 1);
    atomic_store(&proxy.swallow, true);
    begin_ms = test_now_ms();
    party_leave(&first);
    assert_int_equal(server_number(&server, "EXISTS simba:{m} simba:{m}:contender"), 0);
    atomic_store(&proxy.cut, true);
    atomic_store(&proxy.swallow, false);
    party_await_acquired(&second, 1);
    assert_true(test_now_ms() - begin_ms < 2 * SOON_MS);
    party_leave(&second);
    proxy_stop(&proxy);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(what_a_message_says_is_only_a_reason_to_look),
        CASE(a_message_of_another_database_is_only_a_reason_to_look),
        CASE(a_release_that_may_tell_nobody_gives_the_mutex_back),
        CASE(a_token_grows_also_when_the_clock_went_back),
        CASE(a_token_far_ahead_of_the_clock_is_refused),
        CASE(a_token_that_the_store_has_lost_is_believed_for_a_day),
        CASE(the_token_of_one_mutex_does_not_spread_to_others),
        CASE(a_waiter_that_stops_while_it_is_told_strands_nobody),
        CASE(a_waiter_that_is_told_and_does_not_come_costs_a_reservation),
        CASE(a_message_that_is_lost_with_its_connection_costs_a_reconnection),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
