/*
 * wire_test.c - the wire itself, step by step: keys, expiries, the wait queue, channels and
 * messages as somebody else sees them, and what somebody else writes by hand understood.
 *
 * "We" are the backend; the others use plain commands, as a contender of the JVM library would.
 */
#include "backend/host.h"
#include "server.h"

static struct server server;
static struct host host;
static redisContext *ear; /* a subscriber that is not ours */

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    ear = redisConnect("127.0.0.1", server.port);
    return ear->err == 0 && host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    redisFree(ear);
    return host_close(&host) ? 0 : -1;
}

static struct call ask(enum simba_op op, const char *id, uint64_t revision)
{
    struct call call = host_do(&host, op, "m", id, revision);

    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

#define ACQUIRE SIMBA_OP_ACQUIRE
#define GUARD SIMBA_OP_GUARD
#define RELEASE SIMBA_OP_RELEASE
#define READ SIMBA_OP_READ

/* ---- The ear --------------------------------------------------------------------------------- */

static void hear(const char *channel)
{
    redisReply *reply = redisCommand(ear, "SUBSCRIBE %s", channel);

    assert_non_null(reply);
    freeReplyObject(reply);
}

/* The next message must be this one. A PING of our own comes behind all that was published
 * before. */
static void assert_heard(const char *channel, const char *text)
{
    void *next = NULL;
    redisReply *reply;

    redisSetTimeout(ear, (struct timeval){5, 0});
    assert_int_equal(redisGetReply(ear, &next), REDIS_OK);
    reply = next;
    assert_int_equal(reply->elements, 3);
    assert_string_equal(reply->element[0]->str, "message");
    assert_string_equal(reply->element[1]->str, channel);
    assert_string_equal(reply->element[2]->str, text);
    freeReplyObject(reply);
}

static void assert_heard_no_more(void)
{
    redisReply *reply = redisCommand(ear, "PING");

    assert_non_null(reply);
    assert_string_equal(reply->element[0]->str, "pong");
    freeReplyObject(reply);
}

static void assert_lease(const char *key, long long lease_ms)
{
    long long left_ms = server_number(&server, "PTTL %s", key);

    assert_in_range(left_ms, lease_ms - 2000, lease_ms);
}

/* ---- What we write --------------------------------------------------------------------------- */

static void an_acquire_sets_the_key_with_the_whole_lease_and_tells_the_mutex_channel(void **state)
{
    struct call call;

    hear("simba:{m}");
    call = ask(ACQUIRE, "a", 0);
    assert_string_equal(call.owner, "a");
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
    assert_lease("simba:{m}", HOST_LEASE_MS);
    assert_heard("simba:{m}", "acquired@@a");
    assert_heard_no_more();
    assert_int_equal(server_number(&server, "DBSIZE"), 3);
    assert_int_equal(server_number(&server, "PTTL simba:{m}:fence"), -1);
    assert_int_equal(strtoull(server_text(&server, "GET simba:{m}:fence"), NULL, 10),
                     call.revision);
    assert_lease("simba:{m}:since", HOST_LEASE_MS);
    assert_string_equal(server_text(&server, "GET simba:{m}:since") + strlen("1234567890123456"),
                        "a");
}

static void a_term_that_the_jvm_began_has_no_time(void **state)
{
    struct call call;

    ask(ACQUIRE, "a", 0);
    call = ask(READ, NULL, 0);
    assert_in_range(call.held_ms, 0, 60000);
    server_do(&server, "SET simba:{m} jvm PX 60000");
    call = ask(READ, NULL, 0);
    assert_string_equal(call.owner, "jvm");
    assert_int_equal(call.held_ms, -1);
}

static void a_lost_acquire_joins_the_queue_once_with_the_servers_time(void **state)
{
    char first[64];
    double score;

    hear("simba:{m}");
    ask(ACQUIRE, "a", 0);
    assert_heard("simba:{m}", "acquired@@a");
    assert_string_equal(ask(ACQUIRE, "b", 0).owner, "a");
    snprintf(first, sizeof first, "%s", server_text(&server, "ZSCORE simba:{m}:contender b"));
    score = strtod(first, NULL);
    assert_true(score > (double)time(NULL) - 60 && score < (double)time(NULL) + 60);
    ask(ACQUIRE, "b", 0);
    assert_string_equal(server_text(&server, "ZSCORE simba:{m}:contender b"), first);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
    assert_heard_no_more();
}

static void a_guard_sets_the_whole_lease_again_and_says_nothing(void **state)
{
    struct call call;

    hear("simba:{m}");
    call = ask(ACQUIRE, "a", 0);
    assert_heard("simba:{m}", "acquired@@a");
    server_do(&server, "PEXPIRE simba:{m} 5000");
    assert_string_equal(ask(GUARD, "a", call.revision).owner, "a");
    assert_lease("simba:{m}", HOST_LEASE_MS);
    assert_lease("simba:{m}:since", HOST_LEASE_MS);
    assert_heard_no_more();
}

static void a_release_takes_the_oldest_waiter_out_of_the_queue_and_tells_it(void **state)
{
    struct call call;

    call = ask(ACQUIRE, "a", 0);
    ask(ACQUIRE, "b", 0);
    ask(ACQUIRE, "c", 0);
    hear("simba:{m}:b");
    hear("simba:{m}:c");
    hear("simba:{m}");
    assert_string_equal(ask(RELEASE, "a", call.revision).owner, "");
    assert_int_equal(server_number(&server, "EXISTS simba:{m} simba:{m}:since"), 0);
    assert_heard("simba:{m}:b", "released@@a");
    assert_heard_no_more();
    assert_string_equal(server_text(&server, "ZSCORE simba:{m}:contender b"), "");
    assert_string_not_equal(server_text(&server, "ZSCORE simba:{m}:contender c"), "");
}

static void a_release_of_what_is_not_ours_only_leaves_the_queue(void **state)
{
    struct call call;

    call = ask(ACQUIRE, "a", 0);
    ask(ACQUIRE, "b", 0);
    ask(ACQUIRE, "c", 0);
    hear("simba:{m}:c");
    ask(RELEASE, "b", call.revision);
    ask(RELEASE, "c", 0);
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:contender"), 0);
    assert_heard_no_more();
}

static void a_waiter_that_wins_leaves_the_queue(void **state)
{
    server_do(&server, "SET simba:{m} other PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
    server_do(&server, "DEL simba:{m}");
    assert_string_equal(ask(ACQUIRE, "b", 0).owner, "b");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:contender"), 0);
}

/* The one that was told gives up, so the next one is told; the dead lose their places. */
static void a_waiter_that_gives_up_a_free_mutex_passes_the_word_on(void **state)
{
    server_do(&server, "ZADD simba:{m}:contender 1 dead 2 c 3 d");
    hear("simba:{m}:c");
    hear("simba:{m}:d");
    ask(RELEASE, "b", 0);
    assert_heard("simba:{m}:c", "released@@b");
    assert_heard_no_more();
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
    assert_string_equal(server_text(&server, "ZSCORE simba:{m}:contender d"), "3");
}

/* ---- What others write ----------------------------------------------------------------------- */

static void the_key_of_another_owner_is_respected(void **state)
{
    struct call call;

    server_do(&server, "SET simba:{m} 0:77@10.0.0.9 NX PX 25000");
    call = ask(ACQUIRE, "a", 0);
    assert_string_equal(call.owner, "0:77@10.0.0.9");
    assert_in_range(call.transition_left_ms, 20000, 25000);
    assert_int_equal(call.transition_left_ms - call.ttl_left_ms, HOST_TRANSITION_MS);
    assert_string_equal(ask(GUARD, "a", 0).owner, "0:77@10.0.0.9");
    assert_string_equal(ask(RELEASE, "a", 1).owner, "0:77@10.0.0.9");
    assert_string_equal(ask(READ, NULL, 0).owner, "0:77@10.0.0.9");
    assert_in_range(server_number(&server, "PTTL simba:{m}"), 15000, 25000);
}

/* The JVM library pops the oldest waiter and publishes on its channel. */
static void a_release_by_hand_wakes_our_waiter(void **state)
{
    server_do(&server, "SET simba:{m} jvm PX 60000");
    host.ops->listen(host.backend, "m", "a", true);
    ask(ACQUIRE, "a", 0);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "", "")); /* subscribed */
    host_forget_notices(&host);
    server_do(&server, "DEL simba:{m}");
    server_do(&server, "ZPOPMIN simba:{m}:contender");
    assert_int_equal(server_number(&server, "PUBLISH simba:{m}:a released@@jvm"), 1);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", "a"));
    assert_string_equal(ask(ACQUIRE, "a", 0).owner, "a");
    host.ops->listen(host.backend, "m", "a", false);
}

