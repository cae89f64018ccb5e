/*
 * crowd_test.c - more requests at once than the server can answer soon: those that keep a lease
 * pass the others, what was never sent is known not to be done, and a server with much to do is not
 * taken for a dead one.
 */
#include "backend/host.h"
#include "proxy.h"
#include "server.h"

#include <simba/simba.h>

#define CROWD 16000
#define OWNERS 100
#define UNDER_WAY 2048 /* at most, on a connection */
#define TERMS 3000
#define LEAVING 9000

static struct server server;
static struct proxy proxy;
static char (*names)[16];

static int begin(void **state)
{
    memset(&server, 0, sizeof server);
    server_start(&server, NULL);
    proxy_start(&proxy, server.port);
    names = calloc(CROWD, sizeof *names);
    for (size_t i = 0; i < CROWD; i++)
        snprintf(names[i], sizeof names[i], "crowd-%zu", i);
    return 0;
}

static int end(void **state)
{
    free(names);
    proxy_stop(&proxy);
    server_stop(&server);
    return 0;
}

/* A reply has some twenty bytes. */
static void slow_down(int piece, int rest_ms)
{
    atomic_store(&proxy.rest_ms, rest_ms);
    atomic_store(&proxy.piece, piece);
}

static const char *proxy_url(const char *rest)
{
    static char url[128];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", proxy.port, rest);
    return url;
}

/* Calls for the first `count` names. */
static struct call *crowd(enum simba_op op, size_t count, int64_t timeout_ms)
{
    struct call *calls = calloc(count, sizeof *calls);

    for (size_t i = 0; i < count; i++) {
        calls[i] = host_call(op, names[i], "a", 0);
        calls[i].request.timeout_ms = timeout_ms;
    }
    return calls;
}

static void set_times(struct call *call, int64_t ttl_ms, int64_t transition_ms, int64_t timeout_ms)
{
    call->request.ttl_ms = ttl_ms;
    call->request.transition_ms = transition_ms;
    call->request.timeout_ms = timeout_ms;
}

static size_t count_code(const struct call *calls, size_t count, int code)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += calls[i].answered && calls[i].code == code;
    return found;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void renewals_pass_acquires_that_came_before_them(void **state)
{
    struct call *acquires = crowd(SIMBA_OP_ACQUIRE, CROWD, 60000);
    struct call guards[OWNERS];
    struct host host;
    char owned[OWNERS][16];
    size_t done;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    for (size_t i = 0; i < OWNERS; i++) {
        snprintf(owned[i], sizeof owned[i], "owned-%zu", i);
        guards[i] = host_do(&host, SIMBA_OP_ACQUIRE, owned[i], "a", 0);
        guards[i] = host_call(SIMBA_OP_GUARD, owned[i], "a", guards[i].revision);
    }
    slow_down(2000, 5);
    host_submit(&host, acquires, CROWD);
    host_submit(&host, guards, OWNERS);
    assert_true(host_wait(&host, guards, OWNERS));
    done = count_code(acquires, CROWD, SIMBA_OK);
    assert_int_equal(count_code(guards, OWNERS, SIMBA_OK), OWNERS);
    assert_in_range(done, 1, 2 * UNDER_WAY);
    assert_true(host_wait(&host, acquires, CROWD));
    assert_int_equal(count_code(acquires, CROWD, SIMBA_OK), CROWD);
    slow_down(0, 0);
    assert_true(host_close(&host));
    free(acquires);
}

/* Guards of mutexes that are owned from now on. */
static struct call *own(struct host *host, size_t count)
{
    struct call *calls = crowd(SIMBA_OP_ACQUIRE, count, 60000);

    host_submit(host, calls, count);
    assert_true(host_wait(host, calls, count));
    assert_int_equal(count_code(calls, count, SIMBA_OK), count);
    for (size_t i = 0; i < count; i++)
        calls[i] = host_call(SIMBA_OP_GUARD, names[i], "a", calls[i].revision);
    return calls;
}

/* Most of those that own stop at once, and a release has an earlier deadline than a guard has.
 * Those that stay would lose their leases to the ones that go. */
static void renewals_pass_releases_that_came_before_them(void **state)
{
    struct call *guards;
    struct call *releases;
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    guards = own(&host, LEAVING + OWNERS);
    releases = guards + OWNERS;
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "warm-up", "a", 0).code, SIMBA_OK);
    for (size_t i = 0; i < OWNERS; i++)
        set_times(&guards[i], 3000, 9000, 3000);
    for (size_t i = 0; i < LEAVING; i++) {
        releases[i].request.op = SIMBA_OP_RELEASE;
        set_times(&releases[i], 3000, 9000, 4000);
    }
    slow_down(300, 10);
    host_submit(&host, releases, LEAVING);
    host_submit(&host, guards, OWNERS);
    assert_true(host_wait(&host, guards, OWNERS));
    assert_int_equal(count_code(guards, OWNERS, SIMBA_OK), OWNERS);
    assert_in_range(count_code(releases, LEAVING, SIMBA_OK), 1, 2 * UNDER_WAY);
    assert_true(host_wait(&host, releases, LEAVING));
    slow_down(0, 0);
    assert_true(host_close(&host));
    free(guards);
}

