/*
 * What is wrong with a configuration: each mistake is told with its line, its column and its key,
 * and no password is quoted.
 */
#include "test.h"

#include <simba/simba.h>

#include <stdio.h>
#include <string.h>

struct refusal {
    const char *text;
    const char *sentence; /* behind "c.yaml:" */
};

/* The sentence that a configuration is refused with, in static memory. */
static const char *refuse(const char *text)
{
    static struct simba_error error;
    char *url = NULL;
    int code = simba_config_parse(text, strlen(text), "c.yaml", &url, &error);

    if (code == SIMBA_OK)
        fail_msg("not refused: %s", text);
    assert_null(url);
    assert_int_equal(code, SIMBA_ECONFIG);
    assert_int_equal(error.code, code);
    if (strncmp(error.text, "c.yaml:", 7) != 0 || strstr(error.text, "s3cret") != NULL)
        fail_msg("%s\nis refused with: %s", text, error.text);
    return error.text + 7;
}

static void check_refusals(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *sentence = refuse(refusals[i].text);

        if (strcmp(sentence, refusals[i].sentence) != 0)
            fail_msg("%s\nis refused with: %s\nand not with: %s", refusals[i].text, sentence,
                     refusals[i].sentence);
    }
}

/* The same where a part of the sentence is enough. */
static void check_part(const char *text, const char *part)
{
    const char *sentence = refuse(text);

    if (strstr(sentence, part) == NULL)
        fail_msg("%s\nis refused with: %s\nand not with: %s", text, sentence, part);
}

/* ---- Keys and values ------------------------------------------------------------------------- */

#define STORES                                                                                     \
    "; the store is named by simba.url, or by the url of simba.jdbc (SQLite, PostgreSQL, MySQL), " \
    "simba.redis or simba.zookeeper"

static const struct refusal unknown_keys[] = {
    {"simba:\n  url: memory:x\n  tll: 5s\n",
     "3:3: unknown key 'simba.tll'; did you mean 'simba.ttl'?"},
    {"simba:\n  jdbc:\n    url: sqlite:a\n    client-name: x\n",
     "4:5: unknown key 'simba.jdbc.client-name'"},
    {"spring: {}\nsimba.url: memory:x\n", "1:1: unknown key 'spring'"},
    {"redis: {url: 'redis://h'}\n", "1:1: unknown key 'redis'; did you mean 'simba.redis'?"},
    {"jdbc.url: sqlite:a\n", "1:1: unknown key 'jdbc.url'; did you mean 'simba.jdbc.url'?"},
    {"url: memory:x\n", "1:1: unknown key 'url'; did you mean 'simba.url'?"},
    {"ttl: 5s\n", "1:1: unknown key 'ttl'; did you mean 'simba.ttl'?"},
    {"simbas.url: memory:x\n", "1:1: unknown key 'simbas.url'; did you mean 'simba.url'?"},
    {"simba: {sqlite: {path: a}}", "1:9: unknown key 'simba.sqlite'" STORES},
    {"simba: {postgres.url: 'postgres://h/d'}", "1:9: unknown key 'simba.postgres.url'" STORES},
    {"simba: {jdbc: {url: 'sqlite:a', options: {ttl: 5s}}}",
     "1:33: unknown key 'simba.jdbc.options'"},
    {"simba: {jdbc: {url: 'sqlite:a', ttl.x: 5s}}", "1:33: unknown key 'simba.jdbc.ttl.x'"},
    {"simba: {jdbc: {url: 'sqlite:a', busytimeout: 5s}}",
     "1:33: unknown key 'simba.jdbc.busytimeout'; did you mean 'simba.jdbc.busy-timeout'?"},
    {"simba: {jdbc: {url: 'sqlite:a', pasword-file: x}}",
     "1:33: unknown key 'simba.jdbc.pasword-file'; did you mean 'simba.jdbc.password-file'?"},
    {"simba: {jdbc: {tls-verfy: x}}",
     "1:16: unknown key 'simba.jdbc.tls-verfy'; did you mean 'simba.jdbc.tls-verify'?"},
    {"simba: {mongo: {url: 'x:'}}", "1:9: unknown key 'simba.mongo'" STORES},
    {"simba:\n  redos:\n    url: redis://h\n",
     "2:3: unknown key 'simba.redos'; did you mean 'simba.redis'?"},
    {"simba: {url: 'memory:', jdbc: {enabled: false, t.tl: 1s}}",
     "1:48: unknown key 'simba.jdbc.t.tl'; did you mean 'simba.jdbc.ttl'?"},
    {"'': 1", "1:1: unknown key ''"},
    {"simba: {'': 1}", "1:9: unknown key 'simba.'"},
};

