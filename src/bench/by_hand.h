/*
 * by_hand.h - hand-overs by plain clients, beside which the library's are measured.
 */
#ifndef BENCH_BY_HAND_H
#define BENCH_BY_HAND_H

#include "bench/raw_store.h"
#include "bench/relay.h"

/* The plain client of this process (see bench_plain_open), and the process of the other. */
struct bench_by_hand {
    struct bench_raw raw;
    struct bench_relay relay;
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