/* ---- What was not sent ----------------------------------------------------------------------- */

/* The server carries out what it had been sent when it goes on. Of the others it never hears. */
static void what_had_no_turn_is_known_not_to_be_done(void **state)
{
    struct call *calls = crowd(SIMBA_OP_ACQUIRE, 3 * UNDER_WAY, 300);
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_pause(&server);
    host_submit(&host, calls, 3 * UNDER_WAY);
    assert_true(host_wait(&host, calls, 3 * UNDER_WAY));
    server_go_on(&server);
    assert_in_range(count_code(calls, 3 * UNDER_WAY, SIMBA_EUNKNOWN), 1, UNDER_WAY);
    for (size_t i = 0; i < 3 * UNDER_WAY; i++) {
        assert_int_equal(calls[i].answers, 1);
        if (calls[i].code != SIMBA_EUNKNOWN)
            assert_int_equal(calls[i].code, SIMBA_EUNAVAILABLE);
    }
    /* The owner, the token and the time of each. */
    assert_in_range(server_number(&server, "DBSIZE"), 3, 3 * (UNDER_WAY + 1));
    assert_true(host_close(&host));
    free(calls);
}

/* A server that says something all the time, but too little: those that wait are answered at their
 * own deadlines, and the connection stays. */
static void a_turn_that_does_not_come_in_time_is_told(void **state)
{
    struct call *calls = crowd(SIMBA_OP_ACQUIRE, 3 * UNDER_WAY, 700);
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("?client-name=patient")), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    slow_down(1000, 50);
    host_submit(&host, calls, 3 * UNDER_WAY);
    assert_true(host_wait(&host, calls, 3 * UNDER_WAY));
    assert_true(count_code(calls, 3 * UNDER_WAY, SIMBA_EUNAVAILABLE) > UNDER_WAY);
    for (size_t i = 0; i < 3 * UNDER_WAY; i++)
        if (calls[i].code == SIMBA_EUNAVAILABLE)
            assert_non_null(strstr(calls[i].error.text, "not sent in time"));
    assert_int_equal(host.log_count, 0);
    slow_down(0, 0);
    assert_true(host_close(&host));
    free(calls);
}

/* ---- Silence --------------------------------------------------------------------------------- */

/* Deadlines pass in the pauses between the pieces of what the server says. */
static void a_server_that_is_slow_keeps_its_connection(void **state)
{
    struct call *calls = crowd(SIMBA_OP_ACQUIRE, 200, 0);
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_ACQUIRE, "warm-up", "a", 0).code, SIMBA_OK);
    server_do(&server, "CONFIG RESETSTAT");
    slow_down(200, 400);
    for (size_t i = 0; i < 200; i++)
        calls[i].request.timeout_ms = 700 + (int64_t)i * 5;
    host_submit(&host, calls, 200);
    assert_true(host_wait(&host, calls, 200));
    assert_in_range(count_code(calls, 200, SIMBA_EUNKNOWN), 1, 199);
    slow_down(0, 0);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "warm-up", NULL, 0).code, SIMBA_OK);
    assert_int_equal(host.log_count, 0);
    assert_non_null(strstr(server_text(&server, "INFO stats"), "total_connections_received:0"));
    assert_true(host_close(&host));
    free(calls);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Guards with such times on a server that needs eight seconds for all of them. */
static struct call *renew_slowly(struct host *host, int64_t transition_ms, int64_t timeout_ms)
{
    struct call *guards = own(host, OWNERS);

    assert_int_equal(host_do(host, SIMBA_OP_GUARD, names[0], "a", 0).code, SIMBA_OK);
    for (size_t i = 0; i < OWNERS; i++)
        set_times(&guards[i], 20000, transition_ms, timeout_ms);
    slow_down(25, 100);
    host_submit(host, guards, OWNERS);
    assert_true(host_wait(host, guards, OWNERS));
    slow_down(0, 0);
    return guards;
}

/* A stop has to wait for the renewal under way, and must come to its release while the lease is
 * still there. */
