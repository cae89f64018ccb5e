/*
 * grant_test.c - a release hands the mutex on: the waiter owns without asking, for no longer than the store says, and
 * what it cannot be sure of it asks about. Nothing that was handed to whoever has gone is lost.
 *
 * Two clients with a loop each, which stands still unless a test turns it: so a message can be kept waiting.
 */
#include "backend/host.h"
#include "party.h"
#include "proxy.h"
#include "server.h"

#define ACQUIRE SIMBA_OP_ACQUIRE
#define GUARD SIMBA_OP_GUARD
#define RELEASE SIMBA_OP_RELEASE
#define READ SIMBA_OP_READ
#define KEPT_WAITING_MS 300
#define LONG_LEASE "?ttl=20s&transition=20s&jitter=0ms..50ms"
#define SHORT_LEASE "?ttl=400ms&transition=800ms&jitter=0ms..50ms"
#define SHORT_LEASE_MS 1200

static struct server server;
static struct host owner;  /* of "a" */
static struct host waiter; /* of "b" */
static redisContext *ear;  /* a subscriber that is not ours */

static bool has_subscriber(void *user)
{
    redisReply *reply = server_ask(&server, "PUBSUB NUMSUB %s", (const char *)user);
    bool has = reply->element[1]->integer > 0;

    freeReplyObject(reply);
    return has;
}

static int begin(void **state)
{
    (void)state;
    server_do(&server, "FLUSHALL");
    ear = redisConnect("127.0.0.1", server.port);
    if (ear->err != 0 || host_open(&owner, server_url(&server, "")) != SIMBA_OK ||
        host_open(&waiter, server_url(&server, "?client-name=waiter")) != SIMBA_OK)
        return -1;
    host_do(&owner, RELEASE, "m", "a", 0); /* by now the server knows the script */
    waiter.ops->listen(waiter.backend, "barrier", NULL, true);
    return host_run_until(&waiter, has_subscriber, (void *)"simba:{barrier}") ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    redisFree(ear);
    waiter.ops->listen(waiter.backend, "barrier", NULL, false);
    return host_close(&owner) && host_close(&waiter) ? 0 : -1;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static struct call ask_for(struct host *host, enum simba_op op, const char *id, uint64_t revision,
                           int64_t ttl_ms)
{
    struct call call = host_call(op, "m", id, revision);

    call.request.ttl_ms = ttl_ms;
    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

static struct call ask(struct host *host, enum simba_op op, const char *id, uint64_t revision)
{
    return ask_for(host, op, id, revision, HOST_TTL_MS);
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

static uint64_t fence(void)
{
    return strtoull(server_text(&server, "GET simba:{m}:fence"), NULL, 10);
}

static void assert_owner(const char *id)
{
    assert_string_equal(server_text(&server, "GET simba:{m}"), id);
}

/* The waiter has heard all that was said to it before: messages come in their order. */
static void hear_all(void)
{
    server_do(&server, "PUBLISH simba:{barrier} acquired@@nobody");
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_CHANGED, "barrier", ""));
    host_forget_notices(&waiter);
}

/* The contender of the waiter's client has lost to "a" and listens. */
static void wait_as(const char *id)
{
    char channel[64];

    waiter.ops->listen(waiter.backend, "m", id, true);
    assert_string_equal(ask(&waiter, ACQUIRE, id, 0).owner, "a");
    snprintf(channel, sizeof channel, "simba:{m}:%s", id);
    assert_true(host_run_until(&waiter, has_subscriber, channel));
    hear_all();
    server_do(&server, "CONFIG RESETSTAT");
}

static struct call own_and_have_b_wait(void)
{
    struct call call = ask(&owner, ACQUIRE, "a", 0);

    wait_as("b");
    return call;
}

static void await_message(void)
{
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "m", "b"));
}

/* "b" is the owner on the store, and has the message. */
static struct call hand_over(void)
{
    struct call call = own_and_have_b_wait();

    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("b");
    await_message();
    return call;
}

static bool is_past(void *user)
{
    return simba_now_ms() >= *(const int64_t *)user;
}