static void an_acquire_by_hand_is_told_to_our_observer(void **state)
{
    host.ops->listen(host.backend, "m", NULL, true);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "", ""));
    server_do(&server, "SET simba:{m} jvm NX PX 60000");
    assert_int_equal(server_number(&server, "PUBLISH simba:{m} acquired@@jvm"), 1);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", ""));
    assert_string_equal(ask(READ, NULL, 0).owner, "jvm");
    host.ops->listen(host.backend, "m", NULL, false);
}

static void a_waiter_written_by_hand_gets_its_turn_and_its_message(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);

    server_do(&server, "ZADD simba:{m}:contender NX 1700000000 0:77@10.0.0.9");
    ask(ACQUIRE, "b", 0);
    hear("simba:{m}:0:77@10.0.0.9");
    ask(RELEASE, "a", call.revision);
    assert_heard("simba:{m}:0:77@10.0.0.9", "released@@a");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
}

/* Another contender with the same id has begun a term. */
static void a_guard_renews_its_own_term_only_and_shortens_none(void **state)
{
    struct call first = ask(ACQUIRE, "a", 0);
    struct call second = ask(ACQUIRE, "a", 0);
    struct call call;

    server_do(&server, "PEXPIRE simba:{m} 500");
    call = ask(GUARD, "a", first.revision);
    assert_string_equal(call.owner, "a");
    assert_int_equal(call.fence, second.revision);
    assert_true(server_number(&server, "PTTL simba:{m}") <= 500);
    server_do(&server, "PEXPIRE simba:{m} 600000");
    assert_int_equal(ask(GUARD, "a", second.revision).fence, second.revision);
    assert_true(ask(ACQUIRE, "a", 0).fence > second.revision);
    assert_true(server_number(&server, "PTTL simba:{m}") > 500000);
}

