/*
 * grant_test.c - a release hands the mutex on: the waiter owns without asking, for no longer than the store says, and
 * what it cannot be sure of it asks about.
 */
#include "pair.h"

#define KEPT_WAITING_MS 300
#define HELD_BACK_MS 20 /* whoever tells a waiter to try, and does not hand over, is */
#define TRIES 20        /* of which one must be as fast: the machine may be slow for a while */

/* ---- The hand-over -------------------------------------------------------------------------- */

static void a_waiter_that_was_handed_the_mutex_owns_without_asking(void **state)
{
    struct call first;
    struct call call;

    (void)state;
    first = pair_hand_over();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > first.revision);
    assert_int_equal(call.revision, pair_fence());
    assert_int_equal(call.fence, call.revision);
    assert_int_equal(call.transition_left_ms, HOST_LEASE_MS);
    assert_int_equal(call.ttl_left_ms, HOST_TTL_MS);
    assert_true(call.as_of_ms > 0);
    assert_int_equal(pair_script_calls(), 1); /* the release */
    assert_int_equal(pair_ask(&pair.waiter, GUARD, "b", call.revision).revision, call.revision);
    assert_string_equal(pair_ask(&pair.waiter, RELEASE, "b", call.revision).owner, "");
    assert_int_equal(server_number(&pair.server, "EXISTS simba:{m}"), 0);
    pair_stop_listening();
}

/* What is handed over is handed over once. */
static void whoever_asks_twice_asks_the_store(void **state)
{
    struct call call;

    (void)state;
    pair_hand_over();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    pair_ask(&pair.owner, ACQUIRE, "a", 0);
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "b", 0).owner, "a");
    pair_stop_listening();
}

/* From the hand-over to the answer that the releaser has, which competes again at once. */
static int64_t time_of_answer(void)
{
    struct call call;
    int64_t begin_ms;
    int64_t end_ms;

    pair_hand_over();
    begin_ms = simba_now_ms();
    call = pair_ask(&pair.owner, ACQUIRE, "a", 0);
    end_ms = simba_now_ms();
    assert_string_equal(call.owner, "b");
    pair_stop_listening();
    return end_ms - begin_ms;
}

static void the_releaser_need_not_let_anybody_go_first(void **state)
{
    int64_t took_ms = time_of_answer();

    for (int i = 1; i < TRIES && took_ms >= HELD_BACK_MS; i++) {
        assert_int_equal(pair_end(state), 0);
        assert_int_equal(pair_begin(state), 0);
        took_ms = time_of_answer();
    }
    assert_true(took_ms < HELD_BACK_MS);
}

static void the_next_in_the_queue_is_handed_the_mutex_in_turn(void **state)
{
    struct call call = pair_own_and_have_b_wait();

    (void)state;
    pair_wait_as("c");
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_await_message();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    server_do(&pair.server, "CONFIG RESETSTAT");
    pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    pair_assert_owner("c");
    assert_true(host_wait_notice(&pair.waiter, SIMBA_NOTICE_RELEASED, "m", "c"));
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "c", 0).owner, "c");
    assert_int_equal(pair_script_calls(), 1);
    pair.waiter.ops->listen(pair.waiter.backend, "m", "c", false);
    pair_stop_listening();
}

/* So that the server writes to the waiter first. Whoever has no waiters sends nothing but its releases. */
static void a_mutex_that_was_handed_on_is_released_behind_a_ping(void **state)
{
    struct call call;

    (void)state;
    call = pair_ask(&pair.owner, ACQUIRE, "a", 0);
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_hand_over();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    assert_int_equal(pair_calls("ping"), 0);
    call = pair_ask(&pair.owner, ACQUIRE, "a", 0);
    assert_string_equal(pair_ask(&pair.owner, RELEASE, "a", call.revision).owner, "");
    assert_int_equal(pair_calls("ping"), 1);
    call = host_do(&pair.owner, ACQUIRE, "other", "a", 0);
    host_do(&pair.owner, RELEASE, "other", "a", call.revision);
    assert_int_equal(pair_calls("ping"), 1);
    pair_stop_listening();
}

