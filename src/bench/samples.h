/*
 * samples.h - many measurements of one thing, and what is said of them.
 *
 * The machine is shared with others, so measurements come in rounds, and the medians of the rounds
 * tell how far the whole can be trusted.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <simba/simba.h>

#define BENCH_ROUNDS_MAX 100

struct bench_samples {
    double *values;
    size_t count;
    size_t capacity;
    size_t round_begin;
    double medians[BENCH_ROUNDS_MAX];
    size_t round_count;
};

struct bench_distribution {
    size_t count;
    double min;
    double p50;
    double p99;
    double max;
    double mean;
    double round_low; /* median of a round */
    double round_high;
};

int bench_samples_init(struct bench_samples *samples, size_t capacity, struct simba_error *error);
void bench_samples_free(struct bench_samples *samples);

/* At most as many as the capacity. */
void bench_samples_add(struct bench_samples *samples, double value);

/* At least one must have been added since the last round. Sorts the round. */
void bench_samples_end_round(struct bench_samples *samples);

/* All rounds must have ended. Sorts all. */
void bench_samples_summarize(const struct bench_samples *samples,
                             struct bench_distribution *ret_distribution);

#endif
