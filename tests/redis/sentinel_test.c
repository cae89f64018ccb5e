/*
 * sentinel_test.c - a master, a replica and three sentinels: fail-over is followed, and
 * acknowledgement by replicas is demanded where it is asked for.
 */
#include "backend/host.h"
#include "fake.h"
#include "party.h"
#include "proxy.h"
#include "rights.h"
#include "server.h"

#include <signal.h>

static struct server master;
static struct server replica;
static struct server sentinels[3];

/* The replica has what was written and has said so; more than once, because the first time it may
 * have got it with the copy of everything and not be listening yet. */
static bool is_acknowledged(void *user)
{
    static int round;
    int *times = user;
    char text[16];

    snprintf(text, sizeof text, "%d", ++round);
    server_do(&master, "SET started %s", text);
    if (server_number(&master, "WAIT 1 100") == 1 &&
        strcmp(server_text(&replica, "GET started"), text) == 0)
        ++*times;
    else
        *times = 0;
    return *times == 3;
}

static void start_pair(void)
{
    char port[16];
    int times = 0;

    memset(&master, 0, sizeof master);
    memset(&replica, 0, sizeof replica);
    server_start(&master, "--repl-diskless-sync-delay", "0", NULL);
    snprintf(port, sizeof port, "%d", master.port);
    server_start(&replica, "--replicaof", "127.0.0.1", port, NULL);
    assert_true(test_wait(is_acknowledged, &times));
}

static void stop_pair(void)
{
    server_stop(&replica);
    server_stop(&master);
}

/* The value of a field in the reply of SENTINEL MASTER. */
static long field(struct server *sentinel, const char *name)
{
    redisReply *reply = server_ask(sentinel, "SENTINEL MASTER main");
    long value = -1;

    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, name) == 0)
            value = strtol(reply->element[i + 1]->str, NULL, 10);
    freeReplyObject(reply);
    return value;
}

static bool knows_all(void *user)
{
    return field(user, "num-other-sentinels") == 2 && field(user, "num-slaves") == 1;
}

static int start_sentinels(void **state)
{
    (void)state;
    start_pair();
    memset(sentinels, 0, sizeof sentinels);
    for (size_t i = 0; i < 3; i++)
        server_start_sentinel(&sentinels[i], master.port);
    for (size_t i = 0; i < 3; i++)
        assert_true(test_wait(knows_all, &sentinels[i]));
    return 0;
}

/* For tests that change nothing for good: those before have left them as they were. */
static int have_sentinels(void **state)
{
    return sentinels[0].pid > 0 ? 0 : start_sentinels(state);
}

static int stop_sentinels(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        server_stop(&sentinels[i]);
    stop_pair();
    return 0;
}

static const char *sentinel_url(const char *name, const char *rest)
{
    static char url[512];

    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%s?connect-timeout=1s%s%s",
             sentinels[0].port, sentinels[1].port, sentinels[2].port, name,
             rest[0] != '\0' ? "&" : "", rest);
    return url;
}

static bool has_renewed(void *user)
{
    return server_number(&replica, "PTTL simba:{m}") > *(long long *)user;
}

static bool is_master(void *user)
{
    return strstr(server_text(user, "INFO replication"), "role:master") != NULL;
}

/* The lease is long enough for the fail-over; the replica has it, so the owner goes on there. */
static void a_failover_is_followed_and_the_lease_kept(void **state)
{
    long long most = 0;
    struct party party;
    struct party waiter;

    (void)state;
    server_kill(&sentinels[0], SIGKILL); /* the first one asked does not answer */
    party_join(&party, sentinel_url("main", "ttl=500ms&transition=15s"), "m", "a");
    party_await_acquired(&party, 1);
    party_join(&waiter, sentinel_url("main", "ttl=500ms&transition=15s"), "m", "b");
    while (server_number(&replica, "EXISTS simba:{m}:contender") == 0)
        test_pause_ms(1);
    server_start_again(&sentinels[0]); /* two of three must agree */
    server_kill(&master, SIGKILL);
    assert_true(test_wait(is_master, &replica));
    most = server_number(&replica, "PTTL simba:{m}");
    assert_true(most > 0);
    assert_true(test_wait(has_renewed, &most));
    assert_true(party_is_owner(&party));
    assert_int_equal(atomic_load(&party.released), 0);
    party_leave(&party);
    party_await_acquired(&waiter, 1);
    assert_string_equal(server_text(&replica, "GET simba:{m}"), "b");
    party_leave(&waiter);
}