static void let_pass(int64_t ms)
{
    int64_t end_ms = simba_now_ms() + ms;

    assert_true(test_wait(is_past, &end_ms));
}

static void stop_listening(void)
{
    waiter.ops->listen(waiter.backend, "m", "b", false);
}

static bool is_free(void *user)
{
    (void)user;
    return server_number(&server, "EXISTS simba:{m}") == 0;
}

/* ---- The hand-over -------------------------------------------------------------------------- */

static void a_waiter_that_was_handed_the_mutex_owns_without_asking(void **state)
{
    struct call first;
    struct call call;

    (void)state;
    first = hand_over();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > first.revision);
    assert_int_equal(call.revision, fence());
    assert_int_equal(call.fence, call.revision);
    assert_int_equal(call.transition_left_ms, HOST_LEASE_MS);
    assert_int_equal(call.ttl_left_ms, HOST_TTL_MS);
    assert_true(call.as_of_ms > 0);
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 1); /* the release */
    assert_int_equal(ask(&waiter, GUARD, "b", call.revision).revision, call.revision);
    assert_string_equal(ask(&waiter, RELEASE, "b", call.revision).owner, "");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    stop_listening();
}

/* What is handed over is handed over once. */
static void whoever_asks_twice_asks_the_store(void **state)
{
    struct call call;

    (void)state;
    hand_over();
    call = ask(&waiter, ACQUIRE, "b", 0);
    ask(&waiter, RELEASE, "b", call.revision);
    ask(&owner, ACQUIRE, "a", 0);
    assert_string_equal(ask(&waiter, ACQUIRE, "b", 0).owner, "a");
    stop_listening();
}

static void the_releaser_need_not_let_anybody_go_first(void **state)
{
    struct call call;
    int64_t begin_ms;

    (void)state;
    hand_over();
    begin_ms = simba_now_ms();
    call = ask(&owner, ACQUIRE, "a", 0);
    assert_string_equal(call.owner, "b");
    assert_true(simba_now_ms() - begin_ms < 20);
    stop_listening();
}

static void the_next_in_the_queue_is_handed_the_mutex_in_turn(void **state)
{
    struct call call = own_and_have_b_wait();

    (void)state;
    wait_as("c");
    ask(&owner, RELEASE, "a", call.revision);
    await_message();
    call = ask(&waiter, ACQUIRE, "b", 0);
    server_do(&server, "CONFIG RESETSTAT");
    ask(&waiter, RELEASE, "b", call.revision);
    assert_owner("c");
    assert_true(host_wait_notice(&waiter, SIMBA_NOTICE_RELEASED, "m", "c"));
    assert_string_equal(ask(&waiter, ACQUIRE, "c", 0).owner, "c");
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 1);
    waiter.ops->listen(waiter.backend, "m", "c", false);
    stop_listening();
}

/* So that the server writes to the waiter first. Whoever has no waiters sends nothing but its releases. */
static void a_mutex_that_was_handed_on_is_released_behind_a_ping(void **state)
{
    struct call call;

    (void)state;
    call = ask(&owner, ACQUIRE, "a", 0);
    ask(&owner, RELEASE, "a", call.revision);
    hand_over();
    call = ask(&waiter, ACQUIRE, "b", 0);
    ask(&waiter, RELEASE, "b", call.revision);
    assert_int_equal(calls_of("ping"), 0);
    call = ask(&owner, ACQUIRE, "a", 0);
    assert_string_equal(ask(&owner, RELEASE, "a", call.revision).owner, "");
    assert_int_equal(calls_of("ping"), 1);
    call = host_do(&owner, ACQUIRE, "other", "a", 0);
    host_do(&owner, RELEASE, "other", "a", call.revision);
    assert_int_equal(calls_of("ping"), 1);
    stop_listening();
}

/* ---- Until when it holds -------------------------------------------------------------------- */

