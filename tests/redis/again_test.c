/*
 * again_test.c - whoever acquires again what it has just released goes a short way on the server: its token is the next
 * one, it is announced, and nothing that came in between is passed over.
 *
 * A token of the long way is at least the time of the server, so that the two ways can be told apart.
 */
#include "backend/host.h"
#include "rights.h"

#define ACQUIRE SIMBA_OP_ACQUIRE
#define RELEASE SIMBA_OP_RELEASE

static struct server server;
static struct host host;
static redisContext *ear; /* a subscriber that is not ours */
static uint64_t released; /* the token of the term that "a" has just released */

static int begin(void **state)
{
    (void)state;
    server_do(&server, "FLUSHALL");
    ear = redisConnect("127.0.0.1", server.port);
    return ear->err == 0 && host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
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

/* A term of "a" begins and ends. */
static void use(void)
{
    released = ask(ACQUIRE, "a", 0).revision;
    assert_string_equal(ask(RELEASE, "a", released).owner, "");
}

static void hear(const char *channel)
{
    redisReply *reply = redisCommand(ear, "SUBSCRIBE %s", channel);

    assert_non_null(reply);
    freeReplyObject(reply);
}

static void assert_heard(const char *text)
{
    void *next = NULL;
    redisReply *reply;

    redisSetTimeout(ear, (struct timeval){5, 0});
    assert_int_equal(redisGetReply(ear, &next), REDIS_OK);
    reply = next;
    assert_string_equal(reply->element[2]->str, text);
    freeReplyObject(reply);
}

/* The short way is open for a tenth of a second after a release, which a busy machine may be too slow for. */
static struct call acquire_the_short_way(void)
{
    struct call call;

    for (int i = 0; i < 100; i++) {
        use();
        call = ask(ACQUIRE, "a", 0);
        if (call.revision == released + 1)
            return call;
        ask(RELEASE, "a", call.revision);
    }
    fail_msg("nobody went the short way");
    return call;
}

static uint64_t counter(void)
{
    return strtoull(server_text(&server, "GET simba:{m}:fence"), NULL, 10);
}

/* ---- The short way -------------------------------------------------------------------------- */

static void it_owns_for_the_whole_lease_with_the_next_token(void **state)
{
    struct call call = acquire_the_short_way();

    (void)state;
    assert_string_equal(call.owner, "a");
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
    assert_in_range(server_number(&server, "PTTL simba:{m}"), HOST_LEASE_MS - 2000, HOST_LEASE_MS);
    assert_true(counter() == call.revision);
    assert_string_equal(ask(SIMBA_OP_GUARD, "a", call.revision).owner, "a");
    assert_string_equal(ask(RELEASE, "a", call.revision).owner, "");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

static void it_is_announced_like_any_other(void **state)
{
    uint64_t token = acquire_the_short_way().revision;

    (void)state;
    ask(RELEASE, "a", token);
    hear("simba:{m}");
    ask(ACQUIRE, "a", 0);
    assert_heard("acquired@@a");
}

/* ---- What came in between ------------------------------------------------------------------- */

static void another_owner_is_respected_and_the_counter_stays(void **state)
{
    (void)state;
    use();
    server_do(&server, "SET simba:{m} jvm PX 60000");
    assert_string_equal(ask(ACQUIRE, "a", 0).owner, "jvm");
    assert_true(counter() == released);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
}

static void a_term_of_another_has_a_token_that_is_passed(void **state)
{
    struct host other;
    struct call theirs;

    (void)state;
    assert_int_equal(host_open(&other, server_url(&server, "")), SIMBA_OK);
    use();
    theirs = host_do(&other, ACQUIRE, "m", "b", 0);
    assert_string_equal(theirs.owner, "b");
    host_do(&other, RELEASE, "m", "b", theirs.revision);
    assert_true(ask(ACQUIRE, "a", 0).revision > theirs.revision);
    assert_true(host_close(&other));
}

static void a_counter_that_was_lost_or_spoilt_does_not_bring_the_token_back(void **state)
{
    static const char *const faults[] = {
        "DEL simba:{m}:fence",
        "SET simba:{m}:fence 5",
        "SET simba:{m}:fence nonsense",
        "SET simba:{m}:fence 9223372036854775807",
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(faults); i++) {
        struct call call;

        use();
        server_do(&server, faults[i]);
        call = ask(ACQUIRE, "a", 0);
        assert_true(call.revision > released);
        assert_true(counter() == call.revision);
        ask(RELEASE, "a", call.revision);
    }
}

static void a_counter_of_another_type_grants_nothing(void **state)
{
    struct call call;

    (void)state;
    use();
    server_do(&server, "DEL simba:{m}:fence");
    server_do(&server, "LPUSH simba:{m}:fence x");
    call = host_do(&host, ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_ESTORE);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

static bool is_connected(void *user)
{
    (void)user;
    return server_clients(&server, "simba") > 0;
}

/* The server may have lost what it knew, and the counter may have been ahead before. */
static void behind_a_new_connection_the_token_is_at_least_the_time(void **state)
{
    uint64_t now_us;

    (void)state;
    use();
    now_us = server_time_us(&server);
    assert_true(server_number(&server, "CLIENT KILL TYPE normal SKIPME yes") > 0);
    assert_true(host_run_until(&host, is_connected, NULL));
    assert_true(ask(ACQUIRE, "a", 0).revision >= now_us);
}

/* An attempt that was given up may come late, and put its contender into the queue. */
static void an_owner_that_stands_in_the_queue_does_not_tell_itself(void **state)
{
    uint64_t token = acquire_the_short_way().revision;

    (void)state;
    server_do(&server, "ZADD simba:{m}:contender 1 a 2 b");
    hear("simba:{m}:a");
    hear("simba:{m}:b");
    ask(RELEASE, "a", token);
    assert_heard("released@@a");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:contender"), 0);
}

/* ---- Rights --------------------------------------------------------------------------------- */

static const char *user_url(void)
{
    static char url[64];

    snprintf(url, sizeof url, "redis://simba:secret@127.0.0.1:%d", server.port);
    return url;
}

/* "a" has released; then the user "simba" has lost a right. */
static struct call acquire_without(const char *right)
{
    struct host other;
    struct call call;

    rights_grant(&server, "");
    assert_int_equal(host_open(&other, user_url()), SIMBA_OK);
    call = host_do(&other, ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_OK);
    released = call.revision;
    host_do(&other, RELEASE, "m", "a", released);
    rights_grant(&server, right);
    call = host_do(&other, ACQUIRE, "m", "a", 0);
    assert_true(host_close(&other));
    return call;
}

static void without_the_right_to_count_it_goes_the_long_way(void **state)
{
    struct call call = acquire_without("-incr");

    (void)state;
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "a");
    assert_true(call.revision > released + 1);
}

static void without_the_right_to_announce_nothing_is_granted(void **state)
{
    struct call call = acquire_without("-publish");

    (void)state;
    assert_int_equal(call.code, SIMBA_EDENIED);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(it_owns_for_the_whole_lease_with_the_next_token),
        CASE(it_is_announced_like_any_other),
        CASE(another_owner_is_respected_and_the_counter_stays),
        CASE(a_term_of_another_has_a_token_that_is_passed),
        CASE(a_counter_that_was_lost_or_spoilt_does_not_bring_the_token_back),
        CASE(a_counter_of_another_type_grants_nothing),
        CASE(behind_a_new_connection_the_token_is_at_least_the_time),
        CASE(an_owner_that_stands_in_the_queue_does_not_tell_itself),
        CASE(without_the_right_to_count_it_goes_the_long_way),
        CASE(without_the_right_to_announce_nothing_is_granted),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
