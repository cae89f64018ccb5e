/*
 * Configurations: what they mean as a URL, what is refused and where, and who may see a password.
 */
#include "test.h"

#include <simba/simba.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char path[] = "config_test.yaml";

static void check_url(const char *text, const char *expected)
{
    struct simba_error error = {0, 0, ""};
    char *url = NULL;

    if (simba_config_parse(text, strlen(text), "c.yaml", &url, &error) != SIMBA_OK)
        fail_msg("%s\n%s", text, error.text);
    assert_string_equal(url, expected);
    simba_free(url);
}

/* The sentence that a configuration is refused with, in static memory. */
static const char *refusal(const char *text)
{
    static struct simba_error error;
    char *url = NULL;
    int code = simba_config_parse(text, strlen(text), "c.yaml", &url, &error);

    if (code == SIMBA_OK)
        fail_msg("not refused: %s", text);
    assert_null(url);
    assert_int_equal(code, SIMBA_ECONFIG);
    assert_int_equal(error.code, code);
    return error.text;
}

static void check_refusal(const char *text, const char *expected)
{
    const char *sentence = refusal(text);

    if (strstr(sentence, expected) == NULL)
        fail_msg("%s\nis refused with: %s\nand not with: %s", text, sentence, expected);
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

/* ---- What is read --------------------------------------------------------------------------- */

static void a_url_alone_is_enough(void **state)
{
    (void)state;
    check_url("simba:\n  url: sqlite:/srv/jobs.db\n", "sqlite:/srv/jobs.db");
    check_url("simba.url: memory:x", "memory:x");
    check_url("{\"simba\": {\"url\": \"memory:x\"}}", "memory:x");
    check_url("simba: {enabled: true, url: memory:x}", "memory:x");
}

static void the_keys_of_the_jvm_library_are_understood(void **state)
{
    (void)state;
    check_url("simba:\n"
              "  enabled: true\n"
              "  jdbc:\n"
              "    enabled: true\n"
              "    url: sqlite:jobs.db\n"
              "    initial-delay: 0s\n"
              "    ttl: 10s\n"
              "    transition: PT6S\n"
              "  redis:\n"
              "    enabled: false\n"
              "    ttl: 10s\n"
              "    transition: 6s\n"
              "  zookeeper:\n"
              "    enabled: false\n",
              "sqlite:jobs.db?initial-delay=0s&ttl=10s&transition=PT6S");
}

static void nested_maps_dots_and_other_spellings_are_the_same(void **state)
{
    static const char *const texts[] = {
        "simba: {jdbc: {url: 'sqlite:a', initial-delay: 1s}}",
        "simba.jdbc.url: sqlite:a\nsimba.jdbc.initial-delay: 1s\n",
        "simba:\n  jdbc.url: sqlite:a\n  jdbc:\n    initialDelay: 1s\n",
        "simba.jdbc: {url: 'sqlite:a'}\nsimba: {jdbc: {initial_delay: 1s}}\n",
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        check_url(texts[i], "sqlite:a?initial-delay=1s");
}

static void options_are_added_to_those_of_the_url(void **state)
{
    (void)state;
    check_url("simba: {jdbc: {url: 'sqlite:a?synchronous=full', ttl: 5s}}",
              "sqlite:a?synchronous=full&ttl=5s");
    check_url("simba: {jdbc: {url: 'sqlite:a?', ttl: 5s}}", "sqlite:a?ttl=5s");
    check_url("simba: {url: 'memory:', jitter: -100ms..2s, stop-timeout: 1m}",
              "memory:?jitter=-100ms..2s&stop-timeout=1m");
}

static void values_are_escaped(void **state)
{
    (void)state;
    check_url("simba: {jdbc: {url: 'sqlite:a', user: \"a b&c=d?e#f%+\\xe9\", password: 'x@y:z'}}",
              "sqlite:a?user=a%20b%26c%3Dd%3Fe%23f%25%2B%C3%A9&password=x%40y%3Az");
}

static void switches_are_written_in_the_words_of_the_store(void **state)
{
    static const char *const words[][2] = {
        {"true", "yes"}, {"yes", "yes"}, {"on", "yes"}, {"True", "yes"},
        {"false", "no"}, {"no", "no"},   {"OFF", "no"},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        char text[128];
        char expected[64];

        snprintf(text, sizeof text, "simba: {jdbc: {url: 'sqlite:a', create: %s}}", words[i][0]);
        snprintf(expected, sizeof expected, "sqlite:a?create=%s", words[i][1]);
        check_url(text, expected);
    }
}

#ifdef SIMBA_HAVE_REDIS
static void every_option_of_redis_is_a_key(void **state)
{
    (void)state;
    check_url("simba:\n"
              "  redis:\n"
              "    url: rediss+sentinel://h1,h2/main\n"
              "    db: 3\n"
              "    client-name: a\n"
              "    connect-timeout: 1s\n"
              "    command-timeout: 2s\n"
              "    idle-timeout: 3s\n"
              "    keep-alive: 0\n"
              "    wait-replicas: 1\n"
              "    wait-timeout: 100ms\n"
              "    sentinel-user: u\n"
              "    sentinel-password-file: /run/s\n"
              "    tls-verify: true\n"
              "    tls-ca: /ca\n"
              "    tls-cert: /cert\n"
              "    tls-key: /key\n"
              "    tls-key-password-env: KEY\n"
              "    tls-server-name: n\n",
              "rediss+sentinel://h1,h2/main?db=3&client-name=a&connect-timeout=1s"
              "&command-timeout=2s&idle-timeout=3s&keep-alive=0&wait-replicas=1&wait-timeout=100ms"
              "&sentinel-user=u&sentinel-password-file=/run/s&tls-verify=yes&tls-ca=/ca"
              "&tls-cert=/cert&tls-key=/key&tls-key-password-env=KEY&tls-server-name=n");
}

static void two_enabled_stores_are_refused_by_name(void **state)
{
    static const char text[] = "simba:\n"
                               "  jdbc:\n"
                               "    url: sqlite:a\n"
                               "  redis:\n"
                               "    url: redis://h\n";

    (void)state;
    check_refusal(text, "c.yaml:4:3: two stores are enabled, simba.jdbc and simba.redis");
    check_refusal("simba: {url: 'memory:', redis: {url: 'redis://h'}}",
                  "two stores are enabled, simba.url and simba.redis");
}
#endif

/* ---- What is refused, and where ------------------------------------------------------------- */

static void unknown_keys_are_refused_with_their_place(void **state)
{
    (void)state;
    check_refusal("simba:\n  url: memory:x\n  tll: 5s\n", "c.yaml:3:3: unknown key 'simba.tll'");
    check_refusal("simba:\n  jdbc:\n    url: sqlite:a\n    client-name: x\n",
                  "c.yaml:4:5: unknown key 'simba.jdbc.client-name'");
    check_refusal("spring: {}\nsimba.url: memory:x\n", "c.yaml:1:1: unknown key 'spring'");
    check_refusal("simbas.url: memory:x\n", "unknown key 'simbas.url'");
    check_refusal("simba: {jdbc: {url: 'sqlite:a', options: {ttl: 5s}}}",
                  "unknown key 'simba.jdbc.options'");
    check_refusal("simba: {jdbc: {url: 'sqlite:a', ttl.x: 5s}}", "unknown key 'simba.jdbc.ttl.x'");
    check_refusal("simba: {mongo: {url: 'x:'}}", "unknown key 'simba.mongo'");
    check_refusal("simba: {url: 'memory:', jdbc: {enabled: false, tll: 1s}}",
                  "unknown key 'simba.jdbc.tll'");
    check_refusal("'': 1", "unknown key ''");
    check_refusal("simba: {'': 1}", "unknown key 'simba.'");
}

static void values_of_the_wrong_type_are_refused_with_their_place(void **state)
{
    (void)state;
    check_refusal("simba:\n  url: memory:x\n  ttl: soon\n", "c.yaml:3:8: simba.ttl: 'soon' is no");
    check_refusal("simba:\n  url: memory:x\n  ttl: 10\n", "write 10s for seconds");
    check_refusal("simba: {url: 'memory:', jitter: 5s}", "range");
    check_refusal("simba: {url: 'memory:', jitter: 5s..}", "range");
    check_refusal("simba: {url: 'memory:', enabled: maybe}",
                  "c.yaml:1:34: simba.enabled: this is neither true nor false");
    check_refusal("simba: {jdbc: {url: 'sqlite:a', create: 2}}", "neither true nor false");
    check_refusal("simba: {jdbc: {url: 'sqlite:a', synchronous: off}}",
                  "simba.jdbc.synchronous is none of: normal full");
    check_refusal("simba: {url: 'memory:', ttl: }", "the value is missing");
    check_refusal("simba: {url: }", "simba.url: the value is missing");
    check_refusal("simba: {url: 'memory:', ttl: [1s]}", "is a list");
    check_refusal("simba: {url: 'memory:', ttl: {a: 1s}}", "map");
    check_refusal("simba: {url: {a: b}}", "the value is missing");
    check_refusal("simba: 5", "c.yaml:1:8: simba: this must be a map");
    check_refusal("simba: {jdbc: sqlite:a}", "simba.jdbc: this must be a map");
    check_refusal("- simba", "c.yaml:1:1: the configuration is no map");
    check_refusal("simba", "no map");
    check_refusal("simba: {[a]: b}", "a key must be plain text");
    check_refusal("simba: {url: \"memory:\\0x\"}", "NUL");
    check_refusal("simba: {url: !!int 'memory:'}", "c.yaml:1:14: 'simba.url' has a tag");
    check_refusal("simba: {url: 'memory:', ttl: !own 5s}", "'simba.ttl' has a tag");
    check_url("simba: {url: !!str 'memory:'}", "memory:");
}

static void keys_that_occur_twice_are_refused_with_both_places(void **state)
{
    (void)state;
    check_refusal("simba:\n  url: memory:x\n  ttl: 1s\n  ttl: 2s\n",
                  "c.yaml:4:3: the key 'simba.ttl' stands in line 3 already");
    check_refusal("simba:\n  url: memory:x\nsimba:\n  ttl: 2s\n",
                  "c.yaml:3:1: the key 'simba' stands in line 1 already");
    check_refusal("simba:\n  url: memory:x\nsimba.url: memory:x\n", "'simba.url' stands in line 2");
    check_refusal("simba: {url: 'memory:', initial-delay: 1s, initialDelay: 1s}",
                  "'simba.initial-delay' stands");
    check_refusal("simba: {url: 'memory:?ttl=1s', ttl: 1s}", "the url has this option, too");
}

static void what_is_no_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    check_refusal("simba:\n  url: \"memory:\n", "c.yaml:3:1: this is not YAML");
    check_refusal("simba:\n\turl: x\n", "c.yaml:2:1: this is not YAML");
    check_refusal("simba: \x80", "this is not YAML");
    check_refusal("simba: {url: &a 'memory:', ttl: *a}", "is an alias");
    check_refusal("simba.url: 'memory:'\n---\nsimba.ttl: 1s\n", "c.yaml:2:1: a second document");
}

static void one_store_must_be_enabled(void **state)
{
    (void)state;
    check_refusal("", "c.yaml enables no store");
    check_refusal("# nothing\n", "enables no store");
    check_refusal("simba:\n", "enables no store");
    check_refusal("simba: {enabled: true}", "enables no store");
    check_refusal("simba: {jdbc: {enabled: false, url: 'sqlite:a'}}", "enables no store");
    check_refusal("simba: {enabled: false, url: 'memory:'}", "simba.enabled is false");
    check_refusal("simba:\n  jdbc:\n    ttl: 5s\n", "c.yaml:2:3: simba.jdbc has no url");
    check_refusal("simba:\n  jdbc:\n", "simba.jdbc has no url");
    check_refusal("simba:\n  ttl: 5s\n  jdbc: {url: 'sqlite:a'}\n",
                  "c.yaml:2:3: 'simba.ttl' is an option of a store");
}

static void urls_that_do_not_fit_are_refused_with_their_place(void **state)
{
    (void)state;
    check_refusal("simba: {url: 'nonsense:x'}", "c.yaml:1:14: simba.url: no store is known");
    check_refusal("simba: {url: jobs.db}", "write sqlite:jobs.db");
    check_refusal("simba: {redis: {url: 'sqlite:x'}}", "is not one of this section");
    check_refusal("simba: {jdbc: {url: 'jdbc:mysql://h/db'}}", "leave out 'jdbc:'");
    check_refusal("simba: {url: 'memory:?a=1&a=1'}", "c.yaml:1:14: simba.url: the URL has");
}

static void there_are_limits(void **state)
{
    static char text[8192];
    size_t length = 0;

    (void)state;
    check_refusal("{a: {a: {a: {a: {a: {a: {a: {a: {a: b}}}}}}}}}", "nested more than 8 deep");
    length = (size_t)snprintf(text, sizeof text, "simba:\n");
    for (int i = 0; i < 300; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "  k%d: 1\n", i);
    check_refusal(text, "more than 256 keys");
    snprintf(text, sizeof text, "simba: {url: 'memory:%04500d'}", 0);
    check_refusal(text, "more than 4096 bytes");
    snprintf(text, sizeof text, "simba: {url: 'memory:%03000d', user: '%02000d'}", 0, 0);
    check_refusal(text, "the URL has");
    snprintf(text, sizeof text, "%0200d: 1", 0);
    check_refusal(text, "is longer than");
}

/* ---- Passwords and files -------------------------------------------------------------------- */

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
        assert_null(strstr(refusal(texts[i]), "s3cret"));
}

