/*
 * instrument.h - `simba bench` and `simba tck`: programs of their own, simba-bench and simba-tck in
 * the folder of the modules, which `simba` starts.
 *
 * `simba` and the program read the same command line by the same table (bench_verb.c, tck_verb.c).
 * What differs is what stands behind: the functions below start the program in `simba`, and do the
 * work in that program.
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

/* Return the exit code. `questions` are the operands. */
int cli_bench_run(const struct cli *cli, const struct cli_bench *options, int question_count,
                  char **questions);
int cli_tck_run(const struct cli *cli, const struct cli_tck *options);

#endif