/* The waiter's loop stands still, and the message waits in its socket. */
static void a_message_that_comes_late_does_not_stretch_the_lease(void **state)
{
    struct call call = own_and_have_b_wait();
    int64_t released_ms;

    (void)state;
    ask(&owner, RELEASE, "a", call.revision);
    released_ms = simba_now_ms();
    let_pass(KEPT_WAITING_MS);
    await_message();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 1);
    assert_true(call.as_of_ms <= released_ms);
    assert_true(call.as_of_ms > released_ms - HOST_LEASE_MS / 4);
    stop_listening();
}

/* The loop stands still while the attempt that tells the time is answered. */
static void a_reply_that_comes_late_does_not_make_the_grant_younger(void **state)
{
    struct call call = ask(&owner, ACQUIRE, "a", 0);
    struct call lost = host_call(ACQUIRE, "m", "b", 0);
    int64_t released_ms;

    (void)state;
    wait_as("b");
    host_submit(&waiter, &lost, 1);
    let_pass(KEPT_WAITING_MS);
    assert_true(host_wait(&waiter, &lost, 1));
    ask(&owner, RELEASE, "a", call.revision);
    released_ms = simba_now_ms();
    let_pass(KEPT_WAITING_MS);
    await_message();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.as_of_ms > 0);
    assert_true(call.as_of_ms <= released_ms);
    stop_listening();
}

static void a_grant_of_the_future_counts_from_now(void **state)
{
    struct call call;

    (void)state;
    own_and_have_b_wait();
    server_do(&server, "PUBLISH simba:{m}:b released@@a@@handed@@9000000000000000@@%llu@@%d@@9@@0",
              (unsigned long long)server_time_us(&server) + 5000000, HOST_LEASE_MS);
    await_message();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.as_of_ms > 0 && call.as_of_ms <= simba_now_ms());
    stop_listening();
}

static void a_lease_of_which_half_is_over_is_asked_for_anew(void **state)
{
    struct call call = own_and_have_b_wait();
    uint64_t token;

    (void)state;
    call = host_call(RELEASE, "m", "a", call.revision);
    call.request.ttl_ms = call.request.transition_ms = 500;
    host_submit(&owner, &call, 1);
    assert_true(host_wait(&owner, &call, 1));
    token = fence();
    let_pass(600);
    await_message();
    call = host_call(ACQUIRE, "m", "b", 0);
    call.request.ttl_ms = call.request.transition_ms = 500;
    host_submit(&waiter, &call, 1);
    assert_true(host_wait(&waiter, &call, 1));
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > token);
    assert_int_equal(call.as_of_ms, 0);
    stop_listening();
}

static void assert_own_lease(int64_t owners_ttl_ms, int64_t waiters_ttl_ms)
{
    struct call call = own_and_have_b_wait();
    long long left_ms;

    ask_for(&owner, RELEASE, "a", call.revision, owners_ttl_ms);
    await_message();
    call = ask_for(&waiter, ACQUIRE, "b", 0, waiters_ttl_ms);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.transition_left_ms, waiters_ttl_ms + HOST_TRANSITION_MS);
    left_ms = server_number(&server, "PTTL simba:{m}");
    assert_in_range(left_ms, waiters_ttl_ms + HOST_TRANSITION_MS - 1000,
                    waiters_ttl_ms + HOST_TRANSITION_MS);
    assert_int_equal(call.revision, fence());
    ask(&waiter, RELEASE, "b", call.revision);
    stop_listening();
}

static void a_waiter_with_another_lease_than_the_owner_gets_its_own(void **state)
{
    (void)state;
    assert_own_lease(2000, 10000);
    assert_own_lease(10000, 2000);
}

/* ---- What is not certain -------------------------------------------------------------------- */