struct heard {
    char line[512];
    int count;
};

static void hear(void *user, enum simba_log_level level, const char *line)
{
    struct heard *heard = user;

    assert_int_equal(level, SIMBA_LOG_WARN);
    snprintf(heard->line, sizeof heard->line, "%s", line);
    heard->count++;
}

static int read_with_mode(const char *text, mode_t mode, struct heard *heard,
                          struct simba_error *error)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    char *url = NULL;
    int code;

    options.log = hear;
    options.log_user = heard;
    write_file(text, mode);
    code = simba_config_read(path, &options, &url, error);
    assert_true((code == SIMBA_OK) == (url != NULL));
    simba_free(url);
    return code;
}

static void a_file_with_a_password_that_others_may_write_is_refused(void **state)
{
    static const char *const texts[] = {
        "simba: {jdbc: {url: 'sqlite:a', password: s3cret}}",
        "simba: {url: 'memory://u:s3cret@h'}",
        "simba: {url: 'memory:?sentinel-password=s3cret'}",
        "simba: {url: 'memory:', jdbc: {enabled: false, password: s3cret}}",
    };
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct heard heard = {"", 0};

        assert_int_equal(read_with_mode(texts[i], 0602, &heard, &error), SIMBA_ECONFIG);
        assert_non_null(strstr(error.text, "chmod 600"));
        assert_null(strstr(error.text, "s3cret"));
        assert_int_equal(read_with_mode(texts[i], 0600, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 0);
        assert_int_equal(read_with_mode(texts[i], 0604, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, path));
        assert_null(strstr(heard.line, "s3cret"));
    }
}

