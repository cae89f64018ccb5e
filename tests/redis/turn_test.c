/*
 * turn_test.c - whose turn it is: the releaser lets the waiter that it has told go first and is
 * still answered with what the store has, a waiter keeps its place, and the dead do not keep
 * theirs.
 */
#include "backend/host.h"
#include "server.h"

#define ACQUIRE SIMBA_OP_ACQUIRE
#define RELEASE SIMBA_OP_RELEASE

/* Of which one must be in time: a releaser is held back for 20 ms, and the machine may be slow for
 * a while. */
#define TRIES 20

static struct server server;
static struct host host;
static redisContext *ear; /* makes waiters look alive */

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

static void hear(const char *id)
{
    redisReply *reply = redisCommand(ear, "SUBSCRIBE simba:{m}:%s", id);

    assert_non_null(reply);
    freeReplyObject(reply);
}

static struct call ask(enum simba_op op, const char *id, uint64_t revision)
{
    struct call call = host_do(&host, op, "m", id, revision);

    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

static double score_of(const char *id)
{
    return strtod(server_text(&server, "ZSCORE simba:{m}:contender %s", id), NULL);
}

static bool is_past(void *user)
{
    return (double)server_time_us(&server) / 1e6 > *(const double *)user;
}

static void let_pass(double seconds)
{
    double end_at = (double)server_time_us(&server) / 1e6 + seconds;

    assert_true(test_wait(is_past, &end_at));
}

/* ---- The releaser ---------------------------------------------------------------------------- */

/* "a" has released, and "b" was told to try. */
static void tell_to_try(void)
{
    struct call call = ask(ACQUIRE, "a", 0);

    hear("b");
    server_do(&server, "ZADD simba:{m}:contender 1700000000 b");
    ask(RELEASE, "a", call.revision);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 0);
}

/* "a" and another one compete right behind the release; returns whether the other one owns. */
static bool goes_first(const char *id, struct call calls[2])
{
    calls[0] = host_call(ACQUIRE, "m", "a", 0);
    calls[1] = host_call(ACQUIRE, "m", id, 0);
    tell_to_try();
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 2));
    assert_string_equal(calls[0].owner, calls[1].owner);
    return strcmp(calls[1].owner, id) == 0;
}

static void begin_anew(void)
{
    assert_int_equal(end(NULL), 0);
    assert_int_equal(begin(NULL), 0);
}

static void assert_goes_first(const char *id, struct call calls[2])
{
    bool first = goes_first(id, calls);

    for (int i = 1; i < TRIES && !first; i++) {
        begin_anew();
        first = goes_first(id, calls);
    }
    assert_true(first);
}

/* Otherwise a contender that releases and competes again at once would win each time. */
static void whoever_has_told_a_waiter_lets_it_go_first(void **state)
{
    struct call calls[2];

    (void)state;
    assert_goes_first("b", calls);
    assert_int_equal(calls[0].fence, calls[1].revision);
    assert_true(calls[0].transition_left_ms > HOST_LEASE_MS / 2);
}

/* Nobody is told that somebody owns who does not. */
static void where_the_waiter_does_not_come_the_releaser_owns_again(void **state)
{
    struct call call;

    (void)state;
    tell_to_try();
    call = ask(ACQUIRE, "a", 0);
    assert_string_equal(call.owner, "a");
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:contender"), 0);
}

/* It may have been answered without success: the server had hardly any time. */
static void an_attempt_that_cannot_wait_is_not_held_back(void **state)
{
    struct call calls[2] = {host_call(ACQUIRE, "m", "a", 0), host_call(ACQUIRE, "m", "c", 0)};

    (void)state;
    calls[0].request.timeout_ms = 3;
    tell_to_try();
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 2));
    assert_string_equal(calls[1].owner, "a");
}

static struct call ask_and_close(void)
{
    struct call call = host_call(ACQUIRE, "m", "a", 0);

    tell_to_try();
    host_submit(&host, &call, 1);
    assert_true(host_close(&host));
    assert_int_equal(call.answers, 1);
    assert_int_equal(host_open(&host, server_url(&server, "")), SIMBA_OK);
    return call;
}