static bool has_come(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

static bool works_again(void *user)
{
    struct host *host = user;
    int64_t at_ms = test_now_ms() + 5;

    host_run_until(host, has_come, &at_ms); /* lets the loop connect meanwhile */
    return host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

static void a_master_that_nobody_knows_is_told(void **state)
{
    struct host host;

    (void)state;
    assert_int_equal(host_open(&host, sentinel_url("other", "idle-timeout=30s")),
                     SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(host.open_error.text, "knows no master named 'other'"));
}

/* ---- A majority ------------------------------------------------------------------------------ */

#define SHORT_TTL_MS 2500 /* a sentinel is asked once a second here */

static struct call acquire_briefly(struct host *host)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);

    call.request.ttl_ms = SHORT_TTL_MS;
    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    return call;
}

/* Lets the loop ask the sentinels meanwhile. */
static bool turn_and_acquire(struct host *host, int code)
{
    int64_t at_ms = test_now_ms() + 50;
    struct call call;

    host_run_until(host, has_come, &at_ms);
    call = acquire_briefly(host);
    if (call.code == SIMBA_EUNAVAILABLE)
        assert_non_null(strstr(call.error.text, "1 of 3 sentinels confirm the master at"));
    return call.code == code;
}

static bool is_refused(void *user)
{
    return turn_and_acquire(user, SIMBA_EUNAVAILABLE);
}

static bool is_granted(void *user)
{
    return turn_and_acquire(user, SIMBA_OK);
}

/* The master serves all the time. */
static void without_a_majority_nothing_is_granted_and_nothing_renewed(void **state)
{
    struct host host;
    struct call call;
    int64_t paused_ms;

    (void)state;
    assert_int_equal(host_open(&host, sentinel_url("main", "")), SIMBA_OK);
    call = acquire_briefly(&host);
    assert_int_equal(call.code, SIMBA_OK);
    assert_true(call.as_of_ms != 0);
    server_pause(&sentinels[0]);
    server_pause(&sentinels[1]);
    paused_ms = test_now_ms();
    assert_true(test_wait(is_refused, &host));
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
    assert_string_equal(call.owner, "a");
    assert_true(call.as_of_ms <=
                paused_ms); /* it is told as it is, and is not believed for longer */
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_OK);
    server_go_on(&sentinels[0]);
    assert_true(test_wait(is_granted, &host));
    call = acquire_briefly(&host);
    assert_true(call.as_of_ms > paused_ms);
    server_go_on(&sentinels[1]);
    assert_true(host_close(&host));
}

static void with_any_the_sentinels_may_all_be_gone(void **state)
{
    struct host host;
    int64_t at_ms;

    (void)state;
    assert_int_equal(host_open(&host, sentinel_url("main", "sentinel-quorum=any")), SIMBA_OK);
    assert_int_equal(acquire_briefly(&host).code, SIMBA_OK);
    for (size_t i = 0; i < 3; i++)
        server_pause(&sentinels[i]);
    at_ms = test_now_ms() + SHORT_TTL_MS + 500;
    host_run_until(&host, has_come, &at_ms);
    assert_int_equal(acquire_briefly(&host).code, SIMBA_OK);
    for (size_t i = 0; i < 3; i++)
        server_go_on(&sentinels[i]);
    assert_true(host_close(&host));
}

