/*
 * credentials_test.c - passwords and certificates that are changed while a client runs. Whatever
 * stands in their files counts for the next connection.
 */
#include "server.h"

#include "backend/host.h"

#include <sys/stat.h>

static char folder[TEST_PATH_MAX]; /* the client's own: that of the server may be another user's */
static char password_file[TEST_PATH_MAX + 32];
static char certificate_file[TEST_PATH_MAX + 32];

static int open_store(void **state)
{
    struct host host;

    server.tls = true;
    server_create(&server, false);
    test_folder_create(folder);
    snprintf(password_file, sizeof password_file, "%s/password", folder);
    snprintf(certificate_file, sizeof certificate_file, "%s/trusted.pem", folder);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    return 0;
}

static int close_store(void **state)
{
    test_folder_remove(folder);
    return server_teardown(state);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Until the connection that was ended has been replaced. */
static bool acquires(void *user)
{
    return host_do(user, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

static bool is_refused(void *user)
{
    return host_do(user, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_EDENIED;
}

static void open_with(struct host *host, const char *user, const char *options)
{
    if (host_open(host, server_url(&server, user, options)) != SIMBA_OK)
        fail_msg("%s", host->open_error.text);
    assert_true(acquires(host));
}

static void change_password(const char *password)
{
    server_sql(&server, "ALTER USER plain %s '%s'", dialect_set_password, password);
}

static void a_password_that_was_changed_in_its_file_is_used(void **state)
{
    struct host host;
    char options[TEST_PATH_MAX + 64];

    write_file(password_file, "secret\n");
    snprintf(options, sizeof options, "password-file=%s", password_file);
    open_with(&host, "plain", options);
    change_password("changed");
    write_file(password_file, "changed\n");
    dialect_kill_clients(&server);
    assert_true(test_wait(acquires, &host));
    change_password("secret");
    assert_true(host_close(&host));
}

/* The password of before is tried; where the server does not take it the reason is told. */
static void a_file_that_is_gone_is_told_when_the_server_refuses(void **state)
{
    struct host host;
    struct call call;
    char options[TEST_PATH_MAX + 64];

    write_file(password_file, "secret\n");
    snprintf(options, sizeof options, "password-file=%s", password_file);
    open_with(&host, "plain", options);
    assert_int_equal(unlink(password_file), 0);
    dialect_kill_clients(&server);
    assert_true(test_wait(acquires, &host));
    change_password("changed");
    dialect_kill_clients(&server);
    assert_true(test_wait(is_refused, &host));
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_non_null(strstr(call.error.text, password_file));
    change_password("secret");
    assert_true(test_wait(acquires, &host));
    assert_true(host_close(&host));
}

static void trust(const char *name)
{
    char path[TEST_PATH_MAX + 32];
    char text[8192];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", server.folder, name);
    file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    write_file(certificate_file, text);
}

static bool is_unavailable(void *user)
{
    return host_do(user, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_EUNAVAILABLE;
}

/* The server gets another certificate, of which the client's file knows only later. */
static void certificates_that_were_changed_in_their_file_are_used(void **state)
{
    struct host host;
    char url[2 * TEST_PATH_MAX];

    trust("cert.pem");
    snprintf(url, sizeof url, "%s://%s@localhost:%d/%s?tls-ca=%s", dialect_scheme, dialect_admin,
             server.port, dialect_database, certificate_file);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_true(acquires(&host));
    server_renew_certificate(&server);
    server_sql(&server, "%s", dialect_reload_certificate);
    dialect_kill_clients(&server);
    assert_true(test_wait(is_unavailable, &host));
    trust("cert.pem");
    assert_true(test_wait(acquires, &host));
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_that_was_changed_in_its_file_is_used),
        cmocka_unit_test(a_file_that_is_gone_is_told_when_the_server_refuses),
        cmocka_unit_test(certificates_that_were_changed_in_their_file_are_used),
    };

    if (!server_is_installed() || access("/usr/bin/openssl", X_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("credentials", tests, open_store, close_store);
}
