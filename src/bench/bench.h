/*
 * bench.h - measures a store through the library, beside what its own client library needs for the
 * same.
 *
 * Each question is asked in processes of its own: memory and processor time are those of the
 * question, and no process inherits a client. The parent opens nothing itself. The library is used
 * as an application uses it, by simba.h alone.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "bench/result.h"

#include <stdbool.h>

#define BENCH_PREFIX_MAX 24

/* What to measure. A number that is 0 is the question's own. */
struct bench_plan {
    const char *url;
    char prefix[BENCH_PREFIX_MAX]; /* all mutexes begin so; see bench_plan_init */
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t turn_ms;
    bool has_turns; /* the store tells waiters their places */
    int count;      /* measurements of a side in a round */
    int rounds;     /* the sides take turns, and each round has a median of its own */
    int mutexes;
    int contenders;
    int processes;
    int64_t window_ms; /* of a round of contention */
};

/* What a process of its own does. `result` is NULL where it has none. */
typedef int bench_task(const struct bench_plan *plan, struct bench_result *result,
                       struct simba_error *error);

/* A file for each question; run.c lists them. */
bench_task bench_cycle, bench_beside, bench_handover, bench_many, bench_contention, bench_failover,
    bench_is_owner;

struct bench_question {
    const char *name;
    const char *title;
    bench_task *ask;
    int count;
    int rounds;
};

/* Ends with one that has no name. */
extern const struct bench_question bench_questions[];

/* The defaults, and a prefix of its own. */
int bench_plan_init(struct bench_plan *plan, const char *url, struct simba_error *error);

/* Whether the store answers the library. It creates nothing there. SIMBA_ECONTENDED: a signal came,
 * see bench_signal. */
int bench_check(const struct bench_plan *plan, struct simba_error *error);

/* Whether the plain client may do what it needs: it creates and removes its first names, before
 * there is anything else that could stay. Where that fails nothing stays, unless a signal came
 * (SIMBA_ECONTENDED): then call bench_forget. */
int bench_check_rights(const struct bench_plan *plan, struct simba_error *error);

/* Asks, and copies the answer. SIMBA_ECONTENDED: a signal came, see bench_signal. */
int bench_ask(const struct bench_plan *plan, const struct bench_question *question,
              struct bench_result *ret_result, struct simba_error *error);

/* Takes everything off the store that questions with this plan have left there. SIMBA_EUNSUPPORTED:
 * this store can be reached by the library only. */
int bench_forget(const struct bench_plan *plan, struct simba_error *error);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT end the question under way, not the process. */
void bench_catch_signals(void);

/* The signal that has come, 0 where none has. */
int bench_signal(void);

#endif
