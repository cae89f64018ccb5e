/*
 * Passwords that are kept for the next connection: what stands in the file by then counts.
 */
#include "base/secret.h"
#include "base/url.h"
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char path[] = "secret_test.secret";

static void write_password(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int remove_password(void **state)
{
    unlink(path);
    return 0;
}

static struct sb_secret take(const char *text, const char *name)
{
    struct sb_secret secret;
    simba_url *url = NULL;
    struct simba_error error = {0, 0, ""};

    if (sb_url_parse(text, &url, &error) != SIMBA_OK || sb_url_resolve(url, &error) != SIMBA_OK ||
        sb_secret_take(&secret, url, name, &error) != SIMBA_OK)
        fail_msg("%s: %s", text, error.text);
    assert_null(sb_url_unused_param(url));
    sb_url_free(url);
    return secret;
}

static void assert_now(const struct sb_secret *secret, int code, const char *expected)
{
    char buffer[SB_SECRET_MAX + 2];
    struct simba_error error = {0, 0, ""};
    const char *text = "";

    assert_int_equal(sb_secret_now(secret, buffer, &text, &error), code);
    assert_true((text == NULL) == (expected == NULL));
    if (expected != NULL)
        assert_string_equal(text, expected);
}

static void a_password_is_what_its_file_says_now(void **state)
{
    struct sb_secret secret;
    char folder[TEST_PATH_MAX];

    write_password("old\n", 0600);
    secret = take("x://h?password-file=secret_test.secret", "password");
    assert_now(&secret, SIMBA_OK, "old");
    write_password("new\n", 0600);
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir("/"), 0); /* wherever the process is by then */
    assert_now(&secret, SIMBA_OK, "new");
    assert_int_equal(chdir(folder), 0);
    sb_secret_clear(&secret);
}

static void so_is_that_of_a_parameter(void **state)
{
    struct sb_secret secret;

    write_password("old", 0600);
    secret = take("x://h?sentinel-password-file=secret_test.secret", "sentinel-password");
    write_password("new", 0600);
    assert_now(&secret, SIMBA_OK, "new");
    sb_secret_clear(&secret);
}

/* A secret is often a link that is turned to the next file. */
static void a_link_is_followed_each_time(void **state)
{
    struct sb_secret secret;

    write_password("old", 0600);
    unlink("secret_test.link");
    assert_int_equal(symlink(path, "secret_test.link"), 0);
    secret = take("x://h?password-file=secret_test.link", "password");
    assert_int_equal(unlink("secret_test.link"), 0);
    assert_int_equal(rename(path, "secret_test.other"), 0);
    assert_int_equal(symlink("secret_test.other", "secret_test.link"), 0);
    assert_now(&secret, SIMBA_OK, "old");
    assert_int_equal(rename("secret_test.other", path), 0);
    write_password("new", 0600);
    assert_int_equal(unlink("secret_test.link"), 0);
    assert_int_equal(symlink(path, "secret_test.link"), 0);
    assert_now(&secret, SIMBA_OK, "new");
    unlink("secret_test.link");
    sb_secret_clear(&secret);
}

/* The first one goes on, and the caller is told why. */
static void a_file_that_cannot_be_used_any_more_is_told(void **state)
{
    struct sb_secret secret;

    write_password("old", 0600);
    secret = take("x://h?password-file=secret_test.secret", "password");
    write_password("planted", 0602);
    assert_now(&secret, SIMBA_ECONFIG, "old");
    assert_int_equal(unlink(path), 0);
    assert_now(&secret, SIMBA_ECONFIG, "old");
    assert_int_equal(mkfifo(path, 0600), 0); /* to read it would wait for a writer */
    assert_now(&secret, SIMBA_ECONFIG, "old");
    sb_secret_clear(&secret);
}

static void a_password_of_the_url_stays(void **state)
{
    struct sb_secret secret = take("x://u:pw@h", "password");

    assert_now(&secret, SIMBA_OK, "pw");
    sb_secret_clear(&secret);
    secret = take("x://u@h", "password");
    assert_now(&secret, SIMBA_OK, NULL);
    sb_secret_clear(&secret);
    sb_secret_clear(&secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_password_is_what_its_file_says_now, remove_password),
        cmocka_unit_test_teardown(so_is_that_of_a_parameter, remove_password),
        cmocka_unit_test_teardown(a_link_is_followed_each_time, remove_password),
        cmocka_unit_test_teardown(a_file_that_cannot_be_used_any_more_is_told, remove_password),
        cmocka_unit_test(a_password_of_the_url_stays),
    };

    return cmocka_run_group_tests(tests, test_enter_folder, test_leave_folder);
}
