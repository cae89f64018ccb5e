/*
 * A client that is opened while the server is down.
 */
#include "server.h"

#include "lib/late.h"

static void a_server_that_starts_later_is_used(void **state)
{
    struct server server = {0};
    struct late late;

    (void)state;
    server_start(&server);
    server_kill(&server);
    late_begin(&late,
               server_url(&server, "?connect-timeout=1s&ttl=2s&transition=2s&stop-timeout=5s"),
               SIMBA_GROUP_UNAVAILABLE);
    server_start_again(&server);
    late_end(&late);
    server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_later_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