static void unknown_keys_are_refused_and_the_nearest_is_named(void **state)
{
    (void)state;
    check_refusals(unknown_keys, TEST_COUNT(unknown_keys));
}

static const struct refusal wrong_types[] = {
    {"simba:\n  url: memory:x\n  ttl: soon\n", "3:8: simba.ttl: 'soon' is not a duration: write "
                                               "250ms, 10s, 1m30s or 2h"},
    {"simba:\n  url: memory:x\n  ttl: 10\n", "3:8: simba.ttl: the duration '10' has no unit: write "
                                             "10s for seconds or 10ms for milliseconds"},
    {"simba: {url: 'memory:', jitter: 5s}",
     "1:33: simba.jitter: this must be a range of two durations such as -200ms..1s"},
    {"simba: {url: 'memory:', turn: 5}", "1:31: simba.turn: the duration '5' has no unit: write 5s "
                                         "for seconds or 5ms for milliseconds"},
    {"simba: {url: 'memory:', jitter: 5s..}",
     "1:33: simba.jitter: this must be a range of two durations such as -200ms..1s"},
    {"simba: {url: 'memory:', enabled: maybe}", "1:34: simba.enabled: this must be true or false"},
    {"simba: {url: 'memory:', enabled: {a: b}}", "1:34: simba.enabled: this must be true or false"},
    {"simba: {jdbc: {url: 'sqlite:a', create: 2}}",
     "1:41: simba.jdbc.create: this must be true or false"},
    {"simba: {jdbc: {url: 'sqlite:a', synchronous: off}}",
     "1:46: simba.jdbc.synchronous: this must be one of: normal full"},
    {"simba: {url: 'memory:', ttl: }", "1:30: simba.ttl: the value is missing"},
    {"simba: {url: }", "1:14: simba.url: the value is missing"},
    {"simba: {url: 'memory:', ttl: [1s]}", "1:30: simba.ttl: this must be one value, not a list"},
    {"simba: {url: 'memory:', ttl: {a: 1s}}", "1:30: simba.ttl: this must be one value, not a map"},
    {"simba: {url: {a: b}}", "1:14: simba.url: the value is missing"},
    {"simba: 5", "1:8: simba: this must be a map"},
    {"simba: {jdbc: sqlite:a}", "1:15: simba.jdbc: this must be a map"},
    {"- simba", "1:1: the configuration is no map of keys and values"},
    {"simba", "1:1: the configuration is no map of keys and values"},
    {"simba: {[a]: b}", "1:9: a key must be plain text"},
    {"simba: {url: \"memory:\\0x\"}",
     "1:14: simba.url: the value has a NUL, or more than 4096 bytes"},
    {"simba: {url: !!int 'memory:'}", "1:14: simba.url: this has a tag; write the value alone"},
    {"simba: {url: 'memory:', ttl: !own 5s}",
     "1:30: simba.ttl: this has a tag; write the value alone"},
};

static void values_of_the_wrong_type_are_refused(void **state)
{
    (void)state;
    check_refusals(wrong_types, TEST_COUNT(wrong_types));
}

static const struct refusal repeated_keys[] = {
    {"simba:\n  url: memory:x\n  ttl: 1s\n  ttl: 2s\n",
     "4:3: the key 'simba.ttl' stands in line 3 already"},
    {"simba:\n  url: memory:x\nsimba:\n  ttl: 2s\n",
     "3:1: the key 'simba' stands in line 1 already"},
    {"simba:\n  url: memory:x\nsimba.url: memory:x\n",
     "3:1: the key 'simba.url' stands in line 2 already"},
    {"simba: {url: 'memory:', initial-delay: 1s, initialDelay: 1s}",
     "1:44: the key 'simba.initial-delay' stands in line 1 already"},
    {"simba: {url: 'memory:?ttl=1s', ttl: 1s}",
     "1:37: simba.ttl: the url has this option already: remove one of the two"},
};

