/*
 * result.c - measurements, and the answer to a question.
 */
#include "bench/result.h"

#include "base/error.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Measurements ---------------------------------------------------------------------------- */

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

/* All rounds must have ended. Sorts all. */
static void summarize(const struct bench_samples *samples,
                      struct bench_distribution *ret_distribution)
{
    struct bench_distribution *d = ret_distribution;
    double *values = samples->values;
    double sum = 0;

    assert(samples->round_count > 0 && samples->round_begin == samples->count);
    qsort(values, samples->count, sizeof *values, compare);
    d->count = samples->count;
    d->min = values[0];
    d->p50 = quantile(values, samples->count, 0.5);
    d->p99 = quantile(values, samples->count, 0.99);
    d->max = values[samples->count - 1];
    for (size_t i = 0; i < samples->count; i++)
        sum += values[i];
    d->mean = sum / (double)samples->count;
    for (size_t i = 0; i < samples->round_count; i++) {
        double median = samples->medians[i];
        d->round_low = i == 0 || median < d->round_low ? median : d->round_low;
        d->round_high = i == 0 || median > d->round_high ? median : d->round_high;
    }
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void set_label(struct bench_label *label, const char *key, const char *text,
                      const char *unit)
{
    snprintf(label->key, sizeof label->key, "%s", key);
    snprintf(label->text, sizeof label->text, "%s", text);
    snprintf(label->unit, sizeof label->unit, "%s", unit);
}

void bench_result_measure(struct bench_result *result, const char *key, const char *text,
                          const char *unit, struct bench_samples *samples)
{
    assert(result->measure_count < BENCH_MEASURES_MAX);
    struct bench_measure *measure = &result->measures[result->measure_count++];
    set_label(&measure->label, key, text, unit);
    summarize(samples, &measure->values);
}

void bench_result_ratio(struct bench_result *result, const char *key,
                        const struct bench_samples *ours, const struct bench_samples *other)
{
    assert(result->ratio_count < BENCH_RATIOS_MAX);
    assert(ours->round_count == other->round_count && ours->round_count > 0);
    struct bench_ratio *ratio = &result->ratios[result->ratio_count++];
    struct bench_distribution numerator;
    struct bench_distribution denominator;

    summarize(ours, &numerator);
    summarize(other, &denominator);
    snprintf(ratio->key, sizeof ratio->key, "%s", key);
    ratio->value = numerator.p50 / denominator.p50;
    for (size_t i = 0; i < ours->round_count; i++) {
        double value = ours->medians[i] / other->medians[i];
        ratio->low = i == 0 || value < ratio->low ? value : ratio->low;
        ratio->high = i == 0 || value > ratio->high ? value : ratio->high;
    }
}

void bench_result_number(struct bench_result *result, const char *key, const char *text,
                         const char *unit, double value)
{
    assert(result->number_count < BENCH_NUMBERS_MAX);
    struct bench_number *number = &result->numbers[result->number_count++];
    set_label(&number->label, key, text, unit);
    number->value = value;
}
