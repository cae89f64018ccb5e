/*
 * queue_test.c - whose turn it is: a release reserves the mutex for the first waiter that is alive,
 * others leave it alone until the reservation ends, waiters of the JVM library stand in the same
 * queue, and the dead and the owner do not stay in it.
 */
#include "backend/host.h"
#include "server.h"

#define ACQUIRE SIMBA_OP_ACQUIRE
#define RELEASE SIMBA_OP_RELEASE
#define RELEASED SIMBA_NOTICE_RELEASED
#define RESERVED SIMBA_NOTICE_RESERVED

#define RESERVE_MS 900 /* long, because machines are slow at times; a second is the most */
#define SHORT_MS 30    /* a reservation that a waiter misses */

static struct server server;
static struct host host;
static redisContext *ear; /* makes waiters look alive */

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

static void hear(const char *id)
{
    redisReply *reply = redisCommand(ear, "SUBSCRIBE simba:{m}:%s", id);

    assert_non_null(reply);
    freeReplyObject(reply);
}

/* The next message that the ear gets; "" where there is none. */
static const char *heard(void)
{
    static char text[128];
    redisReply *reply = redisCommand(ear, "PING");

    snprintf(text, sizeof text, "%s",
             strcmp(reply->element[0]->str, "message") == 0 ? reply->element[2]->str : "");
    freeReplyObject(reply);
    return text;
}

static struct call ask_with(enum simba_op op, const char *id, uint64_t revision, int64_t reserve_ms)
{
    struct call call = host_call(op, "m", id, revision);

    call.request.reserve_ms = reserve_ms;
    call.request.asks_place = op == ACQUIRE;
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

static struct call ask(enum simba_op op, const char *id, uint64_t revision)
{
    return ask_with(op, id, revision, RESERVE_MS);
}

static void assert_owns(const char *id)
{
    assert_string_equal(ask(ACQUIRE, id, 0).owner, id);
    assert_string_equal(server_text(&server, "GET simba:{m}"), id);
}

static void assert_must_wait(const char *id, int64_t place)
{
    struct call call = ask(ACQUIRE, id, 0);

    assert_string_equal(call.owner, "");
    assert_in_range(call.reserved_left_ms, 1, RESERVE_MS);
    assert_int_equal(call.place, place);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

static void assert_reserved_for(const char *id)
{
    assert_string_equal(server_text(&server, "GET simba:{m}:reserved"), id);
}

/* Loses an attempt, and listens. */
static void wait_as(const char *id)
{
    host.ops->listen(host.backend, "m", id, true);
    ask(ACQUIRE, id, 0);
    host_forget_notices(&host);
    while (server_number(&server, "PUBLISH simba:{m}:%s hello", id) == 0)
        host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
}

static double score_of(const char *id)
{
    return strtod(server_text(&server, "ZSCORE simba:{m}:contender %s", id), NULL);
}

static long long waiters(void)
{
    return server_number(&server, "ZCARD simba:{m}:contender");
}

/* ---- Reservations ---------------------------------------------------------------------------- */

/* "a" has released, "b" and "c" wait in this order. */
static void release_to_b(int64_t reserve_ms)
{
    struct call call = ask(ACQUIRE, "a", 0);

    wait_as("b");
    wait_as("c");
    ask_with(RELEASE, "a", call.revision, reserve_ms);
}

static void a_release_is_for_the_first_in_line_and_no_newcomer_barges(void **state)
{
    release_to_b(RESERVE_MS);
    assert_true(host_wait_notice(&host, RELEASED, "m", "b"));
    assert_true(host_wait_notice(&host, RESERVED, "m", "c"));
    assert_reserved_for("b");
    assert_must_wait("c", 1);
    for (int i = 0; i < 20; i++)
        assert_must_wait("a", 2);
    assert_must_wait("newcomer", 3);
    assert_owns("b");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved"), 0);
    assert_string_equal(ask(ACQUIRE, "a", 0).owner, "b");
    assert_int_equal(waiters(), 3);
}

/* "b" does not come. */
static void a_reservation_that_is_over_binds_nobody(void **state)
{
    release_to_b(SHORT_MS);
    while (server_number(&server, "EXISTS simba:{m}:reserved") != 0)
        test_pause_ms(1);
    assert_owns("c");
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 1);
}

/* "c" owns, because "b" was late. */
static struct call let_b_be_late(void)
{
    release_to_b(SHORT_MS);
    while (server_number(&server, "EXISTS simba:{m}:reserved") != 0)
        test_pause_ms(1);
    return ask(ACQUIRE, "c", 0);
}

/* With its old place alone one that is always late would cost the others a reservation at each
 * release, and never own. */
static void a_waiter_that_was_late_has_more_time_when_it_comes_again(void **state)
{
    struct call held = let_b_be_late();

    assert_int_equal(ask(ACQUIRE, "b", 0).place, 1);
    assert_string_equal(ask(ACQUIRE, "a", 0).owner, "c"); /* others come meanwhile */
    ask_with(RELEASE, "c", held.revision, SHORT_MS);
    assert_reserved_for("b");
    assert_in_range(ask(ACQUIRE, "a", 0).reserved_left_ms, SHORT_MS + 1, 1000);
    assert_owns("b");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved"), 0);
}

/* One that is always late costs the others a second for each time that it was at the front, and not
 * for each release. */
static void a_waiter_that_misses_the_longer_reservation_too_goes_to_the_end(void **state)
{
    struct call held = let_b_be_late();
    double place;

    assert_int_equal(ask(ACQUIRE, "b", 0).place, 1);
    place = score_of("b");
    wait_as("d");
    ask_with(RELEASE, "c", held.revision, SHORT_MS);
    assert_reserved_for("b");
    while (server_number(&server, "EXISTS simba:{m}:reserved") != 0)
        test_pause_ms(10);
    held = ask(ACQUIRE, "a", 0);
    assert_string_equal(held.owner, "a");
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 2);
    assert_true(score_of("b") > place);
    ask(RELEASE, "a", held.revision);
    assert_reserved_for("d");
    assert_owns("d");
    ask(ACQUIRE, "b", 0);
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 1);
}

