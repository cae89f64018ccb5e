/*
 * bench.h - prints what was measured, for people and as JSON.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench/bench.h"

#include <stdbool.h>

/* What the numbers depend on. */
struct cli_machine {
    char cpu[128];
    char kernel[160];
    int cores;
    int cores_allowed; /* fewer when it is pinned */
    double load;
};

/* To be read before the first question, which loads the machine itself. */
void cli_machine_read(struct cli_machine *machine);

/* For people: the store and the machine, then a table for each question. */
void cli_bench_begin(const struct bench_plan *plan, const struct cli_machine *machine);
void cli_bench_print(const struct bench_question *question, const struct bench_result *result);

/* One object: the store, the machine, under "questions" one for each, and what the run ended with
 * where that is an error. */
void cli_bench_begin_json(const struct bench_plan *plan, const struct cli_machine *machine);
void cli_bench_print_json(const struct bench_question *question, const struct bench_result *result,
                          bool first);
void cli_bench_end_json(const char *error); /* NULL: none */

#endif