/* The URL names one of three, which tells of the others and then falls silent. */
static void sentinels_that_the_url_does_not_name_are_asked_too(void **state)
{
    struct host host;
    char url[128];
    int64_t at_ms;

    (void)state;
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main?connect-timeout=1s",
             sentinels[0].port);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_int_equal(acquire_briefly(&host).code, SIMBA_OK);
    server_pause(&sentinels[0]);
    at_ms = test_now_ms() + SHORT_TTL_MS + 500;
    host_run_until(&host, has_come, &at_ms);
    assert_true(test_wait(is_granted, &host));
    server_go_on(&sentinels[0]);
    assert_true(host_close(&host));
}

static void a_client_is_not_opened_without_a_majority(void **state)
{
    struct host host;

    (void)state;
    server_pause(&sentinels[1]);
    server_pause(&sentinels[2]);
    assert_int_equal(host_open(&host, sentinel_url("main", "")), SIMBA_EUNAVAILABLE);
    if (strstr(host.open_error.text, "no master is named by 2 of 3 sentinels") == NULL)
        fail_msg("%s", host.open_error.text);
    assert_int_equal(host_open(&host, sentinel_url("main", "sentinel-quorum=any")), SIMBA_OK);
    assert_true(host_close(&host));
    server_go_on(&sentinels[1]);
    server_go_on(&sentinels[2]);
}

/* An order to fail over leaves the old master alive for a moment; the announcement is heard before
 * the next question. */
static bool is_on_replica(void *user)
{
    (void)user;
    return server_clients(&replica, "simba") > 0;
}

static bool turn_until_on_replica(void *user)
{
    int64_t at_ms = test_now_ms() + 20;

    host_run_until(user, has_come, &at_ms);
    return is_on_replica(NULL);
}

static void an_ordered_failover_is_followed(void **state)
{
    struct host host;

    (void)state;
    assert_int_equal(host_open(&host, sentinel_url("main", "")), SIMBA_OK);
    assert_int_equal(acquire_briefly(&host).code, SIMBA_OK);
    server_do(&sentinels[0], "SENTINEL FAILOVER main");
    assert_true(test_wait(turn_until_on_replica, &host));
    assert_true(test_wait(is_granted, &host));
    assert_true(host_close(&host));
}

/* Two that never answer stand before those that live, and must not cost a connect-timeout each. The
 * third one that lives, which a majority of four needs, is told of by the others. */
static void sentinels_that_do_not_answer_cost_little_and_are_passed_over(void **state)
{
    struct tarpit tarpits[2];
    struct host host;
    char url[256];
    const int64_t timeout_ms = 4500;
    int64_t begin_ms;

    (void)state;
    tarpit_open(&tarpits[0]);
    tarpit_open(&tarpits[1]);
    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main"
             "?connect-timeout=%dms",
             tarpits[0].port, tarpits[1].port, sentinels[0].port, sentinels[1].port,
             (int)timeout_ms);
    begin_ms = test_now_ms();
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_true(test_now_ms() - begin_ms < 2 * timeout_ms);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).code, SIMBA_OK);
    assert_true(server_number(&master, "CLIENT KILL TYPE normal SKIPME yes") > 0);
    begin_ms = test_now_ms();
    assert_true(test_wait(works_again, &host));
    assert_true(test_now_ms() - begin_ms <
                timeout_ms * 2 / 3); /* nobody waits for the silent ones */
    assert_true(host_close(&host));
    snprintf(url, sizeof url,
             "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/main?connect-timeout=400ms",
             tarpits[0].port, tarpits[1].port);
    assert_int_equal(host_open(&host, url), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(host.open_error.text, "none of the 2 sentinels"));
    tarpit_close(&tarpits[0]);
    tarpit_close(&tarpits[1]);
}

/* ---- Rights ---------------------------------------------------------------------------------- */

