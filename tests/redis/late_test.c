/*
 * Clients that are opened while the server is down or refuses their password: one server, and
 * sentinels.
 */
#include "fake.h"
#include "server.h"

#include "lib/hang.h"
#include "lib/late.h"
#include "lib/locker.h"

#include <signal.h>

#define TIMES "?ttl=2s&transition=2s&jitter=0ms..30ms&stop-timeout=5s"

static void a_server_that_starts_later_is_used(void **state)
{
    struct server server = {0};
    struct late late;

    server_start(&server, NULL);
    server_kill(&server, SIGKILL);
    late_begin(&late, server_url(&server, TIMES), SIMBA_GROUP_UNAVAILABLE);
    server_start_again(&server);
    late_end(&late);
    server_stop(&server);
}

static void a_server_that_wants_another_password_is_used_when_it_does_not(void **state)
{
    struct server server = {.password = "pigeon"};
    struct late late;

    server_start(&server, "--requirepass", "pigeon", NULL);
    late_begin(&late, server_url(&server, TIMES "&password=sparrow"), SIMBA_GROUP_DENIED);
    server_do(&server, "CONFIG SET requirepass sparrow");
    late_end(&late);
    server.password = "sparrow";
    server_stop(&server);
}

/* The server's folder is the process's at the opening, and "/" afterwards. */
static void a_relative_socket_is_used_from_another_folder(void **state)
{
    struct server server = {0};
    struct late late;

    server_start(&server, "--unixsocket", "socket", NULL);
    server_kill(&server, SIGKILL);
    assert_int_equal(chdir(server.folder), 0);
    late_begin(&late, "redis+unix:socket" TIMES, SIMBA_GROUP_UNAVAILABLE);
    assert_int_equal(chdir("/"), 0);
    server_start_again(&server);
    late_end(&late);
    server_stop(&server);
}

static void a_relative_socket_is_found_again_from_another_folder(void **state)
{
    struct server server = {0};
    simba_client *client;
    simba_locker *locker;

    server_start(&server, "--unixsocket", "socket", NULL);
    assert_int_equal(chdir(server.folder), 0);
    assert_int_equal(simba_client_open("redis+unix:socket" TIMES, NULL, &client, NULL), SIMBA_OK);
    assert_int_equal(chdir("/"), 0);
    server_kill(&server, SIGKILL);
    server_start_again(&server);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    simba_locker_close(locker);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    server_stop(&server);
}

static void sentinels_that_start_later_are_used(void **state)
{
    struct server master = {0};
    struct server sentinel = {0};
    struct late late;
    char url[256];

    server_start(&master, NULL);
    server_start_sentinel(&sentinel, master.port);
    server_kill(&sentinel, SIGKILL);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/main" TIMES, sentinel.port);
    late_begin(&late, url, SIMBA_GROUP_UNAVAILABLE);
    server_start_again(&sentinel);
    late_end(&late);
    server_stop(&sentinel);
    server_stop(&master);
}

/* A server that takes no connection and refuses none holds up neither the loop nor, for long, the
 * close. */
static void a_server_that_hangs_holds_nobody_up(void **state)
{
    struct tarpit tarpit;
    struct late late;
    int64_t begin;
    char url[256];

    tarpit_open(&tarpit);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d" TIMES "&connect-timeout=1s", tarpit.port);
    late_begin(&late, url, SIMBA_GROUP_UNAVAILABLE);
    for (int i = 0; i < 20; i++) {
        begin = test_now_ms();
        assert_int_not_equal(simba_locker_acquire_timeout(late.locker, 50, NULL), SIMBA_OK);
        assert_true(test_now_ms() - begin < 700);
    }
    late_give_up(&late);
    tarpit_close(&tarpit);
}

static void a_server_that_does_not_answer_holds_up_no_close(void **state)
{
    struct server server = {0};

    server_start(&server, NULL);
    hang_check_close(server.port, "redis://127.0.0.1:%d" TIMES "&" HANG_CONNECT);
    server_stop(&server);
}

static void a_server_that_hangs_once_it_was_opened_delays_nobody(void **state)
{
    struct server server = {0};

    server_start(&server, NULL);
    hang_check_opened_once(server.port, "redis://127.0.0.1:%d" TIMES "&" HANG_CONNECT);
    server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_starts_later_is_used),
        cmocka_unit_test(a_server_that_wants_another_password_is_used_when_it_does_not),
        cmocka_unit_test(a_relative_socket_is_used_from_another_folder),
        cmocka_unit_test(a_relative_socket_is_found_again_from_another_folder),
        cmocka_unit_test(sentinels_that_start_later_are_used),
        cmocka_unit_test(a_server_that_hangs_holds_nobody_up),
        cmocka_unit_test(a_server_that_does_not_answer_holds_up_no_close),
        cmocka_unit_test(a_server_that_hangs_once_it_was_opened_delays_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
