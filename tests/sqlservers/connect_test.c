/*
 * connect_test.c - where and how a client connects: TLS, sockets, several hosts, sessions that were
 * set up otherwise.
 */
#include "server.h"

#include "backend/host.h"

#include <simba/sql.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static struct server other;

static int start_servers(void **state)
{
    struct host host;

    server.tls = true;
    server_create(&server, false);
    server_create(&other, false);
    for (int i = 0; i < 2; i++) {
        const struct server *s = i == 0 ? &server : &other;

        if (host_open(&host, s->url) != SIMBA_OK || !host_close(&host))
            return -1;
        server_sql(s, "%s", dialect_create_user);
        server_sql(s, "%s", dialect_grant_use);
    }
    return 0;
}

static int stop_servers(void **state)
{
    server_destroy(&other);
    return server_teardown(state);
}

static int try_url(const char *url, struct simba_error *error)
{
    struct host host;
    int code = host_open(&host, url);

    *error = host.open_error;
    if (code == SIMBA_OK)
        assert_true(host_close(&host));
    return code;
}

static void assert_connects(const char *url)
{
    struct simba_error error;

    if (try_url(url, &error) != SIMBA_OK)
        fail_msg("%s: %s", url, error.text);
}

static void assert_refused(const char *url, int code)
{
    struct simba_error error;

    if (try_url(url, &error) != code)
        fail_msg("%s: %s", url, error.text);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* A URL of the server by a name that is, or is not, in its certificate. */
static const char *tls_url(const char *host, const char *options)
{
    static char url[2 * TEST_PATH_MAX];

    snprintf(url, sizeof url, "%s://%s@%s:%d/%s?%s", dialect_scheme, dialect_admin, host,
             server.port, dialect_database, options);
    return url;
}

static void tls_verifies_the_certificate_and_the_name(void **state)
{
    char trusting[TEST_PATH_MAX + 32];

    snprintf(trusting, sizeof trusting, "tls-ca=%s/cert.pem", server.folder);
    assert_connects(tls_url("localhost", trusting));
    assert_refused(tls_url("127.0.0.1", trusting), SIMBA_EUNAVAILABLE); /* another name */
    assert_refused(tls_url("localhost", "tls=on&tls-ca=/etc/ssl/certs/ca-certificates.crt"),
                   SIMBA_EUNAVAILABLE); /* a stranger's signature */
    assert_connects(tls_url("127.0.0.1", "tls=on&tls-verify=no"));
}

/* What TLS has read ahead does not show on the socket. */
static void single_requests_go_through_tls(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, tls_url("127.0.0.1", "tls=on&tls-verify=no")), SIMBA_OK);
    for (int i = 0; i < 20; i++) {
        struct call call = host_do(&host, SIMBA_OP_ACQUIRE, "tls", "a", 0);

        assert_string_equal(call.owner, "a");
        assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "tls", "b", 0).owner, "a");
        assert_string_equal(host_do(&host, SIMBA_OP_READ, "tls", NULL, 0).owner, "a");
        call = host_do(&host, SIMBA_OP_RELEASE, "tls", "a", call.revision);
        assert_int_equal(call.code, SIMBA_OK);
        assert_string_equal(call.owner, "");
    }
    assert_true(host_close(&host));
}

/* ---- Places ---------------------------------------------------------------------------------- */

static void a_socket_can_be_named(void **state)
{
    char url[2 * TEST_PATH_MAX];

    snprintf(url, sizeof url, "%s://%s@/%s?socket=%s/%s", dialect_scheme, dialect_admin,
             dialect_database, server.folder, dialect_socket(&server));
    assert_connects(url);
}

/* The first host cannot be written to, the second can. */
static void a_read_only_host_is_passed_over(void **state)
{
    struct host host;
    char url[512];

    snprintf(url, sizeof url, "%s://plain:secret@127.0.0.1:%d,127.0.0.1:%d/%s", dialect_scheme,
             server.port, other.port, dialect_database);
    server_sql(&server, "%s", dialect_read_only);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "hosts", "a", 0).owner, "a");
    assert_int_equal(server_number(&other, "SELECT count(*) FROM simba_mutex"), 1);
    assert_true(host_close(&host));
    server_sql(&server, "%s", dialect_read_write);
}

/* The first host takes the connection and says nothing. */
static void a_silent_host_is_passed_over(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int silent = socket(AF_INET, SOCK_STREAM, 0);
    struct host host;
    char url[512];

    assert_int_equal(bind(silent, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(silent, 8), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &length), 0);
    snprintf(url, sizeof url, "%s://plain:secret@127.0.0.1:%d,127.0.0.1:%d/%s?connect-timeout=4s",
             dialect_scheme, ntohs(address.sin_port), other.port, dialect_database);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "silent", "a", 0).owner, "a");
    assert_true(host_close(&host));
    close(silent);
}

static void settings_that_mean_nothing_are_a_matter_of_configuration(void **state)
{
    struct simba_error error;
    int code;

    assert_refused(server_url(&server, dialect_admin, "tls=bogus"), SIMBA_EINVAL);
    if (strcmp(dialect_scheme, "postgres") != 0)
        return;
    assert_refused(server_url(&server, dialect_admin, "target-session-attrs=bogus"), SIMBA_EINVAL);
    code = try_url(server_url(&server, dialect_admin, "service=bogus"), &error);
    assert_int_equal(simba_error_group(code), SIMBA_GROUP_CONFIG);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A stranger's set-up of all sessions: the id must come back as it was sent. */
static void the_character_set_of_a_session_is_pinned(void **state)
{
    const char *id = "Gr\xc3\xb6\xc3\x9f"
                     "e";
    struct host host;

    server_sql(&server, "%s", dialect_odd_sessions);
    assert_int_equal(host_open(&host, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "charset", id, 0).owner, id);
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "charset", id, 0).owner, id);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "charset", NULL, 0).owner, id);
    assert_true(host_close(&host));
}

/* Every attempt over a new connection would be thousands of them. */
static void a_repository_does_not_hammer_a_server_that_refuses(void **state)
{
    simba_repository *repository = NULL;
    struct simba_error error;
    bool acquired = false;
    int64_t before;
    int code;

    server_sql(&server, "%s", dialect_read_only);
    assert_int_equal(
        simba_repository_open(server_url(&server, "plain:secret", ""), &repository, &error),
        SIMBA_OK);
    before = server_number(&server, dialect_count_connects);
    code = simba_repository_acquire(repository, "charset", "a", 1000, 1000, &acquired, &error);
    assert_int_equal(code, SIMBA_ESTORE);
    assert_int_equal(error.code, code);
    assert_non_null(strstr(error.text, "read-only"));
    assert_true(server_number(&server, dialect_count_connects) - before < 20);
    server_sql(&server, "%s", dialect_read_write);
    simba_repository_close(repository);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_verifies_the_certificate_and_the_name),
        cmocka_unit_test(single_requests_go_through_tls),
        cmocka_unit_test(a_socket_can_be_named),
        cmocka_unit_test(a_read_only_host_is_passed_over),
        cmocka_unit_test(a_silent_host_is_passed_over),
        cmocka_unit_test(settings_that_mean_nothing_are_a_matter_of_configuration),
        cmocka_unit_test(the_character_set_of_a_session_is_pinned),
        cmocka_unit_test(a_repository_does_not_hammer_a_server_that_refuses),
    };

    if (!server_is_installed() || access("/usr/bin/openssl", X_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("connect", tests, start_servers, stop_servers);
}