static int try_with(const char *master_more, const char *sentinel_rule, const char *rest)
{
    struct host host;
    struct call call;
    char url[256];
    int code;

    rights_grant(&master, master_more);
    for (size_t i = 0; i < 3; i++)
        server_do(&sentinels[i], sentinel_rule);
    snprintf(url, sizeof url,
             "redis+sentinel://simba:secret@127.0.0.1:%d/main?sentinel-user=simba&"
             "sentinel-password=secret%s",
             sentinels[0].port, rest);
    code = host_open(&host, url);
    if (code != SIMBA_OK)
        return code;
    call = host_do(&host, SIMBA_OP_ACQUIRE, "rights", "a", 0);
    assert_true(host_close(&host));
    return call.code;
}

static void the_rights_for_sentinels_and_replicas_are_enough_and_needed(void **state)
{
    static const char nothing[] = "ACL SETUSER simba reset on >secret";
    static const char ask_one[] =
        "ACL SETUSER simba reset on >secret +sentinel|get-master-addr-by-name";
    static const char ask[] =
        "ACL SETUSER simba reset on >secret &+switch-master +sentinel|get-master-addr-by-name "
        "+sentinel|myid +sentinel|sentinels +subscribe +ping";

    (void)state;
    assert_int_equal(try_with("+role", ask, ""), SIMBA_OK);
    assert_int_equal(try_with("", ask, ""), SIMBA_EDENIED);
    assert_int_equal(try_with("+role", nothing, ""), SIMBA_EDENIED);
    assert_int_equal(try_with("+role", ask_one, ""), SIMBA_EDENIED);
    assert_int_equal(try_with("+role", ask_one, "&sentinel-quorum=any"), SIMBA_OK);
    assert_int_equal(try_with("+role +wait", ask, "&wait-replicas=1"), SIMBA_OK);
    assert_int_equal(try_with("+role", ask, "&wait-replicas=1"), SIMBA_EDENIED);
}

/* ---- Replicas that must have it -------------------------------------------------------------- */

static int start_two(void **state)
{
    (void)state;
    start_pair();
    return 0;
}

static int stop_two(void **state)
{
    (void)state;
    stop_pair();
    return 0;
}

#define WAITING "?wait-replicas=1&wait-timeout=300ms"

static void a_lease_that_replicas_have_counts(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, WAITING)), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(call.owner, "a");
    assert_string_equal(server_text(&replica, "GET simba:{m}"), "a");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", call.revision).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision).owner, "");
    assert_true(host_close(&host));
}

static void an_acquire_that_replicas_do_not_have_is_given_back(void **state)
{
    struct host host;
    struct call held;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, WAITING)), SIMBA_OK);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "held", "a", 0);
    assert_int_equal(held.code, SIMBA_OK);
    server_pause(&replica);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "0 of 1 replicas"));
    assert_int_equal(server_number(&master, "EXISTS simba:{m}"), 0);
    assert_int_equal(host_do(&host, SIMBA_OP_GUARD, "held", "a", held.revision).code,
                     SIMBA_EUNKNOWN);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "held", NULL, 0).code, SIMBA_OK);
    server_go_on(&replica);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
}

/* The request has less time than the replicas are given: it is given back all the same, on a
 * connection that stays. */
static void a_request_that_has_less_time_than_the_replicas_is_given_back(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, "?wait-replicas=1&wait-timeout=1500ms")),
                     SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_pause(&replica);
    server_do(&master, "CONFIG RESETSTAT");
    for (int i = 0; i < 3; i++) {
        call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
        call.request.timeout_ms = 600;
        host_submit(&host, &call, 1);
        assert_true(host_wait(&host, &call, 1));
        if (call.code != SIMBA_EUNAVAILABLE || strstr(call.error.text, "released: ") == NULL)
            fail_msg("%d: %s", call.code, call.error.text);
        assert_int_equal(server_number(&master, "EXISTS simba:{m}"), 0);
    }
    assert_non_null(strstr(server_text(&master, "INFO stats"), "total_connections_received:0"));
    server_go_on(&replica);
    assert_true(host_close(&host));
}

