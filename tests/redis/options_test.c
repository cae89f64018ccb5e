/*
 * options_test.c - what a URL says, and which URLs are refused before anything is connected to.
 */
#include "backend/redis/wire/resp.h"
#include "backend/redis/options.h"
#include "base/url.h"
#include "test.h"

static int read_url(const char *text, struct sb_redis_options *options, struct simba_error *error)
{
    struct simba_backend_config config = {.ttl_ms = 10000, .transition_ms = 6000};
    int code = sb_url_parse(text, &config.url, error);

    if (code == SIMBA_OK)
        code = sb_redis_options_read(options, &config, error);
    sb_url_free(config.url);
    return code;
}

static void the_schemes_are_those_of_the_documents(void **state)
{
    static const char *const served[] = {"redis",           "rediss",        "redis+unix",
                                         "redis+sentinel",  "redis+cluster", "rediss+sentinel",
                                         "rediss+cluster",  "valkey",        "valkeys",
                                         "valkeys+cluster", "valkey+unix"};
    static const char *const not_served[] = {"redisx", "redis+", "rediss+unix", "re", "sqlite", ""};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(served); i++)
        assert_true(sb_redis_serves(served[i]));
    for (size_t i = 0; i < TEST_COUNT(not_served); i++)
        assert_false(sb_redis_serves(not_served[i]));
}

static void a_plain_url_has_the_defaults(void **state)
{
    struct sb_redis_options o;
    struct simba_error error;

    (void)state;
    assert_int_equal(read_url("redis://", &o, &error), SIMBA_OK);
    assert_int_equal(o.place_count, 1);
    assert_string_equal(o.places[0].host, "localhost");
    assert_int_equal(o.places[0].port, 6379);
    assert_null(o.credentials.password.text);
    assert_int_equal(o.database, 0);
    assert_string_equal(o.client_name, "simba");
    assert_int_equal(o.connect_timeout_ms, 5000);
    assert_int_equal(o.command_timeout_ms, 2000);
    assert_int_equal(o.idle_timeout_ms, 15000);
    assert_int_equal(o.keep_alive_ms, 15000);
    assert_int_equal(o.wait_replicas, 0);
    assert_false(o.tls);
    assert_int_equal(o.lease_ms, 16000);
    sb_redis_options_free(&o);
}

static void every_part_of_a_url_is_read(void **state)
{
    struct sb_redis_options o;
    struct simba_error error;

    (void)state;
    assert_int_equal(read_url("rediss://us%65r:p%40ss@[::1]:7000/3?client-name=me&keep-alive=0s&"
                              "connect-timeout=1s&command-timeout=700ms&idle-timeout=9s&"
                              "wait-replicas=2&wait-timeout=300ms&tls-server-name=x&tls-verify=no",
                              &o, &error),
                     SIMBA_OK);
    assert_string_equal(o.credentials.user, "user");
    assert_string_equal(o.credentials.password.text, "p@ss");
    assert_string_equal(o.places[0].host, "::1");
    assert_int_equal(o.places[0].port, 7000);
    assert_int_equal(o.database, 3);
    assert_string_equal(o.client_name, "me");
    assert_int_equal(o.command_timeout_ms, 700);
    assert_int_equal(o.wait_replicas, 2);
    assert_true(o.tls);
    assert_false(o.trust.verify);
    assert_string_equal(o.trust.server_name, "x");
    sb_redis_options_free(&o);

    assert_int_equal(read_url("redis+sentinel://h1,h2:7/main/2?sentinel-password=s", &o, &error),
                     SIMBA_OK);
    assert_int_equal(o.mode, SB_REDIS_SENTINEL);
    assert_int_equal(o.places[0].port, 26379);
    assert_int_equal(o.places[1].port, 7);
    assert_string_equal(o.master_name, "main");
    assert_int_equal(o.database, 2);
    assert_string_equal(o.sentinel_credentials.password.text, "s");
    sb_redis_options_free(&o);

    assert_int_equal(read_url("redis+unix://:secret@/run/r.sock?db=4", &o, &error), SIMBA_OK);
    assert_string_equal(o.places[0].host, "/run/r.sock");
    assert_int_equal(o.places[0].port, 0);
    assert_string_equal(o.credentials.password.text, "secret");
    assert_int_equal(o.database, 4);
    sb_redis_options_free(&o);
}

