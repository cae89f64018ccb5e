/*
 * side.h - the two sides of a comparison: the library's client and the plain one.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H

#include "bench/bench.h"
#include "bench/raw_store.h"
#include "bench/waiter_process.h"

#define BENCH_WAYS_MAX 2

/* How long a store may take for an answer. Nobody else wants the mutexes, so a store that takes
 * longer is down. */
#define BENCH_PATIENCE_MS 10000

/* A client with the timings of the plan, which says nothing. */
int bench_client_open(const struct bench_plan *plan, simba_client **ret_client,
                      struct simba_error *error);

/* Waits until the store has answered a contender that was started. Fails when it does not, with
 * what it said last. */
int bench_await_answer(simba_contender *contender, struct simba_error *error);

/* The name of a mutex of this plan. */
void bench_name(const struct bench_plan *plan, const char *what, int number,
                char ret_name[SIMBA_MUTEX_MAX + 1]);

/* The plain client of the plan's store, closed where there is none for it. */
int bench_plain_open(const struct bench_plan *plan, struct bench_raw *ret_raw,
                     struct simba_error *error);

/* How many ways it has; 0 where it is closed. */
size_t bench_way_count(const struct bench_raw *raw);

/* Measurements of the library, and of each way by hand. */
struct bench_sides {
    struct bench_samples ours;
    struct bench_samples raw[BENCH_WAYS_MAX];
    size_t ways;
};

int bench_sides_init(struct bench_sides *sides, size_t ways, size_t capacity,
                     struct simba_error *error);
void bench_sides_free(struct bench_sides *sides);
void bench_sides_end_round(struct bench_sides *sides);

/* ---- Hand-overs by plain clients ------------------------------------------------------------- */

/* The plain client of this process (see bench_plain_open), and the process of the other. */
struct bench_by_hand {
    struct bench_raw raw;
    struct bench_waiter_process waiter;
};

/* The waiter comes first: it is started before this process has opened any client. */
int bench_by_hand_start_waiter(struct bench_by_hand *by_hand, const struct bench_plan *plan,
                               struct simba_error *error);
void bench_by_hand_close(struct bench_by_hand *by_hand); /* harmless where it is not open */

/* How many of the store's ways, the first ones, can hand over. */
size_t bench_by_hand_ways(const struct bench_by_hand *by_hand);

/* One hand-over, after a rest. */
int bench_by_hand_measure(struct bench_by_hand *by_hand, size_t way, struct bench_samples *samples,
                          struct simba_error *error);

#endif