/* Who may change where the password is sent need not know it. */
static void a_file_that_says_where_a_password_is_must_not_be_written_by_others(void **state)
{
    static const char *const texts[] = {
        "simba: {jdbc: {url: 'sqlite:a', password-file: /run/s, user: u}}",
        "simba: {jdbc: {url: 'sqlite:a', password-env: NAME}}",
        "simba: {url: 'memory:?sentinel-password-file=/run/s'}",
    };
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct heard heard = {"", 0};

        assert_int_equal(read_with_mode(texts[i], 0602, &heard, &error), SIMBA_ECONFIG);
        assert_non_null(strstr(error.text, "chmod 600"));
        assert_int_equal(read_with_mode(texts[i], 0644, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 0);
    }
}

/* Only root can give a file away. */
static void a_file_with_a_password_must_not_be_another_users(void **state)
{
    struct simba_error error;
    char *url = NULL;

    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("simba: {jdbc: {url: 'sqlite:a', password: s3cret}}", 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "another user"));
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_OK);
    simba_free(url);
}

static void a_file_without_a_password_may_be_everybodys(void **state)
{
    static const char *const texts[] = {
        "simba: {url: 'memory:x'}",
        "simba: {jdbc: {url: 'sqlite:a', user: u}}",
    };
    struct simba_error error;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct heard heard = {"", 0};

        assert_int_equal(read_with_mode(texts[i], 0666, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 0);
    }
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct simba_error error;
    char *url = NULL;

    (void)state;
    assert_int_equal(simba_config_read("/no/such.yaml", NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "/no/such.yaml"));
    assert_int_equal(simba_config_read("/", NULL, &url, &error), SIMBA_ECONFIG);
    assert_int_equal(simba_config_read("/dev/zero", NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "65536"));
    assert_int_equal(simba_config_read(NULL, NULL, &url, &error), SIMBA_EMISUSE);
    assert_null(url);
}

