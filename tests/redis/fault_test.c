/*
 * fault_test.c - what a leader and a waiter go through when the server, its data or the way to it
 * fail.
 */
#include "party.h"
#include "proxy.h"
#include "server.h"

#include <signal.h>

/* Long enough for a busy machine, short enough to wait for. */
#define LEASE "?ttl=400ms&transition=800ms&jitter=0ms..50ms"
#define LEASE_MS 1200
#define LONG_LEASE "?ttl=20s&transition=20s&jitter=0ms..50ms"

static struct server server;

static int start(void **state)
{
    memset(&server, 0, sizeof server);
    server_start(&server, NULL);
    return 0;
}

static int stop(void **state)
{
    server_stop(&server);
    return 0;
}

/* ---- Waiting for renewals -------------------------------------------------------------------- */

struct renewals {
    struct party *party;
    uint64_t least;
};

static bool has_renewed(void *user)
{
    struct renewals *renewals = user;

    return party_metrics(renewals->party).renewals >= renewals->least;
}

static void await_renewals(struct party *party, uint64_t more)
{
    struct renewals renewals = {party, party_metrics(party).renewals + more};

    assert_true(test_wait(has_renewed, &renewals));
}

static void assert_kept(struct party *party)
{
    assert_true(party_is_owner(party));
    assert_int_equal(atomic_load(&party->acquired), 1);
    assert_int_equal(atomic_load(&party->released), 0);
}