/* It came in time; another has asked meanwhile. */
static void a_late_waiter_that_the_jvm_overtakes_keeps_its_place(void **state)
{
    struct call held = let_b_be_late();
    double place;

    ask(ACQUIRE, "b", 0);
    place = score_of("b");
    wait_as("d");
    ask_with(RELEASE, "c", held.revision, SHORT_MS);
    server_do(&server, "SET simba:{m} jvm PX 60000");
    assert_int_equal(ask(ACQUIRE, "d", 0).place, 1);
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 1);
    assert_true(score_of("b") == place);
}

/* The twin: it hangs, so nothing is reserved for it again. */
static void a_waiter_that_does_not_come_again_costs_one_reservation(void **state)
{
    struct call held = let_b_be_late();

    ask_with(RELEASE, "c", held.revision, SHORT_MS);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved"), 0);
    assert_owns("a");
}

static void a_waiter_that_leaves_while_it_is_reserved_for_passes_it_on(void **state)
{
    release_to_b(RESERVE_MS);
    host_forget_notices(&host);
    ask(RELEASE, "b", 0);
    assert_reserved_for("c");
    assert_true(host_wait_notice(&host, RELEASED, "m", "c"));
    assert_must_wait("a", 1);
    ask(RELEASE, "a", 0);
    assert_reserved_for("c");
    ask(RELEASE, "c", 0);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved simba:{m}:contender"), 0);
    assert_owns("a");
}

static void without_reservations_newcomers_win(void **state)
{
    struct call call;

    release_to_b(RESERVE_MS);
    call = ask_with(ACQUIRE, "barger", 0, 0);
    assert_string_equal(call.owner, "barger");
    server_do(&server, "DEL simba:{m}:reserved");
    host_forget_notices(&host);
    ask_with(RELEASE, "barger", call.revision, 0);
    assert_true(host_wait_notice(&host, RELEASED, "m", "c"));
    assert_int_equal(host_notices(&host, RESERVED, "m", NULL), 0);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved"), 0);
    assert_owns("a");
}

/* Anybody that may write the keys could stop a mutex for good; a mistake must not. */
static void what_cannot_be_a_reservation_is_none(void **state)
{
    server_do(&server, "SET simba:{m}:reserved somebody");
    assert_owns("a");
    server_do(&server, "DEL simba:{m}");
    server_do(&server, "SET simba:{m}:reserved somebody PX 3600000");
    assert_owns("b");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}:reserved"), 0);
    server_do(&server, "SET simba:{m}:reserved somebody PX %d", RESERVE_MS);
    assert_owns("b"); /* again: it owns */
}

/* A full server lets nobody in, but takes back what it has given, and tells the next one. */
static void a_full_server_releases_and_reserves(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);

    wait_as("b");
    server_do(&server, "CONFIG SET maxmemory 1");
    ask(RELEASE, "a", call.revision);
    server_do(&server, "CONFIG SET maxmemory 0");
    assert_true(host_wait_notice(&host, RELEASED, "m", "b"));
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    assert_reserved_for("b");
}

/* ---- Places ---------------------------------------------------------------------------------- */