/* ---- Clients -------------------------------------------------------------------------------- */

static void a_client_is_opened_with_the_times_of_the_file(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    int64_t ttl_ms;
    int64_t transition_ms;

    (void)state;
    options.transition_ms = 3000;
    write_file("simba: {url: 'memory:config', ttl: PT2.5S, transition: 9s}", 0600);
    assert_int_equal(simba_client_open_config(path, &options, &client, NULL), SIMBA_OK);
    simba_client_lease(client, &ttl_ms, &transition_ms);
    assert_int_equal(ttl_ms, 2500);
    assert_int_equal(transition_ms, 3000);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

static void values_that_do_not_go_together_are_refused_with_the_files_name(void **state)
{
    simba_client *client = NULL;
    struct simba_error error;

    (void)state;
    write_file("simba: {url: 'memory:config', ttl: 10s, transition: 1ms}", 0600);
    assert_int_equal(simba_client_open_config(path, NULL, &client, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "config_test.yaml: transition 1ms is too short"));
    write_file("simba: {url: 'memory:config', user: somebody}", 0600);
    assert_int_equal(simba_client_open_config(path, NULL, &client, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "has no option 'user'"));
    assert_null(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_alone_is_enough),
        cmocka_unit_test(the_keys_of_the_jvm_library_are_understood),
        cmocka_unit_test(nested_maps_dots_and_other_spellings_are_the_same),
        cmocka_unit_test(options_are_added_to_those_of_the_url),
        cmocka_unit_test(values_are_escaped),
        cmocka_unit_test(switches_are_written_in_the_words_of_the_store),
#ifdef SIMBA_HAVE_REDIS
        cmocka_unit_test(every_option_of_redis_is_a_key),
        cmocka_unit_test(two_enabled_stores_are_refused_by_name),
#endif
        cmocka_unit_test(unknown_keys_are_refused_with_their_place),
        cmocka_unit_test(values_of_the_wrong_type_are_refused_with_their_place),
        cmocka_unit_test(keys_that_occur_twice_are_refused_with_both_places),
        cmocka_unit_test(what_is_no_yaml_is_refused_with_its_place),
        cmocka_unit_test(one_store_must_be_enabled),
        cmocka_unit_test(urls_that_do_not_fit_are_refused_with_their_place),
        cmocka_unit_test(there_are_limits),
        cmocka_unit_test(no_refusal_quotes_a_password),
        cmocka_unit_test_teardown(a_file_with_a_password_that_others_may_write_is_refused,
                                  remove_file),
        cmocka_unit_test_teardown(
            a_file_that_says_where_a_password_is_must_not_be_written_by_others, remove_file),
        cmocka_unit_test_teardown(a_file_with_a_password_must_not_be_another_users, remove_file),
        cmocka_unit_test_teardown(a_file_without_a_password_may_be_everybodys, remove_file),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test_teardown(a_client_is_opened_with_the_times_of_the_file, remove_file),
        cmocka_unit_test_teardown(values_that_do_not_go_together_are_refused_with_the_files_name,
                                  remove_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