/* ---- Until when it holds -------------------------------------------------------------------- */

/* The waiter's loop stands still, and the message waits in its socket. */
static void a_message_that_comes_late_does_not_stretch_the_lease(void **state)
{
    struct call call = pair_own_and_have_b_wait();
    int64_t released_ms;

    (void)state;
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    released_ms = simba_now_ms();
    pair_let_pass(KEPT_WAITING_MS);
    pair_await_message();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(pair_script_calls(), 1);
    assert_true(call.as_of_ms <= released_ms);
    assert_true(call.as_of_ms > released_ms - HOST_LEASE_MS / 4);
    pair_stop_listening();
}

/* The loop stands still while the attempt that tells the time is answered. */
static void a_reply_that_comes_late_does_not_make_the_grant_younger(void **state)
{
    struct call call = pair_ask(&pair.owner, ACQUIRE, "a", 0);
    struct call lost = host_call(ACQUIRE, "m", "b", 0);
    int64_t released_ms;

    (void)state;
    pair_wait_as("b");
    host_submit(&pair.waiter, &lost, 1);
    pair_let_pass(KEPT_WAITING_MS);
    assert_true(host_wait(&pair.waiter, &lost, 1));
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    released_ms = simba_now_ms();
    pair_let_pass(KEPT_WAITING_MS);
    pair_await_message();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.as_of_ms > 0);
    assert_true(call.as_of_ms <= released_ms);
    pair_stop_listening();
}

static void a_grant_of_the_future_counts_from_now(void **state)
{
    struct call call;

    (void)state;
    pair_own_and_have_b_wait();
    server_do(&pair.server,
              "PUBLISH simba:{m}:b released@@a@@handed@@9000000000000000@@%llu@@%d@@9@@0",
              (unsigned long long)server_time_us(&pair.server) + 5000000, HOST_LEASE_MS);
    pair_await_message();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.as_of_ms > 0 && call.as_of_ms <= simba_now_ms());
    pair_stop_listening();
}

static void a_lease_of_which_half_is_over_is_asked_for_anew(void **state)
{
    struct call call = pair_own_and_have_b_wait();
    uint64_t token;

    (void)state;
    call = host_call(RELEASE, "m", "a", call.revision);
    call.request.ttl_ms = call.request.transition_ms = 500;
    host_submit(&pair.owner, &call, 1);
    assert_true(host_wait(&pair.owner, &call, 1));
    token = pair_fence();
    pair_let_pass(600);
    pair_await_message();
    call = host_call(ACQUIRE, "m", "b", 0);
    call.request.ttl_ms = call.request.transition_ms = 500;
    host_submit(&pair.waiter, &call, 1);
    assert_true(host_wait(&pair.waiter, &call, 1));
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > token);
    assert_int_equal(call.as_of_ms, 0);
    pair_stop_listening();
}

static void assert_own_lease(int64_t owners_ttl_ms, int64_t waiters_ttl_ms)
{
    struct call call = pair_own_and_have_b_wait();
    long long left_ms;

    pair_ask_for(&pair.owner, RELEASE, "a", call.revision, owners_ttl_ms);
    pair_await_message();
    call = pair_ask_for(&pair.waiter, ACQUIRE, "b", 0, waiters_ttl_ms);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.transition_left_ms, waiters_ttl_ms + HOST_TRANSITION_MS);
    left_ms = server_number(&pair.server, "PTTL simba:{m}");
    assert_in_range(left_ms, waiters_ttl_ms + HOST_TRANSITION_MS - 1000,
                    waiters_ttl_ms + HOST_TRANSITION_MS);
    assert_int_equal(call.revision, pair_fence());
    pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    pair_stop_listening();
}

static void a_waiter_with_another_lease_than_the_owner_gets_its_own(void **state)
{
    (void)state;
    assert_own_lease(2000, 10000);
    assert_own_lease(10000, 2000);
}

/* ---- What is not certain -------------------------------------------------------------------- */

