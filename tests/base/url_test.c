/*
 * URLs: all forms, the caps, hostile input, and that no secret gets out.
 */
#include "base/random.h"
#include "base/text.h"
#include "base/url.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static simba_url *parse(const char *text)
{
    simba_url *url = NULL;
    struct simba_error error = {0, 0, ""};

    if (sb_url_parse(text, &url, &error) != SIMBA_OK)
        fail_msg("%s: %s", text, error.text);
    return url;
}

/* The sentence that a URL is refused with, in static memory. */
static const char *refusal(const char *text)
{
    static struct simba_error error;
    simba_url *url = NULL;

    if (sb_url_parse(text, &url, &error) == SIMBA_OK)
        fail_msg("'%s' is not refused", text != NULL ? text : "NULL");
    assert_null(url);
    assert_int_equal(error.code, SIMBA_EINVAL);
    return error.text;
}

static void files_are_a_scheme_and_a_path(void **state)
{
    static const char *const cases[][3] = {
        {"sqlite:jobs.db", "sqlite", "jobs.db"},
        {"sqlite:./a/jobs.db", "sqlite", "./a/jobs.db"},
        {"sqlite:/var/lib/jobs.db", "sqlite", "/var/lib/jobs.db"},
        {"sqlite:///var/lib/jobs.db", "sqlite", "/var/lib/jobs.db"},
        {"sqlite:/with%20space/%C3%A4.db", "sqlite", "/with space/\xc3\xa4.db"},
        {"sqlite:a b", "sqlite", "a b"},
        {"SQLite:X", "sqlite", "X"},
        {"memory:", "memory", ""},
        {"memory:jobs", "memory", "jobs"},
        {"memory://", "memory", ""},
        {"redis+unix:/run/redis.sock", "redis+unix", "/run/redis.sock"},
        {"sqlite:C:/x", "sqlite", "C:/x"},
        {"sqlite:/a/%3Fb", "sqlite", "/a/?b"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        simba_url *url = parse(cases[i][0]);

        assert_string_equal(simba_url_scheme(url), cases[i][1]);
        assert_string_equal(simba_url_path(url), cases[i][2]);
        assert_int_equal(simba_url_host_count(url), 0);
        assert_null(simba_url_host(url, 0));
        assert_int_equal(simba_url_port(url, 0), 0);
        assert_null(simba_url_user(url));
        assert_null(simba_url_password(url));
        sb_url_free(url);
    }
}

static void servers_have_user_password_hosts_and_path(void **state)
{
    simba_url *url = parse("mysql://al%40x:p%2Fw%3A%40%25@db1:3306,db2/simba%20db?ttl=5s");

    assert_string_equal(simba_url_user(url), "al@x");
    assert_string_equal(simba_url_password(url), "p/w:@%");
    assert_int_equal(simba_url_host_count(url), 2);
    assert_string_equal(simba_url_host(url, 0), "db1");
    assert_int_equal(simba_url_port(url, 0), 3306);
    assert_string_equal(simba_url_host(url, 1), "db2");
    assert_int_equal(simba_url_port(url, 1), 0);
    assert_null(simba_url_host(url, 2));
    assert_string_equal(simba_url_path(url), "/simba db");
    assert_string_equal(simba_url_param(url, "ttl"), "5s");
    sb_url_free(url);
}

static void user_and_password_may_be_missing_or_empty(void **state)
{
    simba_url *only_password = parse("redis://:secret@h");
    simba_url *only_user = parse("redis://al@h");
    simba_url *empty_password = parse("redis://al:@h");
    simba_url *colons = parse("redis://al:a:b@c@h:1");

    assert_null(simba_url_user(only_password));
    assert_string_equal(simba_url_password(only_password), "secret");
    assert_string_equal(simba_url_user(only_user), "al");
    assert_null(simba_url_password(only_user));
    assert_string_equal(simba_url_password(empty_password), "");
    assert_string_equal(simba_url_password(colons), "a:b@c");
    assert_string_equal(simba_url_host(colons, 0), "h");
    sb_url_free(only_password);
    sb_url_free(only_user);
    sb_url_free(empty_password);
    sb_url_free(colons);
}

static void ipv6_hosts_stand_in_brackets(void **state)
{
    simba_url *url = parse("redis://u:p@[::1]:6379,[fe80::1%25eth0],[2001:db8::2]/0");

    assert_int_equal(simba_url_host_count(url), 3);
    assert_string_equal(simba_url_host(url, 0), "::1");
    assert_int_equal(simba_url_port(url, 0), 6379);
    assert_string_equal(simba_url_host(url, 1), "fe80::1%eth0");
    assert_string_equal(simba_url_host(url, 2), "2001:db8::2");
    assert_string_equal(simba_url_path(url), "/0");
    sb_url_free(url);
    refusal("redis://::1");
    refusal("redis://[::1");
    refusal("redis://[::1]x");
    refusal("redis://[::1]:");
    refusal("redis://[]");
    refusal("redis://[localhost]");
    refusal("redis://[1.2.3.4]");
}

static void ports_are_numbers_from_1_to_65535(void **state)
{
    static const char *const bad[] = {
        "",   "0", "65536", "99999", "123456", "99999999999999999999", "-1", "+1",
        "1x", "x", " 1",    "1 ",    "%31"};
    simba_url *url = parse("redis://a:1,b:65535,c:00080");

    assert_int_equal(simba_url_port(url, 0), 1);
    assert_int_equal(simba_url_port(url, 1), 65535);
    assert_int_equal(simba_url_port(url, 2), 80);
    sb_url_free(url);
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        char text[64];

        snprintf(text, sizeof(text), "redis://h:%s/0", bad[i]);
        assert_non_null(strstr(refusal(text), "65535"));
    }
}

