/*
 * instrument.h - `simba bench` and `simba tck`: programs of their own, simba-bench and simba-tck in
 * the folder of the modules, which `simba` starts.
 *
 * `simba` and the program read the same command line by the same tables (instrument.c). Then
 * cli_instrument_main of simba.c starts the program, and that of bench.c or tck.c does the work.
 */
#ifndef CLI_INSTRUMENT_H
#define CLI_INSTRUMENT_H

#include "cli/cli.h"

#define CLI_BENCH_ROUNDS_MAX 100

/* What the command line of bench says; 0: nothing. */
struct cli_bench {
    int count;
    int rounds;
    int mutexes;
    int contenders;
    int processes;
    int64_t window_ms;
    bool json;
};

/* The same of tck. */
struct cli_tck {
    const char *only;
    int64_t contend_ms;
    int contenders;
    int processes;
    bool list;
};

/* The `run` of both verbs. Their options are in cli->verb->into. */
int cli_instrument_main(struct cli *cli, int argc, char **argv);

#define CLI_SCRATCH_FILE "store.db" /* SQLite adds files whose names begin like it */

/* A folder that holds nothing but the store of this run, the SQLite file CLI_SCRATCH_FILE. It is
 * removed by its descriptors, so that no link in its place is followed. */
struct cli_scratch {
    int parent;
    int folder;
    char name[64]; /* of the folder in the parent */
};

/* Does the work on one store and returns the exit code. `scratch` is NULL where the user named the
 * store. */
typedef int cli_instrument(const struct cli *cli, const char *url,
                           const struct cli_scratch *scratch, void *user);

/* Runs it on the store that the user named, or on one that exists only for this run: an instrument
 * would slow down the default store and leave names in it. */
int cli_instrument_run(const struct cli *cli, cli_instrument *run, void *user);

#endif