/* The next message to "b", as the ear has it. */
static void overhear(char *text, size_t size)
{
    void *next = NULL;
    redisReply *reply;

    redisSetTimeout(ear, (struct timeval){5, 0});
    assert_int_equal(redisGetReply(ear, &next), REDIS_OK);
    reply = next;
    assert_int_equal(reply->elements, 3);
    snprintf(text, size, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

static void hear_b(void)
{
    redisReply *reply = redisCommand(ear, "SUBSCRIBE simba:{m}:b");

    assert_non_null(reply);
    freeReplyObject(reply);
}

/* It was handed the mutex while its own attempt was under way, which began a newer term; that one is over. No attempt
 * has lost since, so that nothing but the token tells the message from a new one. */
static void a_message_of_an_older_term_is_one_of_the_past(void **state)
{
    struct call call = own_and_have_b_wait();
    char text[256];

    (void)state;
    hear_b();
    ask(&owner, RELEASE, "a", call.revision);
    overhear(text, sizeof text);
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_true(call.revision > strtoull(strstr(text, "@@handed@@") + 10, NULL, 10));
    await_message();
    ask(&waiter, RELEASE, "b", call.revision);
    ask(&owner, ACQUIRE, "a", 0);
    host_forget_notices(&waiter);
    server_do(&server, "PUBLISH simba:{m}:b %s", text);
    await_message();
    assert_string_equal(ask(&waiter, ACQUIRE, "b", 0).owner, "a");
    stop_listening();
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
    own_and_have_b_wait();
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct call call;

        host_forget_notices(&waiter);
        server_do(&server, "PUBLISH simba:{m}:b %s", texts[i]);
        await_message();
        call = ask(&waiter, ACQUIRE, "b", 0);
        if (strcmp(call.owner, "a") != 0)
            fail_msg("believed: %s", texts[i]);
    }
    stop_listening();
}

/* The text of an id may look like anything. */
static void an_id_that_looks_like_a_hand_over_hands_nothing_over(void **state)
{
    (void)state;
    own_and_have_b_wait();
    server_do(&server,
              "PUBLISH simba:{m}:b released@@x@@handed@@9000000000000000@@%llu@@30000@@9@@0@@y",
              (unsigned long long)server_time_us(&server));
    await_message();
    assert_string_equal(ask(&waiter, ACQUIRE, "b", 0).owner, "a");
    stop_listening();
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
    assert_int_equal(host_open(&other, server_url(&server, "/1")), SIMBA_OK);
    host_do(&other, ACQUIRE, "m", "owner-there", 0);
    wait_elsewhere(&other, "m", "b");
    call = own_and_have_b_wait();
    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("b");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_string_equal(host_do(&other, ACQUIRE, "m", "b", 0).owner, "owner-there");
    other.ops->listen(other.backend, "m", "b", false);
    assert_true(host_close(&other));
    stop_listening();
}

static void a_hand_over_in_another_database_than_the_first_needs_no_asking(void **state)
{
    struct host there[2];
    struct call call;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(host_open(&there[i], server_url(&server, "/1")), SIMBA_OK);
    call = host_do(&there[0], ACQUIRE, "m", "a", 0);
    wait_elsewhere(&there[1], "m", "b");
    host_do(&there[0], RELEASE, "m", "a", call.revision);
    assert_true(host_wait_notice(&there[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    server_do(&server, "CONFIG RESETSTAT");
    assert_string_equal(host_do(&there[1], ACQUIRE, "m", "b", 0).owner, "b");
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 0);
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
    assert_int_equal(host_open(&other, server_url(&server, "")), SIMBA_OK);
    host_do(&other, ACQUIRE, "m}:x", "owner-there", 0);
    wait_elsewhere(&other, "m}:x", "y");
    call = ask(&owner, ACQUIRE, "a", 0);
    assert_string_equal(ask(&waiter, ACQUIRE, "x}:y", 0).owner, "a");
    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("x}:y");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m}:x", "y"));
    assert_string_equal(host_do(&other, ACQUIRE, "m}:x", "y", 0).owner, "owner-there");
    other.ops->listen(other.backend, "m}:x", "y", false);
    assert_true(host_close(&other));
}

/* The counter is an hour ahead of the clock, which is what a clock that went back leaves. */
static void a_token_grows_also_when_the_clock_went_back(void **state)
{
    unsigned long long ahead = (unsigned long long)server_time_us(&server) + 3600000000;
    struct call first;
    struct call call;

    (void)state;
    server_do(&server, "SET simba:{m}:fence %llu", ahead);
    first = hand_over();
    assert_true(first.revision > ahead);
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.revision, first.revision + 1);
    assert_int_equal(call.revision, fence());
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 1); /* the release */
    stop_listening();
}