/* Others need not suffer from a server that waits for its replicas. */
static void silence_behind_a_wait_does_not_end_the_connection(void **state)
{
    struct host host;
    struct call calls[2];

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, "?wait-replicas=1&wait-timeout=700ms")),
                     SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_pause(&replica);
    server_do(&master, "CONFIG RESETSTAT");
    calls[0] = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    host_submit(&host, &calls[0], 1);
    calls[1] = host_call(SIMBA_OP_READ, "m", NULL, 0);
    calls[1].request.timeout_ms = 200;
    host_submit(&host, &calls[1], 1);
    assert_true(host_wait(&host, calls, 2));
    assert_int_equal(calls[1].code, SIMBA_EUNAVAILABLE); /* too late, and nothing else */
    assert_int_equal(calls[0].code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(calls[0].error.text, "released: "));
    assert_non_null(strstr(server_text(&master, "INFO stats"), "total_connections_received:0"));
    server_go_on(&replica);
    assert_true(host_close(&host));
}

/* The server has forgotten the script, so the acquire is sent twice, each time with a WAIT behind
 * it. The first one is answered at once, since there is nothing that replicas do not have. */
static void what_replicas_have_acknowledged_before_a_second_attempt_does_not_count(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, WAITING)), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_do(&master, "SCRIPT FLUSH");
    server_do(&master, "CONFIG RESETSTAT");
    server_pause(&replica);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "0 of 1 replicas"));
    assert_int_equal(server_number(&master, "EXISTS simba:{m}"), 0);
    assert_non_null(strstr(server_text(&master, "INFO commandstats"), "cmdstat_wait:calls=2,"));
    server_go_on(&replica);
    assert_true(host_close(&host));
}

static void a_right_to_wait_that_is_missing_is_told(void **state)
{
    struct host host;
    struct call call;
    char url[128];

    (void)state;
    server_do(&master, "ACL SETUSER simba on >secret ~* &* +@all -wait");
    snprintf(url, sizeof url, "redis://simba:secret@127.0.0.1:%d%s", master.port, WAITING);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EDENIED);
    assert_non_null(strstr(call.error.text, "does not permit"));
    assert_int_equal(server_number(&master, "EXISTS simba:{m}"), 0); /* it was given back */
    assert_true(host_close(&host));
}

static bool is_waiting(void *user)
{
    (void)user;
    return strstr(server_text(&master, "INFO clients"), "blocked_clients:1") != NULL;
}

/* The counter goes back behind our back, so that the release is refused: the lease is still
 * there. */
static void a_lease_that_could_not_be_given_back_is_not_told_to_be(void **state)
{
    struct host host;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, "?wait-replicas=1&wait-timeout=1s")),
                     SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_pause(&replica);
    host_submit(&host, &call, 1);
    assert_true(test_wait(is_waiting, NULL));
    server_do(&master, "SET simba:{m}:fence 7");
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(server_number(&master, "EXISTS simba:{m}"), 1);
    assert_int_equal(call.code, SIMBA_EUNKNOWN);
    server_go_on(&replica);
    assert_true(host_close(&host));
}

#define BATCH 500