/* It was handed the mutex while its own attempt was under way, which began a newer term; that one is over. No attempt
 * has lost since, so that nothing but the token tells the message from a new one. */
static void a_message_of_an_older_term_is_one_of_the_past(void **state)
{
    struct call call = pair_own_and_have_b_wait();
    char text[256];

    (void)state;
    pair_hear_b();
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_overhear(text, sizeof text);
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_true(call.revision > strtoull(strstr(text, "@@handed@@") + 10, NULL, 10));
    pair_await_message();
    pair_ask(&pair.waiter, RELEASE, "b", call.revision);
    pair_ask(&pair.owner, ACQUIRE, "a", 0);
    host_forget_notices(&pair.waiter);
    server_do(&pair.server, "PUBLISH simba:{m}:b %s", text);
    pair_await_message();
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "b", 0).owner, "a");
    pair_stop_listening();
}

static void a_message_that_makes_no_sense_is_only_a_reason_to_look(void **state)
{
    static const char *const texts[] = {
        "released@@a",
        "released@@",
        "released@@a@@handed@@",
        "released@@a@@handed@@@@@@",
        "released@@a@@handed@@9000000000000000@@9000000000000000",
        "released@@a@@handed@@9000000000000000@@9000000000000000@@30000",
        "released@@a@@handed@@x@@9000000000000000@@30000@@9@@0",
        "released@@a@@handed@@-1@@9000000000000000@@30000@@9@@0",
        "released@@a@@handed@@0@@9000000000000000@@30000@@9@@0",
        "released@@a@@handed@@9000000000000000@@9000000000000000@@0@@9@@0",
        "released@@a@@handed@@9000000000000000@@9000000000000000@@30000@@9@@0x",
        "released@@a@@handed@@9000000000000000@@9000000000000000@@99999999999999999999@@9@@0",
        "released@@a@@handed@@99999999999999999999@@9000000000000000@@30000@@9@@0",
        "released@@a@@handed@@9000000000000000@@9000000000000000@@30000@@9@@0", /* so late it is not */
        "released@@a@@handed@@9000000000000000@@1@@30000@@9@@0",                /* long ago */
        "released@@handed@@1@@2@@3@@9@@0",
        "released@@a@@9000000000000000@@9000000000000000@@30000@@9@@0",
    };

    (void)state;
    pair_own_and_have_b_wait();
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct call call;

        host_forget_notices(&pair.waiter);
        server_do(&pair.server, "PUBLISH simba:{m}:b %s", texts[i]);
        pair_await_message();
        call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
        if (strcmp(call.owner, "a") != 0)
            fail_msg("believed: %s", texts[i]);
    }
    pair_stop_listening();
}

/* The text of an id may look like anything. */
static void an_id_that_looks_like_a_hand_over_hands_nothing_over(void **state)
{
    (void)state;
    pair_own_and_have_b_wait();
    server_do(&pair.server,
              "PUBLISH simba:{m}:b released@@x@@handed@@9000000000000000@@%llu@@30000@@9@@0@@y",
              (unsigned long long)server_time_us(&pair.server));
    pair_await_message();
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "b", 0).owner, "a");
    pair_stop_listening();
}

/* Another client loses, is subscribed, and loses again: as every contender does, and then it knows the time. */
static void wait_elsewhere(struct host *host, const char *mutex, const char *id)
{
    host->ops->listen(host->backend, mutex, id, true);
    assert_string_not_equal(host_do(host, ACQUIRE, mutex, id, 0).owner, id);
    assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "", ""));
    assert_string_not_equal(host_do(host, ACQUIRE, mutex, id, 0).owner, id);
}

/* All databases have their channels in common. */
static void what_is_handed_over_in_one_database_is_not_in_another(void **state)
{
    struct host other;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&other, server_url(&pair.server, "/1")), SIMBA_OK);
    host_do(&other, ACQUIRE, "m", "owner-there", 0);
    wait_elsewhere(&other, "m", "b");
    call = pair_own_and_have_b_wait();
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("b");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_string_equal(host_do(&other, ACQUIRE, "m", "b", 0).owner, "owner-there");
    other.ops->listen(other.backend, "m", "b", false);
    assert_true(host_close(&other));
    pair_stop_listening();
}