/* ---- Who may not or does not hand over ------------------------------------------------------ */

/* The script has made "b" the owner when it is not permitted to tell it so. */
static void what_the_waiter_cannot_be_told_it_is_not_handed(void **state)
{
    struct host other;
    struct call call;
    char url[128];

    (void)state;
    server_do(&server, "ACL SETUSER mute on >secret ~* +@all resetchannels &simba:{m}");
    snprintf(url, sizeof url, "redis://mute:secret@127.0.0.1:%d", server.port);
    assert_int_equal(host_open(&other, url), SIMBA_OK);
    call = own_and_have_b_wait();
    call = host_do(&other, RELEASE, "m", "a", call.revision);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
    assert_true(is_free(NULL));
    hear_all();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_int_equal(call.as_of_ms, 0);
    assert_int_equal(call.revision, fence());
    assert_owner("b");
    assert_true(host_close(&other));
    stop_listening();
}

#define WAITS_FOR_REPLICAS "?wait-replicas=1&wait-timeout=300ms"

static void a_client_whose_leases_need_replicas_hands_nothing_on(void **state)
{
    struct host other;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&other, server_url(&server, WAITS_FOR_REPLICAS)), SIMBA_OK);
    call = own_and_have_b_wait();
    assert_int_equal(host_do(&other, RELEASE, "m", "a", call.revision).code, SIMBA_OK);
    assert_true(is_free(NULL));
    await_message();
    assert_string_equal(ask(&waiter, ACQUIRE, "b", 0).owner, "b");
    assert_true(host_close(&other));
    stop_listening();
}

/* There is no replica that could have what it is handed, so it asks, is refused, and gives it back. */
static void a_client_whose_leases_need_replicas_believes_no_message(void **state)
{
    struct host other;
    struct call call = ask(&owner, ACQUIRE, "a", 0);

    (void)state;
    assert_int_equal(host_open(&other, server_url(&server, WAITS_FOR_REPLICAS)), SIMBA_OK);
    wait_elsewhere(&other, "m", "b");
    host_forget_notices(&other);
    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("b");
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_not_equal(host_do(&other, ACQUIRE, "m", "b", 0).code, SIMBA_OK);
    assert_true(is_free(NULL));
    other.ops->listen(other.backend, "m", "b", false);
    assert_true(host_close(&other));
}

/* ---- Connections ---------------------------------------------------------------------------- */

static bool has_two_connections(void *user)
{
    (void)user;
    return server_clients(&server, "waiter") == 2;
}

static bool is_answered_again(void *user)
{
    (void)user;
    return host_do(&waiter, READ, "m", NULL, 0).code == SIMBA_OK;
}

static void kill_connection_of_waiter(const char *type)
{
    char list[8192];
    char *line = list;

    snprintf(list, sizeof list, "%s", server_text(&server, "CLIENT LIST TYPE %s", type));
    for (line = strtok(list, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strstr(line, " name=waiter ") != NULL)
            break;
    assert_non_null(line);
    assert_int_equal(server_number(&server, "CLIENT KILL ID %lld", atoll(line + strlen("id="))), 1);
}

/* The server behind a new connection may be another one, with another clock. */
static void a_connection_that_was_made_anew_knows_no_time(void **state)
{
    static const char *const types[] = {"normal", "pubsub"};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        struct call call = own_and_have_b_wait();
        uint64_t token;

        kill_connection_of_waiter(types[i]);
        assert_true(host_run_until(&waiter, is_answered_again, NULL));
        assert_true(host_run_until(&waiter, has_two_connections, NULL));
        assert_true(host_run_until(&waiter, has_subscriber, (void *)"simba:{m}:b"));
        assert_true(host_run_until(&waiter, has_subscriber, (void *)"simba:{barrier}"));
        hear_all();
        ask(&owner, RELEASE, "a", call.revision);
        assert_owner("b");
        token = fence();
        await_message();
        call = ask(&waiter, ACQUIRE, "b", 0);
        assert_string_equal(call.owner, "b");
        assert_true(call.revision > token);
        ask(&waiter, RELEASE, "b", call.revision);
        stop_listening();
    }
}

