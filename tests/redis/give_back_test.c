/*
 * give_back_test.c - nothing is lost that a release has handed to whoever has gone, stops, or does not ask.
 */
#include "pair.h"
#include "party.h"
#include "proxy.h"

#include <pthread.h>

#define LONG_LEASE "?ttl=20s&transition=20s&jitter=0ms..50ms"
#define SHORT_LEASE "?ttl=400ms&transition=800ms&jitter=0ms..50ms"
#define SHORT_LEASE_MS 1200

/* ---- Who has gone --------------------------------------------------------------------------- */

static void whoever_stops_with_the_message_gives_back_what_it_was_handed(void **state)
{
    (void)state;
    pair_hand_over();
    assert_string_equal(pair_ask(&pair.waiter, RELEASE, "b", 0).owner, "");
    assert_int_equal(server_number(&pair.server, "EXISTS simba:{m}"), 0);
    pair_stop_listening();
}

/* The contender is told what it has, and gives back just that. */
static void whoever_stops_before_the_message_comes_is_told_what_it_owns(void **state)
{
    struct call call = pair_own_and_have_b_wait();
    uint64_t token;

    (void)state;
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    token = pair_fence();
    call = pair_ask(&pair.waiter, RELEASE, "b", 0);
    assert_true(strcmp(call.owner, "b") == 0 || strcmp(call.owner, "") == 0);
    if (call.owner[0] != '\0') {
        assert_int_equal(call.revision, token);
        pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    }
    assert_int_equal(server_number(&pair.server, "EXISTS simba:{m}"), 0);
    pair_stop_listening();
}

static void what_was_handed_to_a_contender_that_goes_is_given_back(void **state)
{
    (void)state;
    pair_hand_over();
    pair_stop_listening();
    assert_true(host_run_until(&pair.waiter, pair_is_free, NULL));
}

/* Its subscription lingers, so that it looks alive. */
static void what_is_handed_to_a_contender_that_has_gone_is_given_back(void **state)
{
    struct call call = pair_own_and_have_b_wait();

    (void)state;
    pair_ask(&pair.waiter, RELEASE, "b", 0);
    pair_stop_listening();
    server_do(&pair.server, "ZADD simba:{m}:contender 1.5 b"); /* by an attempt that came late */
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("b");
    assert_true(host_run_until(&pair.waiter, pair_is_free, NULL));
}

/* The way to the server is down while the message comes; it is given back when there is one again. */
static void what_could_not_be_given_back_is_when_the_server_is_reached_again(void **state)
{
    struct call call = pair_own_and_have_b_wait();

    (void)state;
    pair_stop_listening(); /* without having left the queue: that had failed */
    pair_kill_connection("normal");
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("b");
    assert_true(host_run_until(&pair.waiter, pair_is_free, NULL));
}

/* ---- Who does not ask ----------------------------------------------------------------------- */

static void what_nobody_asks_for_is_given_back_after_a_moment(void **state)
{
    uint64_t token;

    (void)state;
    pair_hand_over();
    token = pair_fence();
    assert_true(host_run_until(&pair.waiter, pair_is_free, NULL));
    assert_true(pair_ask(&pair.waiter, ACQUIRE, "b", 0).revision > token);
    pair_assert_owner("b");
    pair_stop_listening();
}

/* One turn of the loop in which the moment is over: the give-back has left, and is not answered. */
static void whoever_asks_while_it_is_given_back_asks_the_store(void **state)
{
    uint64_t token;
    struct call call;

    (void)state;
    pair_hand_over();
    token = pair_fence();
    pair_let_pass(200);
    uv_run(&pair.waiter.loop, UV_RUN_NOWAIT);
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > token);
    assert_int_equal(call.as_of_ms, 0);
    assert_int_equal(call.revision, pair_fence());
    pair_assert_owner("b");
    pair_stop_listening();
}

static void whoever_asks_before_it_is_given_back_owns_without_asking(void **state)
{
    struct call call;

    (void)state;
    pair_hand_over();
    pair_let_pass(200);
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_int_equal(call.revision, pair_fence());
    pair_hear_all();
    pair_assert_owner("b");
    assert_int_equal(pair_script_calls(), 1); /* the release */
    pair_stop_listening();
}

/* It leaves the queue with what it gives back, and is told so when that was nothing. */
static void a_message_of_the_past_does_not_cost_a_place_in_the_queue(void **state)
{
    (void)state;
    pair_own_and_have_b_wait();
    server_do(&pair.server, "PUBLISH simba:{m}:b released@@a@@handed@@1@@1@@30000@@9@@0");
    pair_await_message();
    host_forget_notices(&pair.waiter);
    pair_await_message();
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "b", 0).owner, "a");
    assert_int_equal(server_number(&pair.server, "ZRANK simba:{m}:contender b"), 0);
    pair_assert_owner("a");
    pair_stop_listening();
}

/* It is in the waiter's socket before the attempt is made, which the server carries out before the release. */
static void an_answer_that_was_overtaken_by_the_message_does_not_spoil_it(void **state)
{
    struct call lost = host_call(ACQUIRE, "m", "b", 0);
    struct call call;

    (void)state;
    pair_own_and_have_b_wait();
    server_do(&pair.server,
              "PUBLISH simba:{m}:b released@@a@@handed@@9000000000000000@@%llu@@%d@@9@@0",
              (unsigned long long)server_time_us(&pair.server), HOST_LEASE_MS);
    host_submit(&pair.waiter, &lost, 1);
    assert_true(host_wait(&pair.waiter, &lost, 1));
    assert_string_equal(lost.owner, "a");
    pair_await_message();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.revision, 9000000000000000);
    pair_stop_listening();
}