static void assert_lost_and_won_back(struct party *party)
{
    uint64_t fence = atomic_load(&party->fence);

    party_await_released(party, 1);
    party_await_acquired(party, 2);
    assert_true(atomic_load(&party->fence) > fence);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static void scripts_that_the_server_forgot_are_sent_again(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    server_do(&server, "SCRIPT FLUSH");
    await_renewals(&party, 2);
    assert_kept(&party);
    party_leave(&party);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

static void an_owner_whose_data_is_flushed_reports_a_loss_and_contends_again(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    server_do(&server, "FLUSHALL");
    assert_lost_and_won_back(&party);
    party_leave(&party);
}

static void an_owner_whose_key_is_deleted_reports_a_loss_and_contends_again(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    server_do(&server, "DEL simba:{m}");
    assert_lost_and_won_back(&party);
    party_leave(&party);
}

static void an_owner_whose_key_is_overwritten_loses_to_the_one_in_it(void **state)
{
    struct simba_state owners;
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    server_do(&server, "SET simba:{m} thief PX 3000");
    party_await_released(&party, 1);
    simba_contender_state(party.contender, &owners);
    assert_string_equal(owners.after.id, "thief");
    assert_string_equal(server_text(&server, "GET simba:{m}"), "thief");
    party_await_acquired(&party, 2); /* when the thief's lease is over */
    party_leave(&party);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void an_owner_whose_command_connection_is_killed_keeps_its_lease(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    assert_true(server_number(&server, "CLIENT KILL TYPE normal SKIPME yes") > 0);
    await_renewals(&party, 2);
    assert_kept(&party);
    party_leave(&party);
}

static bool has_waiters(void *user)
{
    return server_number(&server, "ZCARD simba:{m}:contender") >= *(const int *)user;
}

static void await_waiters(int count)
{
    assert_true(test_wait(has_waiters, &count));
}

static bool has_subscriber(void *user)
{
    redisReply *reply = server_ask(&server, "PUBSUB NUMSUB %s", user);
    bool subscribed = reply->elements == 2 && reply->element[1]->integer == 1;

    freeReplyObject(reply);
    return subscribed;
}

/* The lease is so long that only a message, or the look after a reconnection, can wake the
 * waiter. */
static void a_waiter_whose_subscriptions_are_killed_is_subscribed_again(void **state)
{
    struct party owner;
    struct party waiter;

    party_join(&owner, server_url(&server, LONG_LEASE), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, server_url(&server, LONG_LEASE), "m", "b");
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    assert_int_equal(server_number(&server, "CLIENT KILL TYPE pubsub"), 1);
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

/* The release comes while nobody can hear it: the look after the reconnection finds the mutex
 * free. */
static void a_release_that_was_not_heard_is_found_after_the_reconnection(void **state)
{
    struct proxy proxy;
    struct party waiter;
    char url[128];

    proxy_start(&proxy, server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", proxy.port, LONG_LEASE);
    server_do(&server, "SET simba:{m} jvm PX 60000");
    party_join(&waiter, url, "m", "b");
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    atomic_store(&proxy.swallow, true);
    server_do(&server, "DEL simba:{m}");
    server_do(&server, "PUBLISH simba:{m}:b released@@jvm");
    while (atomic_load(&proxy.swallowed) == 0)
        test_pause_ms(1);
    assert_int_equal(atomic_load(&waiter.acquired), 0);
    atomic_store(&proxy.swallow, false);
    atomic_store(&proxy.cut, true);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
    proxy_stop(&proxy);
}

/* The grant is on the store and its reply is gone: the contender must not be locked out by
 * itself. */
static void a_grant_whose_reply_was_lost_does_not_lock_its_contender_out(void **state)
{
    struct proxy proxy;
    struct party party;
    char url[128];
    int64_t begin_ms;

    proxy_start(&proxy, server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s&command-timeout=1s", proxy.port, LONG_LEASE);
    party_join(&party, url, "warm-up", "a"); /* the connection is up */
    party_await_acquired(&party, 1);
    simba_contender_close(party.contender);
    atomic_store(&proxy.swallow, true);
    begin_ms = test_now_ms();
    {
        struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

        options.mutex = "m";
        options.id = "a";
        assert_int_equal(simba_contender_create(party.client, &options, &party.contender, NULL),
                         SIMBA_OK);
        assert_int_equal(simba_contender_start(party.contender, NULL), SIMBA_OK);
    }
    while (server_number(&server, "EXISTS simba:{m}") == 0)
        test_pause_ms(1);
    atomic_store(&proxy.swallow, false);
    while (!party_is_owner(&party) && test_now_ms() - begin_ms < TEST_PATIENCE_MS)
        test_pause_ms(1);
    assert_true(party_is_owner(&party));
    assert_true(test_now_ms() - begin_ms < 10000); /* the lease of the lost grant is 40 s */
    party_leave(&party);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    proxy_stop(&proxy);
}

/* ---- The server ------------------------------------------------------------------------------ */

static void a_pause_shorter_than_the_transition_is_survived(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, "?ttl=500ms&transition=4s"), "m", "a");
    party_await_acquired(&party, 1);
    server_pause(&server);
    test_pause_ms(1500); /* past the ttl, within the lease: the pause is the condition */
    server_go_on(&server);
    await_renewals(&party, 2);
    assert_kept(&party);
    party_leave(&party);
}

static void an_owner_lets_go_by_its_own_clock_when_the_server_is_paused_past_the_lease(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&party, 1);
    server_pause(&server);
    party_await_released(&party, 1);
    assert_false(party_is_owner(&party));
    server_go_on(&server);
    party_await_acquired(&party, 2);
    party_leave(&party);
}

static void a_restart_with_data_is_survived(void **state)
{
    struct party party;

    server_stop(&server);
    server_start(&server, "--appendonly", "yes", "--appendfsync", "always", NULL);
    party_join(&party, server_url(&server, "?ttl=500ms&transition=8s"), "m", "a");
    party_await_acquired(&party, 1);
    server_kill(&server, SIGKILL);
    server_start_again(&server);
    await_renewals(&party, 1);
    assert_kept(&party);
    party_leave(&party);
}

static void a_restart_without_data_is_a_loss_and_a_new_term(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, "?ttl=500ms&transition=8s&jitter=0ms..50ms"), "m", "a");
    party_await_acquired(&party, 1);
    server_kill(&server, SIGKILL);
    server_start_again(&server);
    assert_lost_and_won_back(&party);
    party_leave(&party);
}

/* ---- The queue ------------------------------------------------------------------------------- */

#define DEAD 1000

static void a_release_passes_over_a_thousand_dead_waiters(void **state)
{
    struct party owner;
    struct party waiter;
    int64_t begin_ms;

    party_join(&owner, server_url(&server, LONG_LEASE), "m", "a");
    party_await_acquired(&owner, 1);
    for (int i = 0; i < DEAD; i++)
        server_do(&server, "ZADD simba:{m}:contender %d dead-%d", i, i);
    party_join(&waiter, server_url(&server, LONG_LEASE), "m", "b");
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    begin_ms = test_now_ms();
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    assert_true(test_now_ms() - begin_ms < 5000); /* not at the end of the lease */
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:contender"), 0);
    party_leave(&waiter);
}

/* A waiter asks twice: when it starts, and when its subscription stands. */
static bool has_asked_twice(void *party)
{
    return party_metrics(party).operation.count >= 2;
}

static void a_release_wakes_one_live_waiter(void **state)
{
    static const char *const ids[] = {"b", "c", "d"};
    struct party owner;
    struct party waiters[3];
    unsigned long long calls;

    party_join(&owner, server_url(&server, LONG_LEASE), "m", "a");
    party_await_acquired(&owner, 1);
    for (size_t i = 0; i < 3; i++) {
        char channel[32];

        party_join(&waiters[i], server_url(&server, LONG_LEASE), "m", ids[i]);
        snprintf(channel, sizeof channel, "simba:{m}:%s", ids[i]);
        assert_true(test_wait(has_subscriber, channel));
        assert_true(test_wait(has_asked_twice, &waiters[i]));
    }
    await_waiters(3);
    server_do(&server, "CONFIG RESETSTAT");
    party_leave(&owner);
    party_await_acquired(&waiters[0], 1);
    calls = strtoull(strstr(server_text(&server, "INFO commandstats"), "cmdstat_evalsha:calls=") +
                         strlen("cmdstat_evalsha:calls="),
                     NULL, 10);
    assert_int_equal(calls, 2); /* the release, and the attempt of the oldest */
    for (size_t i = 0; i < 3; i++)
        party_leave(&waiters[i]);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

#define TURN_MS 300
#define TURNS "?ttl=20s&transition=20s&jitter=900ms..3s&turn=300ms" /* the jitter would be seen */

/* An owner that died: its key is there until its lease ends. Returns when that is, by the server's
 * clock. */
static int64_t bury_owner(void)
{
    server_do(&server, "SET simba:{m} dead PX 1000");
    return server_number(&server, "PEXPIRETIME simba:{m}");
}

/* How long after the lease: a token is the server's time in microseconds. */
static int64_t waited_ms(struct party *winner, int64_t end_ms)
{
    party_await_acquired(winner, 1);
    return (int64_t)(atomic_load(&winner->fence) / 1000) - end_ms;
}

static void after_a_crash_the_first_of_the_queue_owns_when_the_lease_ends(void **state)
{
    static const char *const ids[] = {"b", "c", "d"};
    struct party waiters[3];
    int64_t end_ms;
    int64_t after_ms;

    end_ms = bury_owner();
    for (int i = 0; i < 3; i++) {
        party_join(&waiters[i], server_url(&server, TURNS), "m", ids[i]);
        await_waiters(i + 1);
    }
    after_ms = waited_ms(&waiters[0], end_ms);
    assert_in_range(after_ms, 0, TURN_MS);
    assert_int_equal(atomic_load(&waiters[1].acquired) + atomic_load(&waiters[2].acquired), 0);
    for (size_t i = 0; i < 3; i++)
        party_leave(&waiters[2 - i]);
}

static void a_waiter_behind_two_dead_ones_comes_in_its_own_turn(void **state)
{
    struct party waiter;
    int64_t end_ms;

    end_ms = bury_owner();
    server_do(&server, "ZADD simba:{m}:contender 1 dead-1 2 dead-2");
    party_join(&waiter, server_url(&server, TURNS), "m", "b");
    assert_in_range(waited_ms(&waiter, end_ms), 2 * TURN_MS, 3 * TURN_MS);
    party_leave(&waiter);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void foreign_and_malformed_messages_do_no_harm(void **state)
{
    static const char *const texts[] = {"",           "released", "released@@", "released@@x@@y",
                                        "acquired@@", "@@",       "\x01\xff",   "nonsense"};
    struct party owner;
    struct party waiter;

    party_join(&owner, server_url(&server, LEASE), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, server_url(&server, LEASE), "m", "b");
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        server_do(&server, "PUBLISH simba:{m}:b %s", texts[i]);
        server_do(&server, "PUBLISH simba:{m}:b %b", "released@@a\0b", (size_t)13);
        server_do(&server, "PUBLISH simba:{m} %s", texts[i]);
    }
    await_renewals(&owner, 2);
    assert_kept(&owner);
    assert_int_equal(atomic_load(&waiter.acquired), 0);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

/* ---- Connections, all told ------------------------------------------------------------------- */

static bool has_no_clients(void *user)
{
    return server_clients(&server, user) == 0;
}

static void a_client_has_two_connections_and_leaves_none(void **state)
{
    struct party owner;
    struct party waiter;

    party_join(&owner, server_url(&server, LONG_LEASE "&client-name=first"), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, server_url(&server, LONG_LEASE "&client-name=second"), "m", "b");
    assert_true(test_wait(has_subscriber, (void *)"simba:{m}:b"));
    assert_int_equal(server_clients(&server, "first"), 1); /* it has nothing to listen for */
    assert_int_equal(server_clients(&server, "second"), 2);
    party_leave(&waiter);
    party_leave(&owner);
    assert_true(test_wait(has_no_clients, (void *)"first"));
    assert_true(test_wait(has_no_clients, (void *)"second"));
    assert_int_equal(server_number(&server, "DBSIZE"), 1); /* the counter behind the token */
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(scripts_that_the_server_forgot_are_sent_again),
        CASE(an_owner_whose_data_is_flushed_reports_a_loss_and_contends_again),
        CASE(an_owner_whose_key_is_deleted_reports_a_loss_and_contends_again),
        CASE(an_owner_whose_key_is_overwritten_loses_to_the_one_in_it),
        CASE(an_owner_whose_command_connection_is_killed_keeps_its_lease),
        CASE(a_waiter_whose_subscriptions_are_killed_is_subscribed_again),
        CASE(a_release_that_was_not_heard_is_found_after_the_reconnection),
        CASE(a_grant_whose_reply_was_lost_does_not_lock_its_contender_out),
        CASE(a_pause_shorter_than_the_transition_is_survived),
        CASE(an_owner_lets_go_by_its_own_clock_when_the_server_is_paused_past_the_lease),
        CASE(a_restart_with_data_is_survived),
        CASE(a_restart_without_data_is_a_loss_and_a_new_term),
        CASE(a_release_passes_over_a_thousand_dead_waiters),
        CASE(a_release_wakes_one_live_waiter),
        CASE(after_a_crash_the_first_of_the_queue_owns_when_the_lease_ends),
        CASE(a_waiter_behind_two_dead_ones_comes_in_its_own_turn),
        CASE(foreign_and_malformed_messages_do_no_harm),
        CASE(a_client_has_two_connections_and_leaves_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