/* ---- Who has gone --------------------------------------------------------------------------- */

static void whoever_stops_with_the_message_gives_back_what_it_was_handed(void **state)
{
    (void)state;
    hand_over();
    assert_string_equal(ask(&waiter, RELEASE, "b", 0).owner, "");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    stop_listening();
}

/* The contender is told what it has, and gives back just that. */
static void whoever_stops_before_the_message_comes_is_told_what_it_owns(void **state)
{
    struct call call = own_and_have_b_wait();
    uint64_t token;

    (void)state;
    ask(&owner, RELEASE, "a", call.revision);
    token = fence();
    call = ask(&waiter, RELEASE, "b", 0);
    assert_true(strcmp(call.owner, "b") == 0 || strcmp(call.owner, "") == 0);
    if (call.owner[0] != '\0') {
        assert_int_equal(call.revision, token);
        ask(&waiter, RELEASE, "b", call.revision);
    }
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    stop_listening();
}

static void what_was_handed_to_a_contender_that_goes_is_given_back(void **state)
{
    (void)state;
    hand_over();
    stop_listening();
    assert_true(host_run_until(&waiter, is_free, NULL));
}

/* Its subscription lingers, so that it looks alive. */
static void what_is_handed_to_a_contender_that_has_gone_is_given_back(void **state)
{
    struct call call = own_and_have_b_wait();

    (void)state;
    ask(&waiter, RELEASE, "b", 0);
    stop_listening();
    server_do(&server, "ZADD simba:{m}:contender 1.5 b"); /* by an attempt that came late */
    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("b");
    assert_true(host_run_until(&waiter, is_free, NULL));
}

/* The way to the server is down while the message comes; it is given back when there is one again. */
static void what_could_not_be_given_back_is_when_the_server_is_reached_again(void **state)
{
    struct call call = own_and_have_b_wait();

    (void)state;
    stop_listening(); /* without having left the queue: that had failed */
    kill_connection_of_waiter("normal");
    ask(&owner, RELEASE, "a", call.revision);
    assert_owner("b");
    assert_true(host_run_until(&waiter, is_free, NULL));
}

/* ---- Who does not ask ----------------------------------------------------------------------- */

static void what_nobody_asks_for_is_given_back_after_a_moment(void **state)
{
    uint64_t token;

    (void)state;
    hand_over();
    token = fence();
    assert_true(host_run_until(&waiter, is_free, NULL));
    assert_true(ask(&waiter, ACQUIRE, "b", 0).revision > token);
    assert_owner("b");
    stop_listening();
}

/* One turn of the loop in which the moment is over: the give-back has left, and is not answered. */
static void whoever_asks_while_it_is_given_back_asks_the_store(void **state)
{
    uint64_t token;
    struct call call;

    (void)state;
    hand_over();
    token = fence();
    let_pass(200);
    uv_run(&waiter.loop, UV_RUN_NOWAIT);
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > token);
    assert_int_equal(call.as_of_ms, 0);
    assert_int_equal(call.revision, fence());
    assert_owner("b");
    stop_listening();
}

static void whoever_asks_before_it_is_given_back_owns_without_asking(void **state)
{
    struct call call;

    (void)state;
    hand_over();
    let_pass(200);
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_int_equal(call.revision, fence());
    hear_all();
    assert_owner("b");
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 1); /* the release */
    stop_listening();
}

/* It leaves the queue with what it gives back, and is told so when that was nothing. */
static void a_message_of_the_past_does_not_cost_a_place_in_the_queue(void **state)
{
    (void)state;
    own_and_have_b_wait();
    server_do(&server, "PUBLISH simba:{m}:b released@@a@@handed@@1@@1@@30000@@9@@0");
    await_message();
    host_forget_notices(&waiter);
    await_message();
    assert_string_equal(ask(&waiter, ACQUIRE, "b", 0).owner, "a");
    assert_int_equal(server_number(&server, "ZRANK simba:{m}:contender b"), 0);
    assert_owner("a");
    stop_listening();
}

