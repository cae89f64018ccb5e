/*
 * A client that is opened while the server is down.
 */
#include "server.h"

#include "lib/hang.h"
#include "lib/late.h"

#define TIMES "?ttl=2s&transition=2s&stop-timeout=5s"

static void a_server_that_starts_later_is_used(void **state)
{
    struct server server = {0};
    struct late late;

    server_start(&server);
    server_kill(&server);
    late_begin(&late, server_url(&server, TIMES "&connect-timeout=1s"), SIMBA_GROUP_UNAVAILABLE);
    server_start_again(&server);
    late_end(&late);
    server_stop(&server);
}

static void a_server_that_does_not_answer_holds_up_no_close(void **state)
{
    struct server server = {0};

    server_start(&server);
    hang_check_close(server.port, "zookeeper://127.0.0.1:%d" TIMES "&" HANG_CONNECT);
    server_stop(&server);
}

static void a_server_that_hangs_once_it_was_opened_delays_nobody(void **state)
{
    struct server server = {0};

    server_start(&server);
    hang_check_opened_once(server.port, "zookeeper://127.0.0.1:%d" TIMES "&" HANG_CONNECT);
    server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_later_is_used),
        cmocka_unit_test(a_server_that_does_not_answer_holds_up_no_close),
        cmocka_unit_test(a_server_that_hangs_once_it_was_opened_delays_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