static void a_batch_waits_once_for_all(void **state)
{
    struct call *calls = calloc(BATCH, sizeof *calls);
    char(*names)[16] = calloc(BATCH, sizeof *names);
    struct host host;

    (void)state;
    assert_int_equal(host_open(&host, server_url(&master, WAITING)), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0);
    server_do(&master, "CONFIG RESETSTAT");
    for (size_t i = 0; i < BATCH; i++) {
        snprintf(names[i], sizeof names[i], "batch-%zu", i);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(&host, calls, BATCH);
    assert_true(host_wait(&host, calls, BATCH));
    for (size_t i = 0; i < BATCH; i++)
        if (calls[i].code != SIMBA_OK)
            fail_msg("%zu: %s", i, calls[i].error.text);
    assert_non_null(strstr(server_text(&master, "INFO commandstats"), "cmdstat_wait:calls=1,"));
    assert_true(host_close(&host));
    free(names);
    free(calls);
}

#define TERMS 1000

/* Guards with a transition of six seconds, of mutexes that are owned from now on. */
static struct call *own_terms(struct host *host, char (*names)[16])
{
    struct call *calls = calloc(TERMS, sizeof *calls);

    for (size_t i = 0; i < TERMS; i++) {
        snprintf(names[i], sizeof names[i], "term-%zu", i);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(host, calls, TERMS);
    assert_true(host_wait(host, calls, TERMS));
    for (size_t i = 0; i < TERMS; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        calls[i] = host_call(SIMBA_OP_GUARD, names[i], "a", calls[i].revision);
        calls[i].request.transition_ms = 6000;
        calls[i].request.timeout_ms = 2000;
    }
    assert_int_equal(host_do(host, SIMBA_OP_GUARD, names[0], "a", 0).code, SIMBA_OK);
    return calls;
}

/* The server needs three seconds for all of them, and says what the replicas have behind the last
 * one. */
static void renewals_that_keep_their_turn_wait_for_the_replicas_as_long(void **state)
{
    char(*names)[16] = calloc(TERMS, sizeof *names);
    struct proxy proxy;
    struct host host;
    struct call *guards;
    char url[64];

    (void)state;
    proxy_start(&proxy, master.port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?wait-replicas=1", proxy.port);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    guards = own_terms(&host, names);
    atomic_store(&proxy.rest_ms, 10);
    atomic_store(&proxy.piece, 67);
    host_submit(&host, guards, TERMS);
    assert_true(host_wait(&host, guards, TERMS));
    for (size_t i = 0; i < TERMS; i++)
        if (guards[i].code != SIMBA_OK)
            fail_msg("%zu: %s", i, guards[i].error.text);
    assert_true(host_close(&host));
    proxy_stop(&proxy);
    free(guards);
    free(names);
}

int main(void)
{
#define WITH_SHARED_SENTINELS(test) cmocka_unit_test_setup(test, have_sentinels)
#define WITH_SENTINELS(test) cmocka_unit_test_setup_teardown(test, have_sentinels, stop_sentinels)
#define WITH_REPLICA(test) cmocka_unit_test_setup_teardown(test, start_two, stop_two)
    const struct CMUnitTest tests[] = {
        WITH_SHARED_SENTINELS(a_master_that_nobody_knows_is_told),
        WITH_SHARED_SENTINELS(sentinels_that_do_not_answer_cost_little_and_are_passed_over),
        WITH_SHARED_SENTINELS(a_client_is_not_opened_without_a_majority),
        WITH_SHARED_SENTINELS(without_a_majority_nothing_is_granted_and_nothing_renewed),
        WITH_SHARED_SENTINELS(with_any_the_sentinels_may_all_be_gone),
        WITH_SHARED_SENTINELS(sentinels_that_the_url_does_not_name_are_asked_too),
        WITH_SENTINELS(the_rights_for_sentinels_and_replicas_are_enough_and_needed),
        WITH_SENTINELS(an_ordered_failover_is_followed),
        WITH_SENTINELS(a_failover_is_followed_and_the_lease_kept),
        WITH_REPLICA(a_lease_that_replicas_have_counts),
        WITH_REPLICA(an_acquire_that_replicas_do_not_have_is_given_back),
        WITH_REPLICA(a_request_that_has_less_time_than_the_replicas_is_given_back),
        WITH_REPLICA(silence_behind_a_wait_does_not_end_the_connection),
        WITH_REPLICA(what_replicas_have_acknowledged_before_a_second_attempt_does_not_count),
        WITH_REPLICA(a_right_to_wait_that_is_missing_is_told),
        WITH_REPLICA(a_lease_that_could_not_be_given_back_is_not_told_to_be),
        WITH_REPLICA(a_batch_waits_once_for_all),
        WITH_REPLICA(renewals_that_keep_their_turn_wait_for_the_replicas_as_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
