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
    struct kit_result result;

    (void)state;
    options.url = server.url;
    options.processes = 3;
    options.contend_ms = 3000;
    result = kit_run(&options);
    kit_assert_passed(&result, CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_server_passes_the_kit)};

    return server_run_tests("kit", tests);
}
