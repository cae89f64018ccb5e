/*
 * Configurations: what they mean as a URL, what their paths are relative to, and who may see a
 * password. What is wrong with one is in config_error_test.c.
 */
#include "test.h"

#include <simba/simba.h>

#include <errno.h>
#include <limits.h>
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

static void write_file_at(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(name, mode), 0);
}

static void write_file(const char *text, mode_t mode)
{
    write_file_at(path, text, mode);
}

static int remove_file(void **state)
{
    unlink(path);
    return 0;
}

/* ---- What is read ---------------------------------------------------------------------------- */

static void a_url_alone_is_enough(void **state)
{
    check_url("simba:\n  url: sqlite:/srv/jobs.db\n", "sqlite:/srv/jobs.db");
    check_url("simba.url: memory:x", "memory:x");
    check_url("{\"simba\": {\"url\": \"memory:x\"}}", "memory:x");
    check_url("simba: {enabled: true, url: memory:x}", "memory:x");
    check_url("simba: {url: !!str 'memory:'}", "memory:");
}

static void the_keys_of_the_jvm_library_are_understood(void **state)
{
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

    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        check_url(texts[i], "sqlite:a?initial-delay=1s");
}

static void options_are_added_to_those_of_the_url(void **state)
{
    check_url("simba: {jdbc: {url: 'sqlite:a?synchronous=full', ttl: 5s}}",
              "sqlite:a?synchronous=full&ttl=5s");
    check_url("simba: {jdbc: {url: 'sqlite:a?', ttl: 5s}}", "sqlite:a?ttl=5s");
    check_url("simba: {url: 'memory:', jitter: -100ms..2s, turn: 5ms, stop-timeout: 1m}",
              "memory:?jitter=-100ms..2s&turn=5ms&stop-timeout=1m");
}

static void values_are_escaped(void **state)
{
    check_url("simba: {jdbc: {url: 'sqlite:a', user: \"a b&c=d?e#f%+\\xe9\", password: 'x@y:z'}}",
              "sqlite:a?user=a%20b%26c%3Dd%3Fe%23f%25%2B%C3%A9&password=x%40y%3Az");
}