static void keys_that_occur_twice_are_refused_with_both_places(void **state)
{
    (void)state;
    check_refusals(repeated_keys, TEST_COUNT(repeated_keys));
}

static const struct refusal repeated_passwords[] = {
    {"simba:\n  jdbc:\n    url: sqlite:a\n    password: s3cret\n    password-file: x\n",
     "5:5: simba.jdbc.password-file: 'simba.jdbc.password' in line 4 gives the password already"},
    {"simba:\n  jdbc:\n    url: sqlite:a\n    password-env: A\n    password-file: x\n",
     "5:5: simba.jdbc.password-file: 'simba.jdbc.password-env' in line 4 gives the password "
     "already"},
    {"simba: {jdbc: {url: 'sqlite:a', password-env: }}",
     "1:47: simba.jdbc.password-env: the value is missing"},
    {"simba: {jdbc: {url: 'sqlite:a', password-env: ''}}",
     "1:47: simba.jdbc.password-env: the value is missing"},
    {"simba: {jdbc: {url: 'sqlite:a', password: ''}}",
     "1:43: simba.jdbc.password: the value is missing"},
    {"simba: {jdbc: {url: 'sqlite:a', password-file: ~/x}}",
     "1:48: simba.jdbc.password-file: the path begins with '~', which only a shell expands: "
     "write the full path"},
    {"simba: {url: 'memory://u:s3cret@h', password-file: x}",
     "1:52: simba.password-file: the url has this option already: remove one of the two"},
    {"simba: {url: 'memory://u:s3cret@h', user: u}",
     "1:43: simba.user: the url has this option already: remove one of the two"},
    {"simba: {url: 'memory:x?password=s3cret', password-env: A}",
     "1:56: simba.password-env: the url has this option already: remove one of the two"},
    {"simba: {url: 'memory://u:s3cret@h?password-env=A'}",
     "1:14: simba.url: the URL's parameter 'password-env' repeats what another part of the URL "
     "gives: remove one of the two"},
    {"simba: {url: 'memory:x?password-file=a&password-env=A'}",
     "1:14: simba.url: the URL's parameter 'password-env' repeats what another part of the URL "
     "gives: remove one of the two"},
};

static void passwords_that_are_said_twice_or_not_at_all_are_refused(void **state)
{
    (void)state;
    check_refusals(repeated_passwords, TEST_COUNT(repeated_passwords));
}

static const struct refusal broken_yaml[] = {
    {"simba:\n  url: \"memory:\n", "3:1: this is not YAML: found unexpected end of stream"},
    {"simba:\n\turl: x\n", "2:1: this is not YAML: found character that cannot start any token; "
                           "indent with spaces, YAML refuses tabs"},
    {"simba:\n  url: @x\n", "2:8: this is not YAML: found character that cannot start any token"},
    {"simba: \x80", "1:1: this is not YAML: invalid leading UTF-8 octet"},
    {"simba: {url: &a 'memory:', ttl: *a}",
     "1:33: simba.ttl: this is an alias; write the value itself"},
    {"simba.url: 'memory:'\n---\nsimba.ttl: 1s\n", "2:1: a second document begins here"},
};

