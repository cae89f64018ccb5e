/*
 * stores_test.c - the compatibility kit on the embedded stores.
 *
 * The store is an argument, so that the build can run several at once:
 *
 *     stores_test memory | sqlite | processes
 */
#include "kit.h"

#define CASES 14 /* without multi_process */

static void memory_passes_the_kit(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    kit_assert_passes(&options, "memory:tck", CASES);
}

/* Runs on a database in a folder of its own. */
static void run_on_sqlite(struct simba_tck_options *options, int least)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 32];
    struct kit_result result;

    test_folder_create(folder);
    snprintf(url, sizeof(url), "sqlite:%s/tck.db", folder);
    options->url = url;
    result = kit_run(options);
    test_folder_remove(folder);
    kit_assert_passed(&result, least);
}

static void sqlite_passes_the_kit(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    run_on_sqlite(&options, CASES);
}

static void sqlite_excludes_across_processes(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.processes = 3;
    options.only = "multi_process";
    run_on_sqlite(&options, 1);
}

/* First the processes, then all that needs threads, in one run. */
static void sqlite_passes_the_kit_in_three_processes(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.processes = 3;
    run_on_sqlite(&options, CASES + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest memory[] = {cmocka_unit_test(memory_passes_the_kit)};
    const struct CMUnitTest sqlite[] = {cmocka_unit_test(sqlite_passes_the_kit)};
    const struct CMUnitTest processes[] = {
        cmocka_unit_test(sqlite_excludes_across_processes),
        cmocka_unit_test(sqlite_passes_the_kit_in_three_processes),
    };

    if (argc > 1 && strcmp(argv[1], "memory") == 0)
        return cmocka_run_group_tests(memory, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "sqlite") == 0)
        return cmocka_run_group_tests(sqlite, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return cmocka_run_group_tests(processes, NULL, NULL);
    fprintf(stderr, "usage: %s memory | sqlite | processes\n", argv[0]);
    return 2;
}