static void parameters_are_found_by_name(void **state)
{
    simba_url *url = parse("sqlite:x?ttl=10s&jitter=-200ms..1s&e=&q=a%26b%3Dc&eq=a=b&pl=a+b&s=/?@");

    assert_string_equal(simba_url_path(url), "x");
    assert_string_equal(simba_url_param(url, "ttl"), "10s");
    assert_string_equal(simba_url_param(url, "jitter"), "-200ms..1s");
    assert_string_equal(simba_url_param(url, "e"), "");
    assert_string_equal(simba_url_param(url, "q"), "a&b=c");
    assert_string_equal(simba_url_param(url, "eq"), "a=b");
    assert_string_equal(simba_url_param(url, "pl"), "a+b");
    assert_string_equal(simba_url_param(url, "s"), "/?@");
    assert_null(simba_url_param(url, "TTL"));
    assert_null(simba_url_param(url, "tt"));
    sb_url_free(url);
}

static void a_parameter_nobody_asked_for_is_told(void **state)
{
    simba_url *url = parse("sqlite:x?ttl=10s&tranistion=6s");
    simba_url *none = parse("sqlite:x?");

    assert_string_equal(sb_url_unused_param(url), "ttl");
    simba_url_param(url, "ttl");
    assert_string_equal(sb_url_unused_param(url), "tranistion");
    simba_url_param(url, "tranistion");
    assert_null(sb_url_unused_param(url));
    assert_null(sb_url_unused_param(none));
    sb_url_free(url);
    sb_url_free(none);
}