/* A release takes the oldest waiter out of the queue; then somebody who came later is faster. */
static void a_waiter_that_was_told_in_vain_keeps_its_place(void **state)
{
    double place;

    server_do(&server, "SET simba:{m} jvm PX 60000");
    wait_as("b");
    place = score_of("b");
    server_do(&server, "ZPOPMIN simba:{m}:contender");
    server_do(&server, "SET simba:{m} faster PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") == place);
    server_do(&server, "DEL simba:{m}");
    assert_owns("b");
    server_do(&server, "SET simba:{m} jvm PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") > place); /* it waits anew */
}

/* What counts is when it came to the store, not when it set out. */
static void a_way_that_took_long_gives_nobody_an_earlier_place(void **state)
{
    struct call call = host_call(ACQUIRE, "m", "b", 0);
    double place;

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
}

static void the_queue_tells_since_when_its_waiters_wait(void **state)
{
    int64_t begin_ms = simba_now_ms();
    struct call queue;

    server_do(&server, "SET simba:{m} jvm PX 60000");
    ask(ACQUIRE, "b", 0);
    server_do(&server, "ZADD simba:{m}:contender %.6f old -5 odd",
              (double)server_time_us(&server) / 1e6 - 60);
    queue = host_do(&host, SIMBA_OP_QUEUE, "m", NULL, 0);
    assert_int_equal(queue.list_count, 3);
    assert_int_equal(queue.list[0].owner.acquired_at_ms, 0); /* nobody came before 1970 */
    assert_in_range(begin_ms - queue.list[1].owner.acquired_at_ms, 50000, 70000);
    assert_in_range(queue.list[2].owner.acquired_at_ms - begin_ms + 1000, 0, 10000);
}

/* ---- The JVM --------------------------------------------------------------------------------- */

/* It scores whole seconds, cut off; ours must not always come behind it. */
static void a_score_is_half_a_second_before_the_time(void **state)
{
    double time_s = (double)server_time_us(&server) / 1e6;

    server_do(&server, "SET simba:{m} jvm PX 60000");
    ask(ACQUIRE, "b", 0);
    assert_true(score_of("b") >= time_s - 0.5);
    assert_true(score_of("b") <= (double)server_time_us(&server) / 1e6 - 0.5);
}

/* Nobody knows what a contender of the JVM makes of a word that it does not know. */
static void a_waiter_of_the_jvm_hears_its_own_words_only(void **state)
{
    struct call call = ask(ACQUIRE, "a", 0);

    hear("jvm");
    server_do(&server, "ZADD simba:{m}:contender 1000000000.5 b 1000000001 jvm 1000000002.5 c");
    hear("b");
    hear("c");
    ask(RELEASE, "a", call.revision);
    assert_string_equal(heard(), "released@@a");
    assert_string_equal(heard(), "reserved@@b"); /* to "c": it is the next of ours */
    assert_string_equal(heard(), "");
}

static bool is_over(void *since_ms)
{
    return test_now_ms() - *(int64_t *)since_ms > RESERVE_MS + 5;
}

#define FEW 16 /* behind the first, so that each release tells the last */

/* "b" is the first, "c" the second, and "e" the last that listens. */
static struct call own_before(int behind_first)
{
    struct call call = ask(ACQUIRE, "a", 0);

    server_do(&server, "ZADD simba:{m}:contender 1000000000.5 b 1000000001.5 c 1000000100.5 d"
                       " 1000000101.5 e 1000000102 jvm");
    for (int i = 4; i < behind_first; i++)
        server_do(&server, "ZADD simba:{m}:contender 10000000%d.5 d%d", 10 + i, i);
    hear("b");
    hear("c");
    hear("e");
    hear("jvm");
    return call;
}

/* In case the first two hang: by the first release of each span of the clock that is as long as a
 * reservation. */
static void in_a_crowd_the_last_hears_of_a_release_now_and_then(void **state)
{
    struct call call = own_before(FEW + 1);
    int64_t since_ms = test_now_ms();

    assert_true(test_wait(is_over, &since_ms));
    ask(RELEASE, "a", call.revision);
    assert_string_equal(heard(), "released@@a");
    assert_string_equal(heard(), "reserved@@b");
    assert_string_equal(heard(), "standby@@b");
    assert_string_equal(heard(), "");
}

/* Nor of a term that lies within one such span. */
static void in_a_crowd_the_last_does_not_hear_of_each_release(void **state)
{
    struct call call = own_before(FEW + 1);

    ask_with(RELEASE, "a", call.revision, INT64_C(1) << 40);
    assert_string_equal(heard(), "released@@a");
    assert_string_equal(heard(), "reserved@@b");
    assert_string_equal(heard(), "");
}