static void urls_that_make_no_sense_are_refused_with_the_reason(void **state)
{
    static const struct {
        const char *url;
        const char *reason;
    } rows[] = {
        {"redis://h1,h2", "2 hosts"},
        {"redis://h/x", "database"},
        {"redis://h/-1", "database"},
        {"redis://h?db=99999999999999999999", "it must be a number from 0 to 65535"},
        {"redis:/localhost", "write redis://localhost"},
        {"redis:///jobs", "write redis://localhost"},
        {"redis:/user:word@host", "write redis://localhost"},
        {"rediss:localhost:6380", "write rediss://localhost"},
        {"redis://user@h", "no password"},
        {"redis://h?connect-timeout=0s", "connect-timeout"},
        {"redis://h?idle-timeout=soon", "idle-timeout"},
        {"redis://h?wait-replicas=-1", "wait-replicas"},
        {"redis://h?wait-timeout=5s", "less than command-timeout"},
        {"redis://h?wait-replicas=1&wait-timeout=7s&command-timeout=9s",
         "less than the transition"},
        {"redis://h?client-name=a%20b", "client-name"},
        {"redis://h/0?db=5", "database twice"},
        {"redis://h/5?db=5", "database twice"},
        {"redis+sentinel://h/main/1?db=0", "database twice"},
        {"redis+unix:", "path of a unix socket"},
        {"redis+unix://h/x", "has no host"},
        {"redis+sentinel://h", "names no master"},
        {"redis+cluster://h/1", "database 0 only"},
        {"rediss://h?tls-key=x", "must be given together"},
    };
    struct sb_redis_options o;
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (read_url(rows[i].url, &o, &error) != SIMBA_EINVAL ||
            strstr(error.text, rows[i].reason) == NULL)
            fail_msg("%s: %d %s", rows[i].url, error.code, error.text);
    }
}

static void options_tell_what_they_need(void **state)
{
    static const struct {
        const char *url;
        const char *text;
    } rows[] = {
        {"redis://h?tls-ca=x", "the option 'tls-ca' needs TLS: write rediss://"},
        {"valkey+cluster://h?tls-cert=x",
         "the option 'tls-cert' needs TLS: write valkeys+cluster://"},
        {"redis+unix:/s?tls-verify=no", "the option 'tls-verify' needs TLS: write rediss://"},
        {"redis://h?tls-key-password-file=x",
         "the option 'tls-key-password' needs TLS: write rediss://"},
        {"redis://h?sentinel-quorum=any",
         "the option 'sentinel-quorum' needs sentinels: write redis+sentinel://"},
        {"rediss+cluster://h?sentinel-user=u",
         "the option 'sentinel-user' needs sentinels: write rediss+sentinel://"},
        {"redis://h?allow-hosts=a", "the option 'allow-hosts' needs sentinels or a cluster: write "
                                    "redis+sentinel:// or redis+cluster://"},
    };
    struct sb_redis_options o;
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        assert_int_equal(read_url(rows[i].url, &o, &error), SIMBA_ECONFIG);
        assert_string_equal(error.text, rows[i].text);
    }
}

static void error_replies_are_told_apart(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *words;
    } rows[] = {
        {"NOAUTH Authentication required.", SIMBA_EDENIED, "wants a password"},
        {"WRONGPASS invalid username-password pair or user is disabled.", SIMBA_EDENIED, "refused"},
        {"NOPERM this user has no permissions", SIMBA_EDENIED, "does not permit"},
        {"READONLY You can't write against a read only replica.", SIMBA_EUNAVAILABLE, "replica"},
        {"OOM command not allowed when used memory > 'maxmemory'. script: f, on @user_script:7.",
         SIMBA_ESTORE, "'maxmemory'."},
        {"ERR Error running script (call to f_12ab): @user_script:7: OOM command not allowed",
         SIMBA_ESTORE, "maxmemory"},
        {"ERR Error running script (call to f_12ab): @user_script: 7: -READONLY You can't",
         SIMBA_EUNAVAILABLE, "replica"},
        {"ERR ACL failure in script: No permissions to access a channel script: f, on "
         "@user_script:1.",
         SIMBA_EDENIED, "a channel"},
        {"ERR ACL failure in script:", SIMBA_EDENIED, "does not permit"},
        {"LOADING Redis is loading the dataset in memory", SIMBA_EUNAVAILABLE, "loading"},
        {"BUSY Redis is busy running a script.", SIMBA_EUNAVAILABLE, "script"},
        {"MISCONF Redis is configured to save RDB snapshots", SIMBA_ESTORE, "persist"},
        {"CLUSTERDOWN Hash slot not served", SIMBA_EUNAVAILABLE, "cluster that is down"},
        {"MOVED 3999 127.0.0.1:6381", SIMBA_ESTORE, "redis+cluster://"},
        {"ERR max number of clients reached", SIMBA_EUNAVAILABLE, "no connection to spare"},
        {"ERR unknown command `SENTINEL`, with args beginning with: `x`, ", SIMBA_ECONFIG,
         "use redis://"},
        {"ERR This instance has cluster support disabled", SIMBA_ECONFIG, "use redis://"},
        {"ERR something else", SIMBA_ESTORE, "something else"},
        {"BUSYGROUP no", SIMBA_ESTORE, "failed"},
        {"", SIMBA_ESTORE, "failed"},
    };
    const struct sb_wire_place place = {"h", 1};
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (sb_redis_fail(&place, rows[i].text, &error) != rows[i].code ||
            strstr(error.text, rows[i].words) == NULL || strstr(error.text, "h:1") == NULL)
            fail_msg("%s: %d %s", rows[i].text, error.code, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schemes_are_those_of_the_documents),
        cmocka_unit_test(a_plain_url_has_the_defaults),
        cmocka_unit_test(every_part_of_a_url_is_read),
        cmocka_unit_test(urls_that_make_no_sense_are_refused_with_the_reason),
        cmocka_unit_test(options_tell_what_they_need),
        cmocka_unit_test(error_replies_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