static void a_hand_over_in_another_database_than_the_first_needs_no_asking(void **state)
{
    struct host there[2];
    struct call call;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(host_open(&there[i], server_url(&pair.server, "/1")), SIMBA_OK);
    call = host_do(&there[0], ACQUIRE, "m", "a", 0);
    wait_elsewhere(&there[1], "m", "b");
    host_do(&there[0], RELEASE, "m", "a", call.revision);
    assert_true(host_wait_notice(&there[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    server_do(&pair.server, "CONFIG RESETSTAT");
    assert_string_equal(host_do(&there[1], ACQUIRE, "m", "b", 0).owner, "b");
    assert_int_equal(pair_script_calls(), 0);
    there[1].ops->listen(there[1].backend, "m", "b", false);
    for (size_t i = 0; i < 2; i++)
        assert_true(host_close(&there[i]));
}

/* simba:{m}:x}:y is the channel of "x}:y" at "m" and of "y" at "m}:x". */
static void what_is_handed_to_a_namesake_on_the_same_channel_is_not_ours(void **state)
{
    struct host other;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&other, server_url(&pair.server, "")), SIMBA_OK);
    host_do(&other, ACQUIRE, "m}:x", "owner-there", 0);
    wait_elsewhere(&other, "m}:x", "y");
    call = pair_ask(&pair.owner, ACQUIRE, "a", 0);
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "x}:y", 0).owner, "a");
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("x}:y");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m}:x", "y"));
    assert_string_equal(host_do(&other, ACQUIRE, "m}:x", "y", 0).owner, "owner-there");
    other.ops->listen(other.backend, "m}:x", "y", false);
    assert_true(host_close(&other));
}

/* The counter is an hour ahead of the clock, which is what a clock that went back leaves. */
static void a_token_grows_also_when_the_clock_went_back(void **state)
{
    unsigned long long ahead = (unsigned long long)server_time_us(&pair.server) + 3600000000;
    struct call first;
    struct call call;

    (void)state;
    server_do(&pair.server, "SET simba:{m}:fence %llu", ahead);
    first = pair_hand_over();
    assert_true(first.revision > ahead);
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.revision, first.revision + 1);
    assert_int_equal(call.revision, pair_fence());
    assert_int_equal(pair_script_calls(), 1); /* the release */
    pair_stop_listening();
}

/* ---- Who may not or does not hand over ------------------------------------------------------ */

/* The script has made "b" the owner when it is not permitted to tell it so. */
static void what_the_waiter_cannot_be_told_it_is_not_handed(void **state)
{
    struct host other;
    struct call call;
    char url[128];

    (void)state;
    server_do(&pair.server, "ACL SETUSER mute on >secret ~* +@all resetchannels &simba:{m}");
    snprintf(url, sizeof url, "redis://mute:secret@127.0.0.1:%d", pair.server.port);
    assert_int_equal(host_open(&other, url), SIMBA_OK);
    call = pair_own_and_have_b_wait();
    call = host_do(&other, RELEASE, "m", "a", call.revision);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
    assert_true(pair_is_free(NULL));
    pair_hear_all();
    call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
    assert_int_equal(call.as_of_ms, 0);
    assert_int_equal(call.revision, pair_fence());
    pair_assert_owner("b");
    assert_true(host_close(&other));
    pair_stop_listening();
}

#define WAITS_FOR_REPLICAS "?wait-replicas=1&wait-timeout=300ms"

static void a_client_whose_leases_need_replicas_hands_nothing_on(void **state)
{
    struct host other;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&other, server_url(&pair.server, WAITS_FOR_REPLICAS)), SIMBA_OK);
    call = pair_own_and_have_b_wait();
    assert_int_equal(host_do(&other, RELEASE, "m", "a", call.revision).code, SIMBA_OK);
    assert_true(pair_is_free(NULL));
    pair_await_message();
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, "b", 0).owner, "b");
    assert_true(host_close(&other));
    pair_stop_listening();
}