static void what_is_no_yaml_is_refused(void **state)
{
    (void)state;
    check_refusals(broken_yaml, TEST_COUNT(broken_yaml));
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static const struct refusal store_counts[] = {
    {"", "1:1: no store is enabled: write simba.url, or simba.jdbc, simba.redis or simba.zookeeper "
         "with a url"},
    {"# nothing\n", "1:1: no store is enabled: write simba.url, or simba.jdbc, simba.redis or "
                    "simba.zookeeper with a url"},
    {"simba:\n", "1:1: no store is enabled: write simba.url, or simba.jdbc, simba.redis or "
                 "simba.zookeeper with a url"},
    {"simba: {enabled: true}", "1:1: no store is enabled: write simba.url, or simba.jdbc, "
                               "simba.redis or simba.zookeeper with a url"},
    {"simba: {jdbc: {enabled: false, url: 'sqlite:a'}}",
     "1:1: no store is enabled: write simba.url, or simba.jdbc, simba.redis or simba.zookeeper "
     "with a url"},
    {"simba:\n  jdbc:\n    ttl: 5s\n",
     "2:3: simba.jdbc has no url; write one such as mysql://USER@HOST/DATABASE"},
    {"simba:\n  jdbc:\n",
     "2:3: simba.jdbc has no url; write one such as mysql://USER@HOST/DATABASE"},
    {"simba:\n  ttl: 5s\n  jdbc: {url: 'sqlite:a'}\n",
     "2:3: 'simba.ttl' is an option of a store: write it beside the store's url"},
    {"simba: {url: 'memory:', jdbc: {url: 'sqlite:a'}}",
     "1:25: two stores are enabled, simba.url and simba.jdbc: set enabled to false in one"},
};

static void one_store_must_be_enabled(void **state)
{
    (void)state;
    check_refusals(store_counts, TEST_COUNT(store_counts));
}

#ifdef SIMBA_HAVE_REDIS
static const struct refusal redis[] = {
    {"simba:\n  jdbc:\n    url: sqlite:a\n  redis:\n    url: redis://h\n",
     "4:3: two stores are enabled, simba.jdbc and simba.redis: set enabled to false in one"},
    {"simba:\n  redis:\n    url: redis://h\n    keepalive: 1s\n",
     "4:5: unknown key 'simba.redis.keepalive'; did you mean 'simba.redis.keep-alive'?"},
    {"simba:\n  redis:\n    url: redis://h\n    db: first\n",
     "4:9: simba.redis.db: this must be a number"},
    {"simba:\n  redis:\n    url: redis://h?conect-timeout=1s\n",
     "3:10: simba.redis.url: a URL that begins with 'redis:' has no option 'conect-timeout'; did "
     "you mean 'connect-timeout'?"},
    {"simba:\n  redis:\n    url: redis://h\n    sentinel-password: a\n"
     "    sentinel-password-env: A\n",
     "5:5: simba.redis.sentinel-password-env: 'simba.redis.sentinel-password' in line 4 gives the "
     "password already"},
};

static void mistakes_with_redis_are_refused(void **state)
{
    (void)state;
    check_refusals(redis, TEST_COUNT(redis));
}
#endif

static const struct refusal bad_urls[] = {
    {"simba: {url: jobs.db}",
     "1:14: simba.url: the URL 'jobs.db' does not begin with a scheme: for "
     "a file write sqlite:jobs.db"},
    {"simba: {url: ~/jobs.db}",
     "1:14: simba.url: the URL '~/jobs.db' does not begin with a scheme: "
     "for a file write sqlite: and its whole path, without '~'"},
    {"simba: {url: 'sqlite:~/jobs.db'}",
     "1:14: simba.url: the path begins with '~', which only a shell expands: write the full path"},
    {"simba: {url: memory//x}",
     "1:14: simba.url: the URL 'memory//x' has no ':' behind its scheme: write memory://x"},
    {"simba: {redis: {url: 'sqlite:x'}}",
     "1:22: simba.redis.url: a URL that begins with 'sqlite:' is not one of this section"},
    {"simba: {jdbc: {url: 'jdbc:mysql://h/db'}}",
     "1:21: simba.jdbc.url: leave out 'jdbc:', and write user and password as keys"},
    {"simba: {url: 'memory:?a=1&a=1'}", "1:14: simba.url: the URL has the parameter 'a' twice"},
    {"simba:\n  url: sqlite:a.db?tll=1s\n",
     "2:8: simba.url: a URL that begins with 'sqlite:' has no option 'tll'; did you mean 'ttl'?"},
    {"simba:\n  url: sqlite:a.db?nonsense=1s\n",
     "2:8: simba.url: a URL that begins with 'sqlite:' has no option 'nonsense'"},
    {"simba:\n  jdbc:\n    url: sqlite:a.db?ttl=soon\n",
     "3:10: simba.jdbc.url?ttl: 'soon' is not a duration: write 250ms, 10s, 1m30s or 2h"},
    {"simba: {url: 'sqlite:a.db?create=true'}",
     "1:14: simba.url?create: this must be one of: yes no"},
    {"simba: {url: 'sqlite:a.db?synchronous=off'}",
     "1:14: simba.url?synchronous: this must be one of: normal full"},
    {"simba: {url: 'sqlite:a.db?busy-timeout=5'}",
     "1:14: simba.url?busy-timeout: the duration '5' has no unit: write 5s for seconds or 5ms for "
     "milliseconds"},
    {"simba: {url: 'sqlite:a.db?jitter=5'}",
     "1:14: simba.url?jitter: this must be a range of two durations such as -200ms..1s"},
};

static void urls_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    check_refusals(bad_urls, TEST_COUNT(bad_urls));
}

