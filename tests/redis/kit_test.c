/*
 * kit_test.c - the compatibility kit on Redis.
 *
 *     kit_test tcp | unix | processes
 */
#include "server.h"
#include "tck/kit.h"

#define CASES 13 /* without multi_process */

static struct server server;

static int start(void **state)
{
    static char socket[64];

    snprintf(socket, sizeof socket, "/tmp/simba-redis-%d.sock", (int)getpid());
    server_start(&server, "--unixsocket", socket, NULL);
    return 0;
}

static int stop(void **state)
{
    server_stop(&server);
    return 0;
}

static void redis_passes_the_kit(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    kit_assert_passes(&options, server_url(&server, ""), CASES);
}

static void redis_passes_the_kit_over_a_unix_socket(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    char url[128];

    snprintf(url, sizeof url, "redis+unix:/tmp/simba-redis-%d.sock?db=3", (int)getpid());
    options.contend_ms = 1000;
    kit_assert_passes(&options, url, CASES);
}

static void redis_passes_the_kit_in_three_processes(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.processes = 3;
    kit_assert_passes(&options, server_url(&server, ""), CASES + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tcp[] = {cmocka_unit_test(redis_passes_the_kit)};
    const struct CMUnitTest sockets[] = {cmocka_unit_test(redis_passes_the_kit_over_a_unix_socket)};
    const struct CMUnitTest processes[] = {
        cmocka_unit_test(redis_passes_the_kit_in_three_processes)};

    if (argc > 1 && strcmp(argv[1], "tcp") == 0)
        return cmocka_run_group_tests(tcp, start, stop);
    if (argc > 1 && strcmp(argv[1], "unix") == 0)
        return cmocka_run_group_tests(sockets, start, stop);
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return cmocka_run_group_tests(processes, start, stop);
    fprintf(stderr, "usage: %s tcp | unix | processes\n", argv[0]);
    return 2;
}