/* There is no replica that could have what it is handed, so it asks, is refused, and gives it back. */
static void a_client_whose_leases_need_replicas_believes_no_message(void **state)
{
    struct host other;
    struct call call = pair_ask(&pair.owner, ACQUIRE, "a", 0);

    (void)state;
    assert_int_equal(host_open(&other, server_url(&pair.server, WAITS_FOR_REPLICAS)), SIMBA_OK);
    wait_elsewhere(&other, "m", "b");
    host_forget_notices(&other);
    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("b");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_not_equal(host_do(&other, ACQUIRE, "m", "b", 0).code, SIMBA_OK);
    assert_true(pair_is_free(NULL));
    other.ops->listen(other.backend, "m", "b", false);
    assert_true(host_close(&other));
}

/* ---- Connections ---------------------------------------------------------------------------- */

static bool has_two_connections(void *user)
{
    (void)user;
    return server_clients(&pair.server, "waiter") == 2;
}

static bool is_answered_again(void *user)
{
    (void)user;
    return host_do(&pair.waiter, READ, "m", NULL, 0).code == SIMBA_OK;
}

/* The server behind a new connection may be another one, with another clock. */
static void a_connection_that_was_made_anew_knows_no_time(void **state)
{
    static const char *const types[] = {"normal", "pubsub"};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        struct call call = pair_own_and_have_b_wait();
        uint64_t token;

        pair_kill_connection(types[i]);
        assert_true(host_run_until(&pair.waiter, is_answered_again, NULL));
        assert_true(host_run_until(&pair.waiter, has_two_connections, NULL));
        assert_true(host_run_until(&pair.waiter, pair_has_subscriber, (void *)"simba:{m}:b"));
        assert_true(host_run_until(&pair.waiter, pair_has_subscriber, (void *)"simba:{barrier}"));
        pair_hear_all();
        pair_ask(&pair.owner, RELEASE, "a", call.revision);
        pair_assert_owner("b");
        token = pair_fence();
        pair_await_message();
        call = pair_ask(&pair.waiter, ACQUIRE, "b", 0);
        assert_string_equal(call.owner, "b");
        assert_true(call.revision > token);
        pair_ask(&pair.waiter, RELEASE, "b", call.revision);
        pair_stop_listening();
    }
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, pair_begin, pair_end)
    const struct CMUnitTest tests[] = {
        CASE(a_waiter_that_was_handed_the_mutex_owns_without_asking),
        CASE(whoever_asks_twice_asks_the_store),
        CASE(the_releaser_need_not_let_anybody_go_first),
        CASE(the_next_in_the_queue_is_handed_the_mutex_in_turn),
        CASE(a_mutex_that_was_handed_on_is_released_behind_a_ping),
        CASE(a_message_that_comes_late_does_not_stretch_the_lease),
        CASE(a_reply_that_comes_late_does_not_make_the_grant_younger),
        CASE(a_grant_of_the_future_counts_from_now),
        CASE(a_lease_of_which_half_is_over_is_asked_for_anew),
        CASE(a_waiter_with_another_lease_than_the_owner_gets_its_own),
        CASE(a_message_of_an_older_term_is_one_of_the_past),
        CASE(a_message_that_makes_no_sense_is_only_a_reason_to_look),
        CASE(an_id_that_looks_like_a_hand_over_hands_nothing_over),
        CASE(what_is_handed_over_in_one_database_is_not_in_another),
        CASE(a_hand_over_in_another_database_than_the_first_needs_no_asking),
        CASE(what_is_handed_to_a_namesake_on_the_same_channel_is_not_ours),
        CASE(a_token_grows_also_when_the_clock_went_back),
        CASE(what_the_waiter_cannot_be_told_it_is_not_handed),
        CASE(a_client_whose_leases_need_replicas_hands_nothing_on),
        CASE(a_client_whose_leases_need_replicas_believes_no_message),
        CASE(a_connection_that_was_made_anew_knows_no_time),
    };
    int failed;

    server_start(&pair.server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&pair.server);
    return failed;
}