/* The same with an attempt that the server carries out after the release: it has begun a newer term. */
static void a_hand_over_that_an_answer_has_overtaken_is_not_given_back(void **state)
{
    struct call call = pair_own_and_have_b_wait();
    int64_t later_ms;

    (void)state;
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    pair_await_message();
    later_ms = simba_now_ms() + 200;
    assert_true(host_run_until(&pair.waiter, pair_is_past, &later_ms));
    assert_int_equal(pair_script_calls(), 2);
    pair_assert_owner("b");
    pair_stop_listening();
}

/* ---- The library ---------------------------------------------------------------------------- */

static bool has_waiters(void *user)
{
    return server_number(&pair.server, "ZCARD simba:{m}:contender") == *(const int *)user;
}

static void join_and_wait(struct party *party, const char *url, const char *id, int waiters)
{
    char channel[64];

    party_join(party, url, "m", id);
    snprintf(channel, sizeof channel, "simba:{m}:%s", id);
    assert_true(test_wait(pair_has_subscriber, channel));
    assert_true(test_wait(has_waiters, &waiters));
}

static void *leave(void *party)
{
    party_leave(party);
    return NULL;
}

/* Whatever comes first, the message or the stop: with a lease of forty seconds nothing but a hand-over helps. */
static void a_waiter_that_stops_while_it_is_handed_the_mutex_holds_nobody_up(void **state)
{
    (void)state;
    for (int i = 0; i < 25; i++) {
        struct party parties[3];
        pthread_t thread;
        int64_t begin_ms;

        party_join(&parties[0], server_url(&pair.server, LONG_LEASE), "m", "first");
        party_await_acquired(&parties[0], 1);
        join_and_wait(&parties[1], server_url(&pair.server, LONG_LEASE), "stops", 1);
        join_and_wait(&parties[2], server_url(&pair.server, LONG_LEASE), "last", 2);
        begin_ms = test_now_ms();
        assert_int_equal(pthread_create(&thread, NULL, leave, &parties[1]), 0);
        party_leave(&parties[0]);
        party_await_acquired(&parties[2], 1);
        assert_true(test_now_ms() - begin_ms < 5000);
        pthread_join(thread, NULL);
        party_leave(&parties[2]);
        assert_int_equal(server_number(&pair.server, "EXISTS simba:{m}"), 0);
    }
}

/* The server has told it, but it does not come: whoever waits comes at the end of the lease. */
static void a_waiter_that_stands_still_holds_the_mutex_for_one_lease(void **state)
{
    struct party first;
    struct party last;
    int64_t begin_ms;

    (void)state;
    party_join(&first, server_url(&pair.server, SHORT_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    pair_hear_b();
    server_do(&pair.server, "ZADD simba:{m}:contender 1.5 b");
    join_and_wait(&last, server_url(&pair.server, SHORT_LEASE), "last", 2);
    begin_ms = test_now_ms();
    party_leave(&first);
    party_await_acquired(&last, 1);
    assert_in_range(test_now_ms() - begin_ms, SHORT_LEASE_MS / 2, 3 * SHORT_LEASE_MS);
    party_leave(&last);
}

/* The server counts it as heard. The waiter looks when it is subscribed again. */
static void a_message_that_is_lost_with_its_connection_costs_a_reconnection(void **state)
{
    struct party first;
    struct party second;
    struct proxy proxy;
    char url[128];
    int64_t begin_ms;

    (void)state;
    proxy_start(&proxy, pair.server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", proxy.port, LONG_LEASE);
    party_join(&first, server_url(&pair.server, LONG_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    join_and_wait(&second, url, "second", 1);
    atomic_store(&proxy.swallow, true);
    begin_ms = test_now_ms();
    party_leave(&first);
    pair_assert_owner("second");
    atomic_store(&proxy.cut, true);
    atomic_store(&proxy.swallow, false);
    party_await_acquired(&second, 1);
    assert_true(test_now_ms() - begin_ms < 10000);
    party_leave(&second);
    proxy_stop(&proxy);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, pair_begin, pair_end)
    const struct CMUnitTest tests[] = {
        CASE(whoever_stops_with_the_message_gives_back_what_it_was_handed),
        CASE(whoever_stops_before_the_message_comes_is_told_what_it_owns),
        CASE(what_was_handed_to_a_contender_that_goes_is_given_back),
        CASE(what_is_handed_to_a_contender_that_has_gone_is_given_back),
        CASE(what_could_not_be_given_back_is_when_the_server_is_reached_again),
        CASE(what_nobody_asks_for_is_given_back_after_a_moment),
        CASE(whoever_asks_while_it_is_given_back_asks_the_store),
        CASE(whoever_asks_before_it_is_given_back_owns_without_asking),
        CASE(a_message_of_the_past_does_not_cost_a_place_in_the_queue),
        CASE(an_answer_that_was_overtaken_by_the_message_does_not_spoil_it),
        CASE(a_hand_over_that_an_answer_has_overtaken_is_not_given_back),
        CASE(a_waiter_that_stops_while_it_is_handed_the_mutex_holds_nobody_up),
        CASE(a_waiter_that_stands_still_holds_the_mutex_for_one_lease),
        CASE(a_message_that_is_lost_with_its_connection_costs_a_reconnection),
    };
    int failed;

    server_start(&pair.server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&pair.server);
    return failed;
}