static void switches_are_written_in_the_words_of_the_store(void **state)
{
    static const char *const words[][2] = {
        {"true", "yes"}, {"yes", "yes"}, {"on", "yes"}, {"True", "yes"},
        {"false", "no"}, {"no", "no"},   {"OFF", "no"},
    };

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

#endif

/* ---- Paths ----------------------------------------------------------------------------------- */

static void check_read(const char *text, const char *file, const char *format, const char *folder)
{
    struct simba_error error = {0, 0, ""};
    char expected[3 * PATH_MAX];
    char *url = NULL;

    write_file_at(file, text, 0600);
    if (simba_config_read(file, NULL, &url, &error) != SIMBA_OK)
        fail_msg("%s\n%s", text, error.text);
    snprintf(expected, sizeof expected, format, folder, folder);
    assert_string_equal(url, expected);
    simba_free(url);
}

static const char *const relative_paths[][2] = {
    {"simba: {url: 'sqlite:jobs.db'}", "sqlite:%s/jobs.db"},
    {"simba: {url: 'sqlite:../a%20b'}", "sqlite:%s/../a%%20b"},
    {"simba: {url: 'sqlite:a', password-file: s}", "sqlite:%s/a?password-file=%s/s"},
    {"simba: {url: 'sqlite:a?password-file=./s'}", "sqlite:%s/a?password-file=%s/./s"},
    {"simba: {url: 'sqlite:/a', password-file: /s}", "sqlite:/a?password-file=/s"},
    {"simba: {url: 'memory:a', user: b}", "memory:a?user=b"},
#ifdef SIMBA_HAVE_REDIS
    {"simba: {url: 'redis+unix:s', tls-ca: a/ca.pem}", "redis+unix:%s/s?tls-ca=%s/a/ca.pem"},
    {"simba: {url: 'redis://h/1?tls-key=k', tls-cert: c}",
     "redis://h/1?tls-key=%s/k&tls-cert=%s/c"},
#endif
};

static void paths_are_relative_to_the_folder_of_the_file(void **state)
{
    char folder[PATH_MAX];

    assert_true(mkdir("config_test.d", 0700) == 0 || errno == EEXIST);
    assert_non_null(realpath("config_test.d", folder));
    for (size_t i = 0; i < TEST_COUNT(relative_paths); i++)
        check_read(relative_paths[i][0], "config_test.d/c.yaml", relative_paths[i][1], folder);
    assert_non_null(realpath(".", folder));
    check_read("simba: {url: 'sqlite:jobs.db'}", path, "sqlite:%s/jobs.db", folder);
    unlink(path); /* a link counts as where it stands */
    assert_int_equal(symlink("config_test.d/c.yaml", path), 0);
    check_read("simba: {url: 'sqlite:jobs.db'}", path, "sqlite:%s/jobs.db", folder);
}

static int remove_folder(void **state)
{
    unlink("config_test.d/c.yaml");
    rmdir("config_test.d");
    return remove_file(state);
}

/* There is no folder to speak of. */
static void paths_of_a_text_stay_as_they_are(void **state)
{
    check_url("simba: {url: 'sqlite:jobs.db', password-file: s}", "sqlite:jobs.db?password-file=s");
}

/* ---- Passwords and files --------------------------------------------------------------------- */

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

/* That neither others nor the group may write the file, in whole sentences. */
static void check_writers(const char *text)
{
    static const struct {
        mode_t mode;
        const char *who;
    } writers[] = {{0602, "every user"}, {0620, "its group"}, {0666, "every user"}};

    for (size_t i = 0; i < TEST_COUNT(writers); i++) {
        struct heard heard = {"", 0};
        struct simba_error error;
        char expected[512];

        assert_int_equal(read_with_mode(text, writers[i].mode, &heard, &error), SIMBA_ECONFIG);
        snprintf(expected, sizeof expected,
                 "the configuration file %s is refused: %s can write to it; run chmod go-w %s",
                 path, writers[i].who, path);
        assert_string_equal(error.text, expected);
    }
}

static void a_file_with_a_password_that_others_may_write_is_refused(void **state)
{
    static const char *const texts[] = {
        "simba: {jdbc: {url: 'sqlite:a', password: s3cret}}",
        "simba: {url: 'memory://u:s3cret@h'}",
        "simba: {url: 'memory:?password=s3cret'}",
        "simba: {url: 'memory:', jdbc: {enabled: false, password: s3cret}}",
    };
    struct simba_error error;

    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct heard heard = {"", 0};

        check_writers(texts[i]);
        assert_int_equal(read_with_mode(texts[i], 0600, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 0);
        assert_int_equal(read_with_mode(texts[i], 0604, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, path));
        assert_null(strstr(heard.line, "s3cret"));
    }
}

/* Only root can give a file away. */
static void a_file_must_not_be_another_users(void **state)
{
    struct simba_error error;
    char *url = NULL;

    if (geteuid() != 0)
        skip();
    write_file("simba: {url: 'sqlite:a'}", 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "belongs to user 12345"));
    assert_int_equal(chown(path, 0, 0), 0);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_OK);
    simba_free(url);
}

/* Who may change where this process connects to need not know a password. */
static void a_file_without_a_password_must_not_be_written_by_others_either(void **state)
{
    static const char *const texts[] = {
        "simba: {url: 'memory:x'}",
        "simba: {jdbc: {url: 'sqlite:a', user: u}}",
        "simba: {jdbc: {url: 'sqlite:a', password-file: /run/s, user: u}}",
        "simba: {url: 'memory:?password-file=/run/s'}",
    };
    struct simba_error error;

    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct heard heard = {"", 0};

        check_writers(texts[i]);
        assert_int_equal(read_with_mode(texts[i], 0644, &heard, &error), SIMBA_OK);
        assert_int_equal(heard.count, 0);
    }
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct simba_error error;
    char *url = NULL;

    assert_int_equal(simba_config_read("/no/such.yaml", NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "/no/such.yaml"));
    assert_int_equal(simba_config_read("/", NULL, &url, &error), SIMBA_ECONFIG);
    assert_int_equal(simba_config_read("/dev/zero", NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "no regular file"));
    write_file("", 0600);
    assert_int_equal(truncate(path, 65537), 0);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "65536"));
    assert_int_equal(simba_config_read(NULL, NULL, &url, &error), SIMBA_EMISUSE);
    assert_null(url);
}