static void the_last_of_few_hears_of_each_release(void **state)
{
    struct call call = own_before(FEW);

    ask_with(RELEASE, "a", call.revision, INT64_C(1) << 40);
    assert_string_equal(heard(), "released@@a");
    assert_string_equal(heard(), "reserved@@b");
    assert_string_equal(heard(), "standby@@b");
    assert_string_equal(heard(), "");
}

/* It stays in the queue when it wins, and would wake itself when it releases. */
static void an_owner_is_not_in_its_own_queue(void **state)
{
    struct call queue;

    server_do(&server, "SET simba:{m} jvm PX 60000");
    server_do(&server, "ZADD simba:{m}:contender 1700000000 jvm 1700000001 other");
    queue = host_do(&host, SIMBA_OP_QUEUE, "m", NULL, 0);
    assert_int_equal(queue.list_count, 1);
    assert_string_equal(queue.list[0].owner.id, "other");
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).waiters, 1);
    ask(ACQUIRE, "a", 0);
    assert_string_equal(server_text(&server, "ZSCORE simba:{m}:contender jvm"), "");
    assert_int_equal(waiters(), 2);
}

/* The one that it was reserved for has won, and released; it knows nothing of reservations. */
static void a_reservation_that_the_jvm_has_used_binds_nobody_that_it_wakes(void **state)
{
    server_do(&server, "SET simba:{m} jvm PX 60000");
    wait_as("b");
    server_do(&server, "SET simba:{m}:reserved jvm PX %d", RESERVE_MS);
    server_do(&server, "DEL simba:{m}");
    assert_must_wait("newcomer", 2);
    server_do(&server, "ZPOPMIN simba:{m}:contender");
    assert_owns("b");
}

/* ---- The dead -------------------------------------------------------------------------------- */

/* Where an owner stays no release takes them out of the queue. */
static void a_waiter_that_comes_again_takes_the_dead_out_of_the_queue(void **state)
{
    server_do(&server, "SET simba:{m} leader PX 60000");
    server_do(&server, "ZADD simba:{m}:contender 1.5 dead-1 2.5 alive 3.5 dead-2 4 jvm");
    hear("alive");
    host.ops->listen(host.backend, "m", "b", true);
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 5);
    assert_int_equal(ask(ACQUIRE, "b", 0).place, 3);
    assert_true(score_of("alive") == 2.5);
    assert_true(score_of("jvm") == 4); /* it may listen at any node of a cluster */
    assert_int_equal(waiters(), 3);
}

static void a_queue_of_the_dead_ends_by_itself(void **state)
{
    server_do(&server, "SET simba:{m} leader PX 100000");
    ask(ACQUIRE, "b", 0);
    assert_in_range(server_number(&server, "PTTL simba:{m}:contender"), 100001, 160000);
    server_do(&server, "PERSIST simba:{m}");
    ask(ACQUIRE, "b", 0);
    assert_in_range(server_number(&server, "PTTL simba:{m}:contender"), HOST_LEASE_MS,
                    HOST_LEASE_MS + 60000);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_release_is_for_the_first_in_line_and_no_newcomer_barges),
        CASE(a_reservation_that_is_over_binds_nobody),
        CASE(a_waiter_that_was_late_has_more_time_when_it_comes_again),
        CASE(a_waiter_that_misses_the_longer_reservation_too_goes_to_the_end),
        CASE(a_late_waiter_that_the_jvm_overtakes_keeps_its_place),
        CASE(a_waiter_that_does_not_come_again_costs_one_reservation),
        CASE(a_waiter_that_leaves_while_it_is_reserved_for_passes_it_on),
        CASE(without_reservations_newcomers_win),
        CASE(what_cannot_be_a_reservation_is_none),
        CASE(a_full_server_releases_and_reserves),
        CASE(a_waiter_that_was_told_in_vain_keeps_its_place),
        CASE(a_way_that_took_long_gives_nobody_an_earlier_place),
        CASE(the_queue_tells_since_when_its_waiters_wait),
        CASE(a_score_is_half_a_second_before_the_time),
        CASE(a_waiter_of_the_jvm_hears_its_own_words_only),
        CASE(in_a_crowd_the_last_hears_of_a_release_now_and_then),
        CASE(in_a_crowd_the_last_does_not_hear_of_each_release),
        CASE(the_last_of_few_hears_of_each_release),
        CASE(an_owner_is_not_in_its_own_queue),
        CASE(a_reservation_that_the_jvm_has_used_binds_nobody_that_it_wakes),
        CASE(a_waiter_that_comes_again_takes_the_dead_out_of_the_queue),
        CASE(a_queue_of_the_dead_ends_by_itself),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