/* It is in the waiter's socket before the attempt is made, which the server carries out before the release. */
static void an_answer_that_was_overtaken_by_the_message_does_not_spoil_it(void **state)
{
    struct call lost = host_call(ACQUIRE, "m", "b", 0);
    struct call call;

    (void)state;
    own_and_have_b_wait();
    server_do(&server, "PUBLISH simba:{m}:b released@@a@@handed@@9000000000000000@@%llu@@%d@@9@@0",
              (unsigned long long)server_time_us(&server), HOST_LEASE_MS);
    host_submit(&waiter, &lost, 1);
    assert_true(host_wait(&waiter, &lost, 1));
    assert_string_equal(lost.owner, "a");
    await_message();
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    assert_int_equal(call.revision, 9000000000000000);
    stop_listening();
}

/* The same with an attempt that the server carries out after the release: it has begun a newer term. */
static void a_hand_over_that_an_answer_has_overtaken_is_not_given_back(void **state)
{
    struct call call = own_and_have_b_wait();
    int64_t later_ms;

    (void)state;
    ask(&owner, RELEASE, "a", call.revision);
    call = ask(&waiter, ACQUIRE, "b", 0);
    assert_string_equal(call.owner, "b");
    await_message();
    later_ms = simba_now_ms() + 200;
    assert_true(host_run_until(&waiter, is_past, &later_ms));
    assert_int_equal(calls_of("evalsha") + calls_of("eval"), 2);
    assert_owner("b");
    stop_listening();
}

/* ---- The library ---------------------------------------------------------------------------- */

static bool has_waiters(void *user)
{
    return server_number(&server, "ZCARD simba:{m}:contender") == *(const int *)user;
}

static void join_and_wait(struct party *party, const char *url, const char *id, int waiters)
{
    char channel[64];

    party_join(party, url, "m", id);
    snprintf(channel, sizeof channel, "simba:{m}:%s", id);
    assert_true(test_wait(has_subscriber, channel));
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

        party_join(&parties[0], server_url(&server, LONG_LEASE), "m", "first");
        party_await_acquired(&parties[0], 1);
        join_and_wait(&parties[1], server_url(&server, LONG_LEASE), "stops", 1);
        join_and_wait(&parties[2], server_url(&server, LONG_LEASE), "last", 2);
        begin_ms = test_now_ms();
        assert_int_equal(pthread_create(&thread, NULL, leave, &parties[1]), 0);
        party_leave(&parties[0]);
        party_await_acquired(&parties[2], 1);
        assert_true(test_now_ms() - begin_ms < 5000);
        pthread_join(thread, NULL);
        party_leave(&parties[2]);
        assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
    }
}

/* The server has told it, but it does not come: whoever waits comes at the end of the lease. */
static void a_waiter_that_stands_still_holds_the_mutex_for_one_lease(void **state)
{
    struct party first;
    struct party last;
    int64_t begin_ms;

    (void)state;
    party_join(&first, server_url(&server, SHORT_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    hear_b();
    server_do(&server, "ZADD simba:{m}:contender 1.5 b");
    join_and_wait(&last, server_url(&server, SHORT_LEASE), "last", 2);
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
    proxy_start(&proxy, server.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", proxy.port, LONG_LEASE);
    party_join(&first, server_url(&server, LONG_LEASE), "m", "first");
    party_await_acquired(&first, 1);
    join_and_wait(&second, url, "second", 1);
    atomic_store(&proxy.swallow, true);
    begin_ms = test_now_ms();
    party_leave(&first);
    assert_owner("second");
    atomic_store(&proxy.cut, true);
    atomic_store(&proxy.swallow, false);
    party_await_acquired(&second, 1);
    assert_true(test_now_ms() - begin_ms < 10000);
    party_leave(&second);
    proxy_stop(&proxy);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
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

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