static void an_attempt_that_is_held_back_is_answered_when_the_client_closes(void **state)
{
    struct call call = ask_and_close();

    (void)state;
    for (int i = 1; i < TRIES && call.code != SIMBA_EUNAVAILABLE; i++) {
        begin_anew();
        call = ask_and_close();
    }
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

/* Only the releaser competes too early. */
static void others_are_not_held_back(void **state)
{
    struct call calls[2];

    (void)state;
    assert_goes_first("c", calls);
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* A release takes the oldest waiter out of the queue; then somebody who came later is faster than
 * it. */
static void a_waiter_that_was_told_in_vain_keeps_its_place(void **state)
{
    double place;

    (void)state;
    server_do(&server, "SET simba:{m} jvm PX 60000");
    host.ops->listen(host.backend, "m", "b", true);
    ask(ACQUIRE, "b", 0);
    place = score_of("b");
    let_pass(0.1);
    server_do(&server, "ZPOPMIN simba:{m}:contender");
    server_do(&server, "SET simba:{m} faster PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") == place);
    server_do(&server, "DEL simba:{m}");
    assert_string_equal(ask(ACQUIRE, "b", 0).owner, "b");
    server_do(&server, "SET simba:{m} jvm PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") > place + 0.1); /* it waits anew */
    host.ops->listen(host.backend, "m", "b", false);
}

/* What counts is when it came to the store, not when it set out. */
static void a_way_that_took_long_gives_nobody_an_earlier_place(void **state)
{
    struct call call = host_call(ACQUIRE, "m", "b", 0);
    double place;

    (void)state;
    server_do(&server, "SET simba:{m} jvm PX 60000");
    host.ops->listen(host.backend, "m", "b", true);
    host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    server_pause(&server);
    host_submit(&host, &call, 1);
    test_pause_ms(200);
    server_go_on(&server);
    assert_true(host_wait(&host, &call, 1));
    place = score_of("b");
    server_do(&server, "ZPOPMIN simba:{m}:contender");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") == place);
    host.ops->listen(host.backend, "m", "b", false);
}

/* ---- The dead -------------------------------------------------------------------------------- */

static void fill_queue(void)
{
    server_do(&server, "SET simba:{m} crashed PX 60000");
    server_do(&server, "ZADD simba:{m}:contender 1 dead-1 2 alive 3 dead-2");
    hear("alive");
}

/* Where owners only crash no release takes them out of the queue. */
static void a_winner_that_came_in_its_turn_takes_the_dead_out_of_the_queue(void **state)
{
    (void)state;
    fill_queue();
    assert_int_equal(host_place(&host, "m", "a"), 4);
    server_do(&server, "DEL simba:{m}");
    assert_int_equal(host_place(&host, "m", "a"), 0);
    assert_string_equal(server_text(&server, "GET simba:{m}"), "a");
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 1);
    assert_true(score_of("alive") == 2);
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

/* Nor a winner that did not wait. */
static void whoever_takes_no_turns_does_not_look_for_the_dead(void **state)
{
    (void)state;
    server_do(&server, "CONFIG RESETSTAT");
    fill_queue();
    ask(ACQUIRE, "a", 0);
    server_do(&server, "DEL simba:{m}");
    assert_string_equal(ask(ACQUIRE, "a", 0).owner, "a");
    server_do(&server, "DEL simba:{m}");
    assert_int_equal(host_place(&host, "m", "b"), 0);
    assert_int_equal(calls_of("pubsub|numsub"), 0);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 3);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(whoever_has_told_a_waiter_lets_it_go_first),
        CASE(where_the_waiter_does_not_come_the_releaser_owns_again),
        CASE(an_attempt_that_cannot_wait_is_not_held_back),
        CASE(an_attempt_that_is_held_back_is_answered_when_the_client_closes),
        CASE(others_are_not_held_back),
        CASE(a_waiter_that_was_told_in_vain_keeps_its_place),
        CASE(a_way_that_took_long_gives_nobody_an_earlier_place),
        CASE(a_winner_that_came_in_its_turn_takes_the_dead_out_of_the_queue),
        CASE(whoever_takes_no_turns_does_not_look_for_the_dead),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