static void the_token_grows_over_the_terms_of_others_and_the_loss_of_the_counter(void **state)
{
    struct call first = ask(ACQUIRE, "a", 0);
    struct call call;

    ask(RELEASE, "a", first.revision);
    server_do(&server, "SET simba:{m} jvm PX 60000");
    server_do(&server, "DEL simba:{m}");
    call = ask(ACQUIRE, "a", 0);
    assert_true(call.revision > first.revision);
    first = call;
    server_do(&server, "FLUSHALL");
    call = ask(ACQUIRE, "b", 0);
    assert_true(call.revision > first.revision);
    first = call;
    server_do(&server, "SET simba:{m}:fence 7"); /* older data came back */
    assert_true(ask(GUARD, "b", first.revision).revision >= first.revision);
    server_do(&server, "DEL simba:{m}:fence");
    assert_string_equal(ask(RELEASE, "b", first.revision).owner, "");
    assert_true(ask(ACQUIRE, "a", 0).revision > first.revision);
    server_do(&server, "SET simba:{m}:fence nonsense");
    assert_true(ask(ACQUIRE, "a", 0).revision > first.revision);
}

/* A counter that ran ahead of the clock is lost while nobody owns: only the client remembers it. */
static void the_token_does_not_go_back_when_a_counter_ahead_of_the_clock_is_lost(void **state)
{
    struct call first;

    server_do(&server, "SET simba:{m}:fence %llu",
              (unsigned long long)server_time_us(&server) + 10000000);
    first = ask(ACQUIRE, "a", 0);
    ask(RELEASE, "a", first.revision);
    server_do(&server, "FLUSHALL");
    assert_true(ask(ACQUIRE, "a", 0).revision > first.revision);
}

/* What stands under one mutex by mistake does not become everybody's token. */
static void a_counter_that_cannot_be_is_no_matter_of_other_mutexes(void **state)
{
    struct call call;

    server_do(&server, "SET simba:{m}:fence 9007199254740000");
    assert_int_equal(ask(ACQUIRE, "a", 0).revision, 9007199254740001);
    call = host_do(&host, ACQUIRE, "other", "a", 0);
    assert_in_range(call.revision, server_time_us(&server) - 60000000,
                    server_time_us(&server) + 60000000);
}

static void the_token_is_the_time_in_microseconds_in_plain_digits(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);
    char digits[32];

    assert_in_range(call.revision, server_time_us(&server) - 60000000, server_time_us(&server));
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)call.revision);
    assert_string_equal(server_text(&server, "GET simba:{m}:fence"), digits);
    ask(RELEASE, "a", call.revision);
    assert_true(ask(ACQUIRE, "b", 0).revision > call.revision);
}

/* Behind a proxy, or after a fail-over, the server may be another one than that of the term
 * before. */
static void whoever_acquires_again_at_once_has_a_token_that_is_at_least_the_time(void **state)
{
    uint64_t token = 0;

    for (int i = 0; i < 100; i++) {
        uint64_t before_us = server_time_us(&server);
        uint64_t last = token;

        token = ask(ACQUIRE, "a", 0).revision;
        assert_true(token >= before_us && token > last);
        ask(RELEASE, "a", token);
    }
}

/* Whatever stands in the place of the counter, an owner that asks again keeps what it has. */
static void an_owner_under_a_counter_of_another_type_keeps_its_lease(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);

    server_do(&server, "DEL simba:{m}:fence");
    server_do(&server, "LPUSH simba:{m}:fence x");
    call = host_do(&host, ACQUIRE, "m", "a", call.revision);
    assert_int_equal(call.code, SIMBA_ESTORE);
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
}