/* Which stores there are is a matter of the build. */
static void an_unknown_scheme_is_told_those_that_there_are(void **state)
{
    (void)state;
    check_part(
        "simba: {url: 'nonsense:x'}",
        "1:14: simba.url: no store is known for URLs that begin with 'nonsense:'; this build "
        "has memory:, sqlite:");
    check_part("simba: {url: 'sqlit:x'}", "'sqlit:'; did you mean sqlite:? This build has memory:");
}

static void there_are_limits(void **state)
{
    static char text[8192];
    size_t length = 0;

    (void)state;
    check_part("{a: {a: {a: {a: {a: {a: {a: {a: {a: b}}}}}}}}}", "nested more than 8 deep");
    length = (size_t)snprintf(text, sizeof text, "simba:\n");
    for (int i = 0; i < 300; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "  k%d: 1\n", i);
    check_part(text, "more than 256 keys");
    snprintf(text, sizeof text, "simba: {url: 'memory:%04500d'}", 0);
    check_part(text, "more than 4096 bytes");
    snprintf(text, sizeof text, "simba: {url: 'memory:%03000d', user: '%02000d'}", 0, 0);
    check_part(text, "bytes long; the limit is");
    snprintf(text, sizeof text, "%0200d: 1", 0);
    check_part(text, "it is too long");
}

static void no_refusal_quotes_a_password(void **state)
{
    static const char *const texts[] = {
        "simba: {url: 'x://u:s3cret@h:s3cret/'}",
        "simba: {url: 's3cret@x'}",
        "simba: {jdbc: {url: 'sqlite:a', password: [s3cret]}}",
        "simba: {jdbc: {url: 'sqlite:a?password=s3cret', password: s3cret}}",
        "simba: {jdbc: {password: s3cret}}",
        "simba: {jdbc: {url: 'sqlite:a', password: s3cret, passwort: s3cret}}",
        "simba: {jdbc: {url: 'sqlite:a', password: s3cret, password: s3cret}}",
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        refuse(texts[i]);
}

static void a_file_that_disables_everything_is_told_from_a_wrong_one(void **state)
{
    static const char text[] = "simba: {enabled: false, url: 'memory:'}";
    struct simba_error error = {0};
    char *url = NULL;

    (void)state;
    assert_int_equal(simba_config_parse(text, strlen(text), "f", &url, &error), SIMBA_EDISABLED);
    assert_null(url);
    assert_string_equal(error.text, "f:1:18: simba.enabled is false: Simba is switched off");
    assert_int_equal(simba_error_group(SIMBA_EDISABLED), SIMBA_GROUP_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys_are_refused_and_the_nearest_is_named),
        cmocka_unit_test(values_of_the_wrong_type_are_refused),
        cmocka_unit_test(keys_that_occur_twice_are_refused_with_both_places),
        cmocka_unit_test(passwords_that_are_said_twice_or_not_at_all_are_refused),
        cmocka_unit_test(what_is_no_yaml_is_refused),
        cmocka_unit_test(one_store_must_be_enabled),
        cmocka_unit_test(a_file_that_disables_everything_is_told_from_a_wrong_one),
#ifdef SIMBA_HAVE_REDIS
        cmocka_unit_test(mistakes_with_redis_are_refused),
#endif
        cmocka_unit_test(urls_that_do_not_fit_are_refused),
        cmocka_unit_test(an_unknown_scheme_is_told_those_that_there_are),
        cmocka_unit_test(there_are_limits),
        cmocka_unit_test(no_refusal_quotes_a_password),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
