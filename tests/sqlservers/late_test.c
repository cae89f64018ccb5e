/*
 * Clients that are opened while the server is down, or does not have what the URL names yet.
 */
#include "server.h"

#include "lib/hang.h"
#include "lib/late.h"

#define TIMES "ttl=2s&transition=2s&jitter=0ms..30ms&stop-timeout=5s"

static void a_server_that_starts_later_is_used(void **state)
{
    struct late late;

    server_kill(&server);
    late_begin(&late, server_url(&server, dialect_admin, TIMES), SIMBA_GROUP_UNAVAILABLE);
    server_start(&server);
    late_end(&late);
}

static void a_user_that_is_added_later_is_used(void **state)
{
    struct late late;

    late_begin(&late, server_url(&server, "plain:secret", TIMES), SIMBA_GROUP_DENIED);
    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    late_end(&late);
}

static void a_database_that_is_added_later_is_used(void **state)
{
    char url[512];
    struct late late;

    snprintf(url, sizeof url, "%s://%s@127.0.0.1:%d/later?" TIMES, dialect_scheme, dialect_admin,
             server.port);
    late_begin(&late, url, SIMBA_GROUP_CONFIG);
    server_sql(&server, "CREATE DATABASE later");
    late_end(&late);
}

/* For the port of a proxy. */
static const char *hang_url(void)
{
    static char url[512];

    snprintf(url, sizeof url, "%s://%s@127.0.0.1:%%d/%s?" TIMES "&" HANG_CONNECT, dialect_scheme,
             dialect_admin, dialect_database);
    return url;
}

static void a_server_that_does_not_answer_holds_up_no_close(void **state)
{
    hang_check_close(server.port, hang_url());
}

static void a_server_that_hangs_once_it_was_opened_delays_nobody(void **state)
{
    hang_check_opened_once(server.port, hang_url());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_later_is_used),
        cmocka_unit_test(a_user_that_is_added_later_is_used),
        cmocka_unit_test(a_database_that_is_added_later_is_used),
        cmocka_unit_test(a_server_that_does_not_answer_holds_up_no_close),
        cmocka_unit_test(a_server_that_hangs_once_it_was_opened_delays_nobody),
    };

    return server_run_tests("late", tests);
}