/* Reading alone does not look for the passwords that the file names. */
static void a_check_finds_missing_passwords_and_tells_where_the_url_stands(void **state)
{
    char origin[SIMBA_CONFIG_ORIGIN_MAX] = "";
    struct simba_error error;
    char *url = NULL;

    write_file("simba: {url: 'memory:config'}", 0600);
    assert_int_equal(simba_config_check(path, NULL, &url, origin, &error), SIMBA_OK);
    assert_string_equal(url, "memory:config");
    assert_non_null(strstr(origin, ":1:14: simba.url"));
    simba_free(url);
    write_file("simba: {url: 'redis://h', password-file: /no/such/file}", 0600);
    assert_int_equal(simba_config_read(path, NULL, &url, &error), SIMBA_OK);
    simba_free(url);
    assert_int_equal(simba_config_check(path, NULL, &url, origin, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "/no/such/file"));
    assert_int_equal(simba_config_check(path, NULL, &url, NULL, &error), SIMBA_EMISUSE);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static void a_client_is_opened_with_the_times_of_the_file(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    int64_t ttl_ms;
    int64_t transition_ms;

    options.transition_ms = 3000;
    write_file("simba: {url: 'memory:config', ttl: PT2.5S, transition: 9s}", 0600);
    assert_int_equal(simba_client_open_config(path, &options, &client, NULL), SIMBA_OK);
    simba_client_lease(client, &ttl_ms, &transition_ms);
    assert_int_equal(ttl_ms, 2500);
    assert_int_equal(transition_ms, 3000);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

/* What only who opens the store can know stands where its url does. */
static void what_shows_when_the_store_is_opened_is_told_with_its_place(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *sentence;
    } cases[] = {
        {"simba:\n  url: memory:x\n  transition: 1ms\n", SIMBA_EINVAL,
         ":2:8: simba.url: transition 1ms is too short"},
        {"simba: {url: 'memory:x', user: u}", SIMBA_ECONFIG,
         ":1:14: simba.url: a URL that begins with 'memory:' has no option 'user'"},
        {"simba: {url: 'memory:x', password-env: CONFIG_TEST_NONE}", SIMBA_ECONFIG,
         ":1:40: simba.password-env: the environment variable 'CONFIG_TEST_NONE', which should "
         "hold "
         "a password, is not set"},
        {"simba: {url: 'memory:x', password-env: CONFIG_TEST_EMPTY}", SIMBA_ECONFIG,
         "'CONFIG_TEST_EMPTY', which should hold a password, is empty"},
        {"simba: {url: 'memory:x?password-env=CONFIG_TEST_NONE'}", SIMBA_ECONFIG,
         ":1:14: simba.url?password-env: the environment variable"},
        {"simba: {url: 'memory:x', password-file: none}", SIMBA_ECONFIG,
         ":1:41: simba.password-file: the password file /"},
        {"simba: {jdbc: {url: 'sqlite://x'}}", SIMBA_EINVAL,
         ":1:21: simba.jdbc.url: the URL names a host, but SQLite has none; write sqlite:x, or "
         "sqlite:/x for a path from the root"},
    };

    assert_int_equal(setenv("CONFIG_TEST_EMPTY", "", 1), 0);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        simba_client *client = NULL;
        struct simba_error error;

        write_file(cases[i].text, 0600);
        assert_int_equal(simba_client_open_config(path, NULL, &client, &error), cases[i].code);
        assert_null(client);
        if (strstr(error.text, cases[i].sentence) == NULL || strstr(error.text, path) != error.text)
            fail_msg("%s\n%s", cases[i].text, error.text);
    }
    unsetenv("CONFIG_TEST_EMPTY");
}

/* One that is not used need not be there. */
static void a_password_of_a_store_that_is_not_enabled_is_not_looked_for(void **state)
{
    simba_client *client = NULL;

    write_file("simba: {url: 'memory:x', jdbc: {enabled: false, password-file: none}}", 0600);
    assert_int_equal(simba_client_open_config(path, NULL, &client, NULL), SIMBA_OK);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
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
#endif
        cmocka_unit_test_teardown(paths_are_relative_to_the_folder_of_the_file, remove_folder),
        cmocka_unit_test(paths_of_a_text_stay_as_they_are),
        cmocka_unit_test_teardown(a_file_with_a_password_that_others_may_write_is_refused,
                                  remove_file),
        cmocka_unit_test_teardown(a_file_must_not_be_another_users, remove_file),
        cmocka_unit_test_teardown(a_file_without_a_password_must_not_be_written_by_others_either,
                                  remove_file),
        cmocka_unit_test_teardown(a_file_that_cannot_be_read_is_named, remove_file),
        cmocka_unit_test_teardown(a_check_finds_missing_passwords_and_tells_where_the_url_stands,
                                  remove_file),
        cmocka_unit_test_teardown(a_client_is_opened_with_the_times_of_the_file, remove_file),
        cmocka_unit_test_teardown(what_shows_when_the_store_is_opened_is_told_with_its_place,
                                  remove_file),
        cmocka_unit_test_teardown(a_password_of_a_store_that_is_not_enabled_is_not_looked_for,
                                  remove_file),
    };

    return cmocka_run_group_tests(tests, test_enter_folder, test_leave_folder);
}