/* What was asked for is what there is. */
static void a_parameter_that_is_misspelt_is_told_what_may_have_been_meant(void **state)
{
    static const char *const cases[][2] = {
        {"x://h?tranistion=6s", "'tranistion'; did you mean 'transition'?"},
        {"x://h?tll=6s", "'tll'; did you mean 'ttl'?"},
        {"x://h?pasword-file=a", "'pasword-file'; did you mean 'password-file'?"},
        {"x:h?pasword-file=a", "has no option 'pasword-file'"},
        {"x://h?user=a", "has no option 'user'"},
        {"x://h?something=a", "has no option 'something'"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        simba_url *url = parse(cases[i][0]);
        struct simba_error error;

        simba_url_param(url, "ttl");
        simba_url_param(url, "transition");
        assert_int_equal(simba_url_check_params(url, &error), SIMBA_ECONFIG);
        assert_string_equal(strstr(error.text, cases[i][1]), cases[i][1]);
        sb_url_free(url);
    }
}

static void a_text_that_is_nearly_a_url_is_told_what_to_write(void **state)
{
    static const char *const cases[][2] = {
        {"redis//h", "has no ':' behind its scheme: write redis://h"},
        {"/srv/jobs.db", "for a file write sqlite:/srv/jobs.db"},
        {"//srv/jobs.db", "for a file write sqlite://srv/jobs.db"},
        {"~/jobs.db", "write sqlite: and its whole path, without '~'"},
        {"redis//u:s3cret@h", "does not begin with a scheme"},
        {"redis//s3cret@h", "does not begin with a scheme"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *sentence = refusal(cases[i][0]);

        if (strstr(sentence, cases[i][1]) == NULL || strstr(sentence, "s3cret") != NULL)
            fail_msg("%s: %s", cases[i][0], sentence);
    }
}

static void duration_parameters_are_read(void **state)
{
    simba_url *url = parse("sqlite:x?ttl=1m&bad=5");
    struct simba_error error;
    int64_t value = 7;

    assert_int_equal(simba_url_duration(url, "absent", &value, &error), SIMBA_OK);
    assert_int_equal(value, 7);
    assert_int_equal(simba_url_duration(url, "ttl", &value, &error), SIMBA_OK);
    assert_int_equal(value, 60000);
    assert_int_equal(simba_url_duration(url, "bad", &value, &error), SIMBA_EINVAL);
    assert_int_equal(value, 60000);
    assert_non_null(strstr(error.text, "'bad'"));
    assert_null(sb_url_unused_param(url));
    sb_url_free(url);
}

static void questions_without_a_url_or_a_place_for_the_answer_are_misuse(void **state)
{
    simba_url *url = NULL;
    int64_t value = 7;

    assert_int_equal(sb_url_parse("memory:x?ttl=2s", &url, NULL), SIMBA_OK);
    assert_int_equal(simba_url_duration(NULL, "ttl", &value, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_url_duration(url, NULL, &value, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_url_duration(url, "ttl", NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_url_check_params(NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(value, 7);
    sb_url_free(url);
}

static void parameters_that_make_no_sense_are_refused(void **state)
{
    assert_non_null(strstr(refusal("sqlite:x?ttl=1s&ttl=2s"), "'ttl' twice"));
    assert_non_null(strstr(refusal("sqlite:x?ttl=1s&t%74l=2s"), "'ttl' twice"));
    refusal("sqlite:x?ttl");
    refusal("sqlite:x?=1");
    refusal("sqlite:x?a=1&&b=2");
    refusal("sqlite:x?a=1&");
    refusal("sqlite:x?&");
}

static void escapes_that_make_no_sense_are_refused(void **state)
{
    static const char *const cases[] = {
        "sqlite:a%",      "sqlite:a%4",     "sqlite:a%zz",    "sqlite:a%4x",
        "sqlite:a%00b",   "sqlite:x?a=%00", "sqlite:x?%00=a", "sqlite:x?a=%",
        "redis://%00@h",  "redis://u:%0@h", "redis://a%/0",   "redis://[%0]",
        "redis://h%00/x", "sqlite:%%41",    "redis://u:%@h",  "redis://a%0Ab",
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        refusal(cases[i]);
    assert_null(strstr(refusal("redis://u%3ahunter2%40h:1"), "hunter2"));
}

/* ---- Passwords from elsewhere ---------------------------------------------------------------- */

static const char secret_path[] = "url_test.secret";

static void write_secret(const char *text, mode_t mode)
{
    FILE *file = fopen(secret_path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(secret_path, mode), 0);
}

static int remove_secret(void **state)
{
    unlink(secret_path);
    unsetenv("URL_TEST_SECRET");
    return 0;
}

static simba_url *resolved(const char *text)
{
    simba_url *url = parse(text);
    struct simba_error error = {0, 0, ""};

    if (sb_url_resolve(url, &error) != SIMBA_OK)
        fail_msg("%s: %s", text, error.text);
    return url;
}

static void user_and_password_may_be_parameters(void **state)
{
    simba_url *url = resolved("x://h?user=u%40x&password=p%26q");

    assert_string_equal(sb_url_unused_param(url), "user");
    assert_string_equal(simba_url_user(url), "u@x");
    assert_string_equal(sb_url_unused_param(url), "password");
    assert_string_equal(simba_url_password(url), "p&q");
    assert_null(sb_url_unused_param(url));
    sb_url_free(url);
}

static void a_password_is_read_from_a_file(void **state)
{
    simba_url *url;

    write_secret("s3cret with space\n", 0600);
    url = resolved("x://u@h?password-file=url_test.secret");
    assert_non_null(sb_url_unused_param(url));
    assert_string_equal(simba_url_password(url), "s3cret with space");
    assert_null(sb_url_unused_param(url));
    sb_url_free(url);
}

static void any_password_is_read_from_the_environment(void **state)
{
    simba_url *url;

    setenv("URL_TEST_SECRET", "s3cret", 1);
    url = resolved("x://h?tls-key-password-env=URL_TEST_SECRET&password-env=URL_TEST_SECRET");
    assert_null(simba_url_param(url, "key-password"));
    assert_string_equal(simba_url_param(url, "tls-key-password"), "s3cret");
    assert_string_equal(simba_url_password(url), "s3cret");
    assert_null(sb_url_unused_param(url));
    sb_url_free(url);
}

/* A word that only ends like it is somebody's own option. */
static void other_options_are_left_alone(void **state)
{
    simba_url *url = resolved("x://h?mypassword-file=/nowhere&key-file=/nowhere&file=-file");

    assert_null(simba_url_password(url));
    assert_string_equal(simba_url_param(url, "mypassword-file"), "/nowhere");
    assert_null(simba_url_param(url, "mypassword"));
    sb_url_free(url);
}

static void a_password_that_cannot_be_had_is_refused_by_name(void **state)
{
    static const struct {
        const char *url;
        const char *part;
    } cases[] = {
        {"x://h?password-file=/no/such/file", "/no/such/file"},
        {"x://h?password-file=.", "."},
        {"x://h?password-env=URL_TEST_NOBODY", "URL_TEST_NOBODY"},
        {"x://u:passphrase7@h?password-file=url_test.secret", "password-file"},
        {"x://u:passphrase7@h?password=passphrase8", "password"},
        {"x://u:passphrase7@h?user=x", "user"},
        {"x://h?a-password=passphrase7&a-password-file=url_test.secret", "a-password-file"},
        {"x://h?password-env=URL_TEST_SECRET&password-file=url_test.secret", "password-file"},
    };

    write_secret("passphrase9\n", 0600);
    setenv("URL_TEST_SECRET", "passphrase9", 1);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        simba_url *url = parse(cases[i].url);
        struct simba_error error = {0, 0, ""};

        assert_int_equal(sb_url_resolve(url, &error), SIMBA_ECONFIG);
        assert_non_null(strstr(error.text, cases[i].part));
        assert_null(strstr(error.text, "passphrase"));
        sb_url_free(url);
    }
}

static void a_password_file_that_everybody_may_write_is_refused(void **state)
{
    simba_url *url = parse("x://h?password-file=url_test.secret");
    struct simba_error error;

    write_secret("s3cret\n", 0602);
    assert_int_equal(sb_url_resolve(url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "chmod"));
    sb_url_free(url);
}

static void a_password_file_that_is_empty_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"", "is empty"}, {"\n", "empty first line"}, {"\r\ns3cret\n", "empty first line"}};

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        simba_url *url = parse("x://h?password-file=url_test.secret");
        struct simba_error error;

        write_secret(cases[i][0], 0600);
        assert_int_equal(sb_url_resolve(url, &error), SIMBA_ECONFIG);
        assert_non_null(strstr(error.text, cases[i][1]));
        assert_null(strstr(error.text, "s3cret"));
        sb_url_free(url);
    }
}

static void a_password_file_is_named_with_the_folder_that_it_was_looked_for_in(void **state)
{
    simba_url *url = parse("x://h?password-file=no/such/file");
    struct simba_error error;
    char before[TEST_PATH_MAX];

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir("/usr"), 0);
    assert_int_equal(sb_url_resolve(url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, " /usr/no/such/file "));
    assert_int_equal(chdir(before), 0);
    sb_url_free(url);
}

static void a_password_file_that_is_too_long_is_refused(void **state)
{
    simba_url *url = parse("x://h?password-file=url_test.secret");
    struct simba_error error;

    write_secret("s3cret\n", 0600);
    assert_int_equal(truncate("url_test.secret", 1025), 0);
    assert_int_equal(sb_url_resolve(url, &error), SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "1024"));
    sb_url_free(url);
}

static void a_path_without_a_scheme_gets_a_hint(void **state)
{
    assert_non_null(strstr(refusal("jobs.db"), "sqlite:jobs.db"));
    assert_non_null(strstr(refusal("/srv/jobs.db"), "sqlite:/srv/jobs.db"));
    assert_null(strstr(refusal("secret@host"), "secret"));
    assert_null(strstr(refusal("!user:secret@host"), "secret"));
    assert_non_null(strstr(refusal(""), "empty"));
}

static void a_url_needs_a_scheme(void **state)
{
    static const char *const cases[] = {"",      ":",     "/var/x.db", "jobs.db", "1a:x", "a b:x",
                                        "a_b:x", "%61:x", "//h/x",     "-:x",     "?a:b", "sqlite"};
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        assert_non_null(strstr(refusal(cases[i]), "scheme"));
    refusal(NULL);
}

static void hosts_must_not_be_empty(void **state)
{
    refusal("redis://a,,b");
    refusal("redis://a,");
    refusal("redis://,a");
    refusal("redis://:6379");
}

static void control_characters_are_refused(void **state)
{
    refusal("sqlite:a\nb");
    refusal("sqlite:a\x7f");
    refusal("\x01:a");
}

/* Writes `start`, then `count` times `piece`, into static memory. */
static const char *repeated(const char *start, const char *piece, size_t count)
{
    static char data[8192];
    struct sb_text text;

    sb_text_init(&text, data, sizeof(data));
    sb_text_add(&text, "%s", start);
    for (size_t i = 0; i < count; i++)
        sb_text_add(&text, piece, i);
    assert_false(text.cut);
    return data;
}

static void everything_has_a_cap(void **state)
{
    sb_url_free(parse(repeated("sqlite:", "x", 4096 - 7)));
    assert_non_null(strstr(refusal(repeated("sqlite:", "x", 4096 - 6)), "4096"));
    sb_url_free(parse(repeated("redis://h", ",h%zu", 15)));
    assert_non_null(strstr(refusal(repeated("redis://h", ",h%zu", 16)), "16 hosts"));
    sb_url_free(parse(repeated("sqlite:x?a=1", "&p%zu=1", 63)));
    assert_non_null(strstr(refusal(repeated("sqlite:x?a=1", "&p%zu=1", 64)), "64 parameters"));
}

static void a_refusal_leaves_the_result_alone(void **state)
{
    simba_url *url = (simba_url *)state;

    assert_int_equal(sb_url_parse("nonsense", &url, NULL), SIMBA_EINVAL);
    assert_ptr_equal(url, state);
    sb_url_free(NULL);
}

static void redaction_hides_passwords(void **state)
{
    static const char *const cases[][2] = {
        {"sqlite:/a/b.db?ttl=1s", "sqlite:/a/b.db?ttl=1s"},
        {"redis://al:pw@h:1/0", "redis://al:***@h:1/0"},
        {"redis://:pw@h", "redis://:***@h"},
        {"redis://al@h", "redis://al@h"},
        {"redis://h:6379/0", "redis://h:6379/0"},
        {"redis://a:1,b:2/0?x=a@b", "redis://a:***@b"}, /* who knows */
        {"redis://al:p@w@h", "redis://al:***@h"},
        {"redis://al:p/w@h", "redis://al:***@h"},
        {"redis://al:p?w@h", "redis://al:***@h"},
        {"redis://al:/pw@h", "redis://al:***@h"},
        {"redis://al:12/pw@h?x=a@b", "redis://al:***@b"},
        {"redis://al:p@w/x@h", "redis://al:***@h"},
        {"redis://al:p@w?x@h/0?a=b", "redis://al:***@h/0?a=b"},
        {"redis://h/a@b", "redis://h/a@b"},
        {"redis://h:1/a@b", "redis://h:***@b"}, /* who knows */
        {"redis://[::1]:1/0?x=ab", "redis://[::1]:1/0?x=ab"},
        {"redis://:sec?Ab=ret@h/0", "redis://:***@h/0"},
        {"redis://:se&c=ret@h/0?a=b", "redis://:***@h/0?a=b"},
        {"redis://h:1/0?password=p@w&a=b", "redis://h:***@&a=b"},
        {"redis://h:1/0?password=p?w@x", "redis://h:***@"},
        {"redis://h/0?password=p?w@x&b=c", "redis://h/0?password=***&b=c"},
        {"redis://h/0?password=pw&b=:@x", "redis://h/0?password=***&b=:***@x"},
        {"redis://al:pw@h/0&password=x", "redis://al:***@h/0&password=***"},
        {"redis://h/0?a=b?password=x", "redis://h/0?a=b?password=***"},
        {"postgres:/u:hunter2@h/db", "postgres:/u:***@h/db"},
        {"postgres:u:hunter2@h/db", "postgres:***@h/db"},
        {"u:hunter2@h/db", "u:***@h/db"},
        {"sqlite:/a/b@c.db", "sqlite:/a/b@c.db"},
        {"redis://h/0?password=x&a=b", "redis://h/0?password=***&a=b"},
        {"redis://h/0?a=b&tls-key-password=x", "redis://h/0?a=b&tls-key-password=***"},
        {"redis://h/0?PassWord=x", "redis://h/0?PassWord=***"},
        {"redis://h/0?p%61ssword=x", "redis://h/0?p%61ssword=***"},
        {"redis://h/0?passwords=x", "redis://h/0?passwords=***"},
        {"mysql://h/db?passwd=hunter2", "mysql://h/db?passwd=***"},
        {"mysql://h/db?PWD=x&client_secret=y", "mysql://h/db?PWD=***&client_secret=***"},
        {"redis://h/0?a-password-file=/x&password-env=Y",
         "redis://h/0?a-password-file=/x&password-env=Y"},
        {"redis://h/0?tls-key-pasword=x", "redis://h/0?tls-key-pasword=***"},
        {"postgres://h/d?options=password%3Dx&a=b", "postgres://h/d?options=***&a=b"},
        {"user=u password=x host=h", "user=u password=***"},
        {"sqlite:x?password", "sqlite:x?password"},
        {"sqlite:x?a=redis://u:p@h", "sqlite:***@h"},
        {"redis://h;password=x", "redis://h;password=***"},
        {"redis://h#password=x", "redis://h#password=***"},
        {"redis://h/0,password=x", "redis://h/0,password=***"},
        {"redis://h?password%3dx&a=b", "redis://h?***&a=b"},
        {"redis://al:pw", "redis://al:***"},
        {"redis://al:1,be:pw/0", "redis://al:1,be:***"},
        {"redis://al:a@b:pw", "redis://al:***@b:***"},
        {"redis://[al:pw]", "redis://[al:***"},
        {"redis://[::ffff:1.2.3.4]:7,[fe80::1]:8/0", "redis://[::ffff:1.2.3.4]:7,[fe80::1]:8/0"},
        {"redis:al:pw", "redis:al:***"},
        {"sqlite:/a:b:c.db", "sqlite:/a:b:c.db"},
        {"", ""},
        {"://", "://"},
        {"://:x@", "://:***@"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char buffer[128];

        assert_ptr_equal(sb_url_redact(cases[i][0], buffer, sizeof(buffer)), buffer);
        assert_string_equal(buffer, cases[i][1]);
    }
}

static void a_message_hides_passwords_in_its_words(void **state)
{
    static const char *const cases[][2] = {
        {"there is no file redis://al:pw@h", "there is no file redis://al:***@h"},
        {"cannot run 'redis://al:pw': not found", "cannot run 'redis://al:*** not found"},
        {"the host h;password=x is not there", "the host h;password=*** is not there"},
        {"user=u password=x host=h", "user=u password=*** host=h"},
        {"mutex 'm' is held by 0:12345@192.168.1.1~k3",
         "mutex 'm' is held by 0:12345@192.168.1.1~k3"},
        {"the store is redis://h:1/0 and 0:1@h waits",
         "the store is redis://h:1/0 and 0:1@h waits"},
        {"'redis://h:1' or 'redis://[::1]:2'.", "'redis://h:1' or 'redis://[::1]:2'."},
        {"12:30 a: b", "12:30 a: b"},
        {"", ""},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char buffer[128];

        assert_ptr_equal(sb_url_redact_message(cases[i][0], buffer, sizeof(buffer)), buffer);
        assert_string_equal(buffer, cases[i][1]);
    }
}

static void refusals_and_redaction_never_tell_a_password(void **state)
{
    static const char *const cases[] = {
        "redis://al:SECRET/x@h",       "redis://al:SECRET?x@h",
        "redis://al:SECRET%zz@h",      "redis://al:SECRET@h:x",
        "redis://al:SECRET@h,,b",      "redis://al:SECRET@[x]",
        "redis://al:SECRET@h/%",       "redis://al:SECRET@h?a",
        "redis://al:SECRET@h?a=1&a=2", "redis://h?password=SECRET&password=SECRET",
        "redis://al:SECRET:1@h:99999", "redis://h?password=SECRET%",
        "user=u password=SECRET",      "host=h?pasword=SECRET",
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char buffer[128];

        assert_null(strstr(refusal(cases[i]), "SECRET"));
        assert_null(strstr(sb_url_redact(cases[i], buffer, sizeof(buffer)), "SECRET"));
    }
}

static void redaction_keeps_within_its_buffer(void **state)
{
    char buffer[8] = "zzzzzzz";

    sb_url_redact("redis://al:pw@h", buffer, sizeof(buffer));
    assert_string_equal(buffer, "redis:/");
}

/* Any text of the characters that mean something is read or refused, within its memory (the
 * sanitizers watch) and without a secret's leak. */
static void random_texts_do_no_harm(void **state)
{
    static const char letters[] = "a:/?#[]@,&=%0419.-+x\x80 ";
    uint64_t random = 99;
    int good = 0;

    for (int i = 0; i < 200000; i++) {
        char text[40] = "s:";
        char buffer[64];
        size_t length = 2 + sb_random_next(&random) % 36;
        simba_url *url = NULL;

        for (size_t j = i % 2 == 0 ? 2 : 0; j < length; j++)
            text[j] = letters[sb_random_next(&random) % (sizeof(letters) - 1)];
        text[length] = '\0';
        sb_url_redact(text, buffer, sizeof(buffer));
        if (sb_url_parse(text, &url, NULL) != SIMBA_OK)
            continue;
        good++;
        assert_non_null(simba_url_path(url));
        assert_true(strlen(simba_url_path(url)) < sizeof(text));
        sb_url_free(url);
    }
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_a_scheme_and_a_path),
        cmocka_unit_test(servers_have_user_password_hosts_and_path),
        cmocka_unit_test(user_and_password_may_be_missing_or_empty),
        cmocka_unit_test(ipv6_hosts_stand_in_brackets),
        cmocka_unit_test(ports_are_numbers_from_1_to_65535),
        cmocka_unit_test(parameters_are_found_by_name),
        cmocka_unit_test(a_parameter_nobody_asked_for_is_told),
        cmocka_unit_test(a_parameter_that_is_misspelt_is_told_what_may_have_been_meant),
        cmocka_unit_test(a_text_that_is_nearly_a_url_is_told_what_to_write),
        cmocka_unit_test(duration_parameters_are_read),
        cmocka_unit_test(questions_without_a_url_or_a_place_for_the_answer_are_misuse),
        cmocka_unit_test(parameters_that_make_no_sense_are_refused),
        cmocka_unit_test(escapes_that_make_no_sense_are_refused),
        cmocka_unit_test_teardown(user_and_password_may_be_parameters, remove_secret),
        cmocka_unit_test_teardown(a_password_is_read_from_a_file, remove_secret),
        cmocka_unit_test_teardown(any_password_is_read_from_the_environment, remove_secret),
        cmocka_unit_test_teardown(other_options_are_left_alone, remove_secret),
        cmocka_unit_test_teardown(a_password_that_cannot_be_had_is_refused_by_name, remove_secret),
        cmocka_unit_test_teardown(a_password_file_that_everybody_may_write_is_refused,
                                  remove_secret),
        cmocka_unit_test_teardown(a_password_file_that_is_too_long_is_refused, remove_secret),
        cmocka_unit_test_teardown(a_password_file_that_is_empty_is_refused, remove_secret),
        cmocka_unit_test_teardown(
            a_password_file_is_named_with_the_folder_that_it_was_looked_for_in, remove_secret),
        cmocka_unit_test(a_path_without_a_scheme_gets_a_hint),
        cmocka_unit_test(a_url_needs_a_scheme),
        cmocka_unit_test(hosts_must_not_be_empty),
        cmocka_unit_test(control_characters_are_refused),
        cmocka_unit_test(everything_has_a_cap),
        cmocka_unit_test(a_refusal_leaves_the_result_alone),
        cmocka_unit_test(redaction_hides_passwords),
        cmocka_unit_test(a_message_hides_passwords_in_its_words),
        cmocka_unit_test(refusals_and_redaction_never_tell_a_password),
        cmocka_unit_test(redaction_keeps_within_its_buffer),
        cmocka_unit_test(random_texts_do_no_harm),
    };

    return cmocka_run_group_tests(tests, test_enter_folder, test_leave_folder);
}
