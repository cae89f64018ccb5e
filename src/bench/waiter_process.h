/*
 * waiter_process.h - hand-overs from this process to a waiter in another one, each with a client of
 * its own.
 *
 *     this process     own ...................... rest ... release |<--- measured --->|
 *     the waiter             join ... take (waits) .......................... returns, leave
 *
 * The library, and what is done by hand beside it, go through the same steps.
 */
#ifndef BENCH_WAITER_PROCESS_H
#define BENCH_WAITER_PROCESS_H

#include "bench/bench.h"
#include "bench/process.h"

/* What the sides do. NULL: nothing. */
struct bench_owner {
    int (*own)(void *owner, struct simba_error *error);
    int (*await_waiter)(void *owner, struct simba_error *error); /* it has joined, and takes */
    int (*release)(void *owner, struct simba_error *error);
};

struct bench_waiter {
    int (*join)(void *waiter, struct simba_error *error);
    int (*take)(void *waiter, struct simba_error *error); /* returns when it owns */
    int (*leave)(void *waiter, struct simba_error *error);
};

/* What the two processes share. */
struct bench_handover_state {
    const struct bench_plan *plan;
    size_t way;  /* by hand, where there are several: the one to wait in */
    sem_t ready; /* to be asked */
    sem_t may_join;
    sem_t joined;
    sem_t taken;
    sem_t may_leave;
    double taken_us;
};

struct bench_waiter_process {
    struct bench_handover_state *state;
    struct bench_process process;
};

/* Starts the waiter's process, before this one has opened a client, and waits until it is ready. */
int bench_waiter_process_start(struct bench_waiter_process *waiter, const struct bench_plan *plan,
                               int (*run)(void *state, struct simba_error *error),
                               struct simba_error *error);

/* Harmless where it was not started. */
void bench_waiter_process_end(struct bench_waiter_process *waiter);

/* The waiter's: is asked to wait once more; waits, until it has left again. */
void bench_waiter_await_turn(struct bench_handover_state *state);
int bench_waiter_take(struct bench_handover_state *state, const struct bench_waiter *steps,
                      void *waiter, struct simba_error *error);

/* The owner's: one hand-over. */
int bench_waiter_process_measure(struct bench_waiter_process *waiter,
                                 const struct bench_owner *steps, void *owner, int64_t rest_ms,
                                 struct bench_samples *samples, struct simba_error *error);

#endif