static void a_renewal_keeps_its_turn_for_a_part_of_the_transition_only(void **state)
{
    int64_t begun_ms = test_now_ms();
    struct call *guards;
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    guards = renew_slowly(&host, 6000, 2000);
    assert_in_range(test_now_ms() - begun_ms, 3000, 5500);
    assert_in_range(count_code(guards, OWNERS, SIMBA_OK), 1, OWNERS - 1);
    assert_true(host_close(&host));
    free(guards);
}

static void a_time_limit_beyond_the_transition_holds(void **state)
{
    struct call *guards;
    struct host host;

    assert_int_equal(host_open(&host, proxy_url("")), SIMBA_OK);
    guards = renew_slowly(&host, 1500, 30000);
    assert_int_equal(count_code(guards, OWNERS, SIMBA_OK), OWNERS);
    assert_true(host_close(&host));
    free(guards);
}

/* ---- The library ----------------------------------------------------------------------------- */

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics;
}

struct expected {
    simba_client *client;
    uint64_t owned;
};

static bool are_owned(void *user)
{
    const struct expected *expected = user;

    return metrics_of(expected->client).owned >= expected->owned;
}

static void await_owned(simba_client *client, uint64_t owned)
{
    struct expected expected = {client, owned};

    assert_true(test_wait_within(3 * TEST_PATIENCE_MS, are_owned, &expected));
}

struct renewed {
    simba_client *client;
    uint64_t renewals;
};

static bool are_renewed(void *user)
{
    const struct renewed *renewed = user;
    struct simba_metrics metrics = metrics_of(renewed->client);

    return metrics.renewals >= renewed->renewals || metrics.losses > 0;
}

static void await_renewals(simba_client *client, uint64_t renewals)
{
    struct renewed renewed = {client, renewals};

    assert_true(test_wait_within(3 * TEST_PATIENCE_MS, are_renewed, &renewed));
}

static void lead(simba_client *client, const char *prefix, size_t count, int64_t ttl_ms,
                 simba_contender **contenders)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    char mutex[32];

    options.mutex = mutex;
    options.ttl_ms = ttl_ms;
    for (size_t i = 0; i < count; i++) {
        snprintf(mutex, sizeof mutex, "%s-%zu", prefix, i);
        assert_int_equal(simba_contender_create(client, &options, &contenders[i], NULL), SIMBA_OK);
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    }
}

/* The newcomers keep the server busy for longer than the owners' leases last. */
static void no_lease_is_lost_to_a_crowd_of_newcomers(void **state)
{
    simba_contender **contenders = calloc(OWNERS + CROWD, sizeof(simba_contender *));
    simba_client *client;
    uint64_t renewals;

    assert_int_equal(simba_client_open(proxy_url("?transition=3s"), NULL, &client, NULL), SIMBA_OK);
    lead(client, "owned", OWNERS, 1000, contenders);
    await_owned(client, OWNERS);
    slow_down(600, 10);
    renewals = metrics_of(client).renewals;
    lead(client, "crowd", CROWD, 120000, contenders + OWNERS);
    await_owned(client, OWNERS + CROWD);
    assert_int_equal(metrics_of(client).losses, 0);
    assert_true(metrics_of(client).renewals - renewals >= OWNERS);
    slow_down(0, 0);
    for (size_t i = 0; i < OWNERS + CROWD; i++)
        simba_contender_close(contenders[i]);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    free(contenders);
}

/* In four seconds the server gets round to all of them once, which is more than a renewal's time
 * limit and less than a transition. A client that gave up what the server is about to answer and
 * asked again would double its work. */
static void no_lease_is_lost_to_a_server_that_has_become_slow(void **state)
{
    simba_contender **contenders = calloc(TERMS, sizeof(simba_contender *));
    simba_client *client;

    assert_int_equal(simba_client_open(proxy_url("?transition=9s"), NULL, &client, NULL), SIMBA_OK);
    lead(client, "term", TERMS, 3000, contenders);
    await_renewals(client, TERMS); /* by then the server knows the script */
    slow_down(150, 10);
    await_renewals(client, 4 * TERMS);
    assert_int_equal(metrics_of(client).losses, 0);
    slow_down(0, 0);
    for (size_t i = 0; i < TERMS; i++)
        simba_contender_close(contenders[i]);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    free(contenders);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(renewals_pass_acquires_that_came_before_them),
        CASE(renewals_pass_releases_that_came_before_them),
        CASE(what_had_no_turn_is_known_not_to_be_done),
        CASE(a_turn_that_does_not_come_in_time_is_told),
        CASE(a_server_that_is_slow_keeps_its_connection),
        CASE(a_renewal_keeps_its_turn_for_a_part_of_the_transition_only),
        CASE(a_time_limit_beyond_the_transition_holds),
        CASE(no_lease_is_lost_to_a_crowd_of_newcomers),
        CASE(no_lease_is_lost_to_a_server_that_has_become_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