static void whoever_looks_is_told_the_token_of_the_owner(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);
    struct call list;

    assert_int_equal(ask(READ, NULL, 0).fence, call.revision);
    assert_int_equal(ask(ACQUIRE, "b", 0).fence, call.revision);
    list = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(list.list[0].owner.fence, call.revision);
    ask(RELEASE, "a", call.revision);
    assert_int_equal(ask(READ, NULL, 0).fence, 0);
    list = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(list.list[0].owner.fence, 0);
}

static void those_who_wait_are_told_in_the_order_in_which_they_came(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);
    struct call queue;

    ask(ACQUIRE, "z", 0);
    ask(ACQUIRE, "b", 0);
    server_do(&server, "ZADD simba:{m}:contender 1 old%sone", "\n");
    queue = host_do(&host, SIMBA_OP_QUEUE, "m", NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 3);
    assert_string_equal(queue.list[0].owner.id, "old?one");
    assert_string_equal(queue.list[1].owner.id, "z");
    assert_string_equal(queue.list[2].owner.id, "b");
    ask(RELEASE, "z", 0);
    ask(RELEASE, "b", 0);
    ask(RELEASE, "a", call.revision);
    server_do(&server, "SET simba:{m}:contender %s", "text");
    assert_true(host_do(&host, SIMBA_OP_QUEUE, "m", NULL, 0).code != SIMBA_OK);
    server_do(&server, "DEL simba:{m}:contender");
}

static bool was_called(const char *command)
{
    char entry[64];

    snprintf(entry, sizeof entry, "cmdstat_%s:", command);
    return strstr(server_text(&server, "INFO commandstats"), entry) != NULL;
}

static void the_place_in_the_queue_is_told_to_who_asks(void **state)
{
    server_do(&server, "CONFIG RESETSTAT");
    server_do(&server, "ZADD simba:{m}:contender 1 somebody-else");
    assert_int_equal(ask(ACQUIRE, "a", 0).place, 0);
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 0);
    assert_false(was_called("zrank"));
    assert_int_equal(host_place(&host, "m", "c"), 3);
    assert_int_equal(host_place(&host, "m", "b"), 2);
    assert_true(was_called("zrank"));
    ask(RELEASE, "b", 0);
    assert_int_equal(host_place(&host, "m", "c"), 2);
    assert_int_equal(host_place(&host, "m", "a"), 0); /* it owns */
}

/* The server is nobody's for as long as a script runs. */
static void a_release_looks_at_ten_thousand_dead_waiters_at_most(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);

    server_do(&server, "EVAL %s 0",
              "for i = 1, 10500 do redis.call('ZADD', 'simba:{m}:contender', i, 'dead-' .. i) end");
    assert_string_equal(ask(RELEASE, "a", call.revision).owner, "");
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 500);
    server_do(&server, "EVAL %s 0",
              "for i = 1, 10500 do redis.call('ZADD', 'simba:{m}:contender', i, 'dead-' .. i) end");
    ask(RELEASE, "b", 0);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 500);
}

int main(void)
{
#define STEP(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        STEP(an_acquire_sets_the_key_with_the_whole_lease_and_tells_the_mutex_channel),
        STEP(a_term_that_the_jvm_began_has_no_time),
        STEP(a_lost_acquire_joins_the_queue_once_with_the_servers_time),
        STEP(a_guard_sets_the_whole_lease_again_and_says_nothing),
        STEP(a_release_takes_the_oldest_waiter_out_of_the_queue_and_tells_it),
        STEP(a_release_of_what_is_not_ours_only_leaves_the_queue),
        STEP(a_waiter_that_wins_leaves_the_queue),
        STEP(a_waiter_that_gives_up_a_free_mutex_passes_the_word_on),
        STEP(the_key_of_another_owner_is_respected),
        STEP(a_release_by_hand_wakes_our_waiter),
        STEP(an_acquire_by_hand_is_told_to_our_observer),
        STEP(a_waiter_written_by_hand_gets_its_turn_and_its_message),
        STEP(a_guard_renews_its_own_term_only_and_shortens_none),
        STEP(the_token_grows_over_the_terms_of_others_and_the_loss_of_the_counter),
        STEP(the_token_does_not_go_back_when_a_counter_ahead_of_the_clock_is_lost),
        STEP(a_counter_that_cannot_be_is_no_matter_of_other_mutexes),
        STEP(the_token_is_the_time_in_microseconds_in_plain_digits),
        STEP(whoever_acquires_again_at_once_has_a_token_that_is_at_least_the_time),
        STEP(an_owner_under_a_counter_of_another_type_keeps_its_lease),
        STEP(whoever_looks_is_told_the_token_of_the_owner),
        STEP(those_who_wait_are_told_in_the_order_in_which_they_came),
        STEP(the_place_in_the_queue_is_told_to_who_asks),
        STEP(a_release_looks_at_ten_thousand_dead_waiters_at_most),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
