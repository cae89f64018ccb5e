/*
 * bench.h - prints what was measured, for people and as JSON.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench/bench.h"

#include <stdbool.h>

/* For people: the store and the machine, then a table for each question. */
void cli_bench_begin(const struct bench_plan *plan);
void cli_bench_print(const struct bench_question *question, const struct bench_result *result);

/* One object: the store, the machine, and under "questions" one for each. */
void cli_bench_begin_json(const struct bench_plan *plan);
void cli_bench_print_json(const struct bench_question *question, const struct bench_result *result,
                          bool first);
void cli_bench_end_json(void);

#endif
