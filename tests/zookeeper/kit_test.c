/*
 * kit_test.c - the compatibility kit on ZooKeeper.
 *
 *     kit_test session | release | ensemble | processes
 */
#include "stage.h"
#include "tck/kit.h"

#define CASES 13 /* without multi_process */

static struct server ensemble[ENSEMBLE_SIZE];

static int start_ensemble(void **state)
{
    ensemble_start(ensemble);
    return 0;
}

static int stop_ensemble(void **state)
{
    ensemble_stop(ensemble);
    return 0;
}

static void zookeeper_passes_the_kit(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    kit_assert_passes(&options, server_url(&server, ""), CASES);
}

static void zookeeper_passes_the_kit_letting_go_on_a_disconnect_below_a_chroot(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    kit_assert_passes(&options,
                      server_url(&server, "/some/where?on-disconnect=release&session-timeout=3s"),
                      CASES);
}

static void zookeeper_passes_the_kit_on_an_ensemble(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.ttl_ms = 400;
    options.transition_ms = 600;
    options.contend_ms = 10000; /* for three terms at least, of three servers */
    kit_assert_passes(&options, ensemble_url(ensemble, ""), CASES);
}

static void zookeeper_passes_the_kit_in_three_processes(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    options.processes = 3;
    kit_assert_passes(&options, server_url(&server, ""), CASES + 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest session[] = {cmocka_unit_test(zookeeper_passes_the_kit)};
    const struct CMUnitTest release[] = {
        cmocka_unit_test(zookeeper_passes_the_kit_letting_go_on_a_disconnect_below_a_chroot)};
    const struct CMUnitTest quorum[] = {cmocka_unit_test(zookeeper_passes_the_kit_on_an_ensemble)};
    const struct CMUnitTest processes[] = {
        cmocka_unit_test(zookeeper_passes_the_kit_in_three_processes)};

    if (argc > 1 && strcmp(argv[1], "session") == 0)
        return cmocka_run_group_tests(session, stage_start, stage_stop);
    if (argc > 1 && strcmp(argv[1], "release") == 0)
        return cmocka_run_group_tests(release, stage_start, stage_stop);
    if (argc > 1 && strcmp(argv[1], "ensemble") == 0)
        return cmocka_run_group_tests(quorum, start_ensemble, stop_ensemble);
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return cmocka_run_group_tests(processes, stage_start, stage_stop);
    fprintf(stderr, "usage: %s session | release | ensemble | processes\n", argv[0]);
    return 2;
}
