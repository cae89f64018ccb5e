/*
 * questions.h - a file for each question; run.c lists them.
 */
#ifndef BENCH_QUESTIONS_H
#define BENCH_QUESTIONS_H

#include "bench/bench.h"

int bench_cycle(const struct bench_plan *plan, struct bench_result *result,
                struct simba_error *error);
int bench_handover(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error);
int bench_many(const struct bench_plan *plan, struct bench_result *result,
               struct simba_error *error);
int bench_contention(const struct bench_plan *plan, struct bench_result *result,
                     struct simba_error *error);
int bench_failover(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error);
int bench_is_owner(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error);

#endif
