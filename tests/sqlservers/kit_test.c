/*
 * kit_test.c - the compatibility kit on a database server, in one process and in three.
 */
#include "server.h"
#include "tck/kit.h"

#define CASES 14

/* First the processes, then all that needs threads, in one run. */
static void the_server_passes_the_kit(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.processes = 3;
    options.contend_ms = 2500;
    kit_assert_passes(&options, server.url, CASES);
}

/* Whatever the server's default is, contenders exclude each other and none of them is stuck. */
static void every_isolation_level_will_do(void **state)
{
    char levels[8][64];

    for (size_t i = 0; dialect_isolations[i] != NULL; i++) {
        struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

        server_sql(&server, "%s", dialect_isolations[i]);
        snprintf(levels[i], sizeof levels[i], "%s",
                 server_sql(&server, "%s", dialect_show_isolation));
        assert_true(i == 0 || strcmp(levels[i], levels[i - 1]) != 0); /* it is in force */
        options.only = "multi_contend";
        options.contend_ms = 2000;
        kit_assert_passes(&options, server.url, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_server_passes_the_kit),
        cmocka_unit_test(every_isolation_level_will_do),
    };

    return server_run_tests("kit", tests);
}
