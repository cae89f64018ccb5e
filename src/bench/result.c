/*
 * result.c - the answer to a question, as plain values.
 */
#include "bench/result.h"

#include <assert.h>
#include <stdio.h>

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
    bench_samples_summarize(samples, &measure->values);
}

void bench_result_ratio(struct bench_result *result, const char *key,
                        const struct bench_samples *ours, const struct bench_samples *other)
{
    assert(result->ratio_count < BENCH_RATIOS_MAX);
    assert(ours->round_count == other->round_count && ours->round_count > 0);
    struct bench_ratio *ratio = &result->ratios[result->ratio_count++];
    struct bench_distribution numerator;
    struct bench_distribution denominator;

    bench_samples_summarize(ours, &numerator);
    bench_samples_summarize(other, &denominator);
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
