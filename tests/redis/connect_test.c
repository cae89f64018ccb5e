/*
 * connect_test.c - the way to a server: which of its addresses, which step of it failed, who is at
 * the end of it, and what is said about that and how often.
 */
#include "backend/host.h"
#include "backend/redis/wire/reconnecting.h"
#include "fake.h"
#include "journal.h"
#include "lib/port.h"
#include "party.h"
#include "proxy.h"
#include "server.h"

#include <arpa/inet.h>
#include <signal.h>

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

static const char *local(const char *scheme, int port, const char *rest)
{
    static char url[256];

    snprintf(url, sizeof url, "%s://127.0.0.1:%d%s", scheme, port, rest);
    return url;
}

/* ---- Passwords ------------------------------------------------------------------------------- */

/* Such a server quotes the arguments of what it does not know. */
static void a_password_is_never_told_even_when_the_server_quotes_it(void **state)
{
    struct host host;
    char url[128];

    server_stop(&server);
    server_start(&server, "--rename-command", "AUTH", "", NULL);
    snprintf(url, sizeof url, "redis://somebody:opensesame@127.0.0.1:%d", server.port);
    assert_int_equal(host_open(&host, url), SIMBA_EDENIED);
    assert_null(strstr(host.open_error.text, "opensesame"));
    assert_null(strstr(host.open_error.text, "somebody"));
    assert_non_null(strstr(host.open_error.text, "password"));
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static void add_address(struct sb_wire_endpoint *endpoint, const char *text, int port)
{
    struct sockaddr_in *address =
        (struct sockaddr_in *)&endpoint->addresses[endpoint->address_count++];

    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    assert_int_equal(inet_pton(AF_INET, text, &address->sin_addr), 1);
}

static int ping(const struct sb_wire_endpoint *endpoint, int64_t connect_timeout_ms,
                struct simba_error *error)
{
    static char name[] = "test";
    const struct sb_redis_options options = {
        .client_name = name,
        .connect_timeout_ms = connect_timeout_ms,
        .command_timeout_ms = 2000,
        .idle_timeout_ms = 2000,
    };
    const struct sb_redis_ask_config config = {.options = &options,
                                               .credentials = &options.credentials};
    const struct sb_redis_argument word = {"PING", 4};

    return sb_redis_ask(&config, endpoint, &word, 1, NULL, NULL, error);
}

/* A host has several addresses: one that cannot be, one that refuses, one that never answers. */
static void an_address_that_fails_gives_way_to_the_next(void **state)
{
    struct sb_wire_endpoint endpoint = {.place = {"many", 1}};
    struct tarpit tarpit;
    struct simba_error error = {0};

    tarpit_open(&tarpit);
    add_address(&endpoint, "255.255.255.255", server.port); /* refused by the kernel at once */
    add_address(&endpoint, "127.0.0.1", test_free_port());
    add_address(&endpoint, "127.0.0.1", tarpit.port);
    add_address(&endpoint, "127.0.0.1", server.port);
    if (ping(&endpoint, 3000, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    endpoint.address_count = 3;
    assert_int_equal(ping(&endpoint, 400, &error), SIMBA_EUNAVAILABLE);
    tarpit_close(&tarpit);
}

/* Its kernel takes connections, and nobody is behind it: a machine that hangs, a forwarder without
 * a server. */
static void an_address_that_connects_and_never_answers_gives_way_to_the_next(void **state)
{
    struct sb_wire_endpoint endpoint = {.place = {"many", 1}};
    struct simba_error error = {0};
    struct server silent = {0};

    server_start(&silent, NULL);
    server_pause(&silent);
    add_address(&endpoint, "127.0.0.1", silent.port);
    add_address(&endpoint, "127.0.0.1", silent.port);
    add_address(&endpoint, "127.0.0.1", server.port);
    if (ping(&endpoint, 1500, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    endpoint.address_count = 2;
    assert_int_equal(ping(&endpoint, 400, &error), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(error.text, "greeting"));
    server_go_on(&silent);
    server_stop(&silent);
}

/* A forwarder whose server is gone. It is left at once, not when its share of the time is over. */
static void an_address_that_connects_and_hangs_up_gives_way_to_the_next(void **state)
{
    struct sb_wire_endpoint endpoint = {.place = {"many", 1}};
    struct simba_error error = {0};
    int64_t begin_ms = test_now_ms();
    struct fake fake;

    fake_start(&fake, NULL);
    add_address(&endpoint, "127.0.0.1", fake.port);
    add_address(&endpoint, "127.0.0.1", fake.port);
    add_address(&endpoint, "127.0.0.1", server.port);
    if (ping(&endpoint, 60000, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    assert_true(test_now_ms() - begin_ms < 10000);
    endpoint.address_count = 2;
    assert_int_equal(ping(&endpoint, 60000, &error), SIMBA_EUNAVAILABLE);
    assert_int_equal(atomic_load(&fake.connections), 4);
    fake_stop(&fake);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void the_step_that_took_too_long_is_told(void **state)
{
    struct tarpit tarpit;

    tarpit_open(&tarpit);
    host_expect_failure(local("redis", tarpit.port, "?connect-timeout=200ms"), SIMBA_EUNAVAILABLE,
                        "not be connected to");
    tarpit_close(&tarpit);
    server_pause(&server);
    host_expect_failure(local("redis", server.port, "?connect-timeout=200ms"), SIMBA_EUNAVAILABLE,
                        "greeting");
    host_expect_failure(local("rediss", server.port, "?connect-timeout=200ms"), SIMBA_EUNAVAILABLE,
                        "TLS");
    server_go_on(&server);
}

/* There is always something to be read, and it never makes a handshake. */
static void a_handshake_that_dribbles_on_ends_at_its_time(void **state)
{
    int64_t begin_ms = test_now_ms();
    struct fake fake;

    fake_start_dribbling(&fake, "\x16\x03\x03\x3f\xff");
    host_expect_failure(local("rediss", fake.port, "?connect-timeout=300ms"), SIMBA_EUNAVAILABLE,
                        "TLS");
    assert_true(test_now_ms() - begin_ms < 10000);
    fake_stop(&fake);
}

static void a_plain_server_is_neither_a_sentinel_nor_a_cluster(void **state)
{
    host_expect_failure(local("redis+sentinel", server.port, "/main"), SIMBA_ECONFIG,
                        "use redis://");
    host_expect_failure(local("redis+cluster", server.port, ""), SIMBA_ECONFIG, "use redis://");
}

/* A sentinel that is not let in without a password is not told the master's. */
static void a_sentinel_that_wants_a_password_is_named(void **state)
{
    char url[256];

    server_do(&server, "CONFIG SET requirepass word");
    snprintf(url, sizeof url, "redis+sentinel://:word@127.0.0.1:%d/main", server.port);
    host_expect_failure(
        url, SIMBA_EDENIED,
        "wants a password: set sentinel-password (that of the URL is for the master)");
}

/* ---- Who is there ---------------------------------------------------------------------------- */

/* The announced array is never there: it must cost neither memory nor the connect-timeout. */
static void a_server_that_announces_too_much_is_left(void **state)
{
    static const char *const texts[] = {"*1000000000\r\n", "*60000\r\n*60000\r\n*2000000\r\n",
                                        "HTTP/1.1 400 Bad Request\r\n\r\n"};

    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct fake fake;

        fake_start(&fake, texts[i]);
        host_expect_failure(local("redis", fake.port, "?connect-timeout=5s"), SIMBA_EUNAVAILABLE,
                            "protocol of Redis");
        fake_stop(&fake);
    }
}

static bool has_come(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

static bool works(void *user)
{
    struct host *host = user;
    int64_t at_ms = test_now_ms() + 5;

    host_run_until(host, has_come, &at_ms); /* lets the loop connect meanwhile */
    return host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

/* The forwarder leads to the new master; the connection to the old one is still up. */
static void a_master_that_became_a_replica_is_left(void **state)
{
    struct server promoted = {0};
    struct proxy proxy;
    struct host host;

    server_start(&promoted, NULL);
    proxy_start(&proxy, server.port);
    assert_int_equal(host_open(&host, local("redis", proxy.port, "")), SIMBA_OK);
    assert_true(works(&host));
    server_do(&server, "REPLICAOF 127.0.0.1 %d", promoted.port);
    atomic_store(&proxy.server_port, promoted.port);
    assert_true(test_wait(works, &host));
    assert_string_equal(server_text(&promoted, "GET simba:{m}"), "a");
    assert_true(host_close(&host));
    proxy_stop(&proxy);
    server_stop(&promoted);
}

/* ---- What is said ---------------------------------------------------------------------------- */

static void open_with(struct journal *journal, const char *url, simba_client **ret_client)
{
    struct simba_client_options options = journal_options(journal);
    struct simba_error error = {0};

    if (simba_client_open(url, &options, ret_client, &error) != SIMBA_OK)
        fail_msg("%s: %s", url, error.text);
}

static void a_server_that_evicts_leases_is_warned_of(void **state)
{
    static struct journal journal;
    simba_client *client;

    journal_init(&journal);
    server_do(&server, "CONFIG SET maxmemory-policy volatile-lru");
    open_with(&journal, local("redis", server.port, ""), &client); /* no limit, so no eviction */
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    assert_int_equal(journal_count(&journal, SIMBA_LOG_WARN, ""), 0);
    server_do(&server, "CONFIG SET maxmemory 100mb");
    open_with(&journal, local("redis", server.port, ""), &client);
    journal_await(&journal, SIMBA_LOG_WARN, "volatile-lru");
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    journal_free(&journal);
}

/* One event, two connections, one warning; then silence, and one line when it is over. */
static void an_outage_is_warned_of_once_and_its_end_told(void **state)
{
    static struct journal journal;
    struct simba_client_options options;
    struct party waiter;

    journal_init(&journal);
    options = journal_options(&journal);
    server_do(&server, "SET simba:{m} jvm PX 60000");
    party_join_with(&waiter, &options,
                    server_url(&server, "?ttl=300ms&transition=600ms&jitter=0ms..50ms"), "m", "b");
    while (server_clients(&server, "simba") < 2)
        test_pause_ms(1);
    server_kill(&server, SIGKILL);
    journal_await(&journal, SIMBA_LOG_WARN, "redis: ");
    while (journal_count(&journal, SIMBA_LOG_DEBUG, "redis: ") < 8)
        test_pause_ms(1);
    assert_int_equal(journal_count(&journal, SIMBA_LOG_WARN, "redis: "), 1);
    server_start_again(&server);
    journal_await(&journal, SIMBA_LOG_INFO, "again");
    party_await_acquired(&waiter, 1);
    assert_int_equal(journal_count(&journal, SIMBA_LOG_WARN, "redis: "), 1);
    assert_int_equal(journal_count(&journal, SIMBA_LOG_INFO, "again"), 1);
    party_leave(&waiter);
    journal_free(&journal);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_password_is_never_told_even_when_the_server_quotes_it),
        CASE(an_address_that_fails_gives_way_to_the_next),
        CASE(an_address_that_connects_and_never_answers_gives_way_to_the_next),
        CASE(an_address_that_connects_and_hangs_up_gives_way_to_the_next),
        CASE(the_step_that_took_too_long_is_told),
        CASE(a_handshake_that_dribbles_on_ends_at_its_time),
        CASE(a_plain_server_is_neither_a_sentinel_nor_a_cluster),
        CASE(a_sentinel_that_wants_a_password_is_named),
        CASE(a_server_that_announces_too_much_is_left),
        CASE(a_master_that_became_a_replica_is_left),
        CASE(a_server_that_evicts_leases_is_warned_of),
        CASE(an_outage_is_warned_of_once_and_its_end_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
