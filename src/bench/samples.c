/*
 * samples.c - many measurements of one thing, and what is said of them.
 */
#include "bench/samples.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>

int bench_samples_init(struct bench_samples *samples, size_t capacity, struct simba_error *error)
{
    *samples = (struct bench_samples){.capacity = capacity};
    samples->values = calloc(capacity, sizeof *samples->values);
    if (samples->values == NULL)
        return sb_error_set(error, SIMBA_ENOMEM, "no memory for %zu measurements", capacity);
    return SIMBA_OK;
}

void bench_samples_free(struct bench_samples *samples)
{
    free(samples->values);
    samples->values = NULL;
}

void bench_samples_add(struct bench_samples *samples, double value)
{
    assert(samples->count < samples->capacity);
    samples->values[samples->count++] = value;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The value that this part of the sorted ones does not exceed. */
static double quantile(const double *sorted, size_t count, double part)
{
    return sorted[(size_t)(part * (double)(count - 1) + 0.5)];
}

void bench_samples_end_round(struct bench_samples *samples)
{
    double *first = samples->values + samples->round_begin;
    size_t count = samples->count - samples->round_begin;

    assert(count > 0 && samples->round_count < BENCH_ROUNDS_MAX);
    qsort(first, count, sizeof *first, compare);
    samples->medians[samples->round_count++] = quantile(first, count, 0.5);
    samples->round_begin = samples->count;
}

static double mean(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

void bench_samples_summarize(const struct bench_samples *samples,
                             struct bench_distribution *ret_distribution)
{
    struct bench_distribution *d = ret_distribution;
    double *values = samples->values;

    assert(samples->round_count > 0 && samples->round_begin == samples->count);
    qsort(values, samples->count, sizeof *values, compare);
    d->count = samples->count;
    d->min = values[0];
    d->p50 = quantile(values, samples->count, 0.5);
    d->p99 = quantile(values, samples->count, 0.99);
    d->max = values[samples->count - 1];
    d->mean = mean(values, samples->count);
    for (size_t i = 0; i < samples->round_count; i++) {
        double median = samples->medians[i];
        d->round_low = i == 0 || median < d->round_low ? median : d->round_low;
        d->round_high = i == 0 || median > d->round_high ? median : d->round_high;
    }
}
