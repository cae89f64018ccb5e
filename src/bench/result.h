/*
 * result.h - the answer to a question, as plain values: measurements, ratios and numbers, in their
 * order.
 *
 * It knows neither how it is printed nor what was measured. It is written by one process and read
 * by another, so it points to nothing.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include "bench/samples.h"

#define BENCH_MEASURES_MAX 7
#define BENCH_RATIOS_MAX 3
#define BENCH_NUMBERS_MAX 24

/* What a value is called; longer texts are cut. */
struct bench_label {
    char key[24];  /* in JSON */
    char text[48]; /* for people */
    char unit[16];
};

struct bench_measure {
    struct bench_label label;
    struct bench_distribution values;
};

/* The median of the library over that of another. */
struct bench_ratio {
    char key[24]; /* of the other */
    double value;
    double low; /* of the rounds */
    double high;
};

struct bench_number {
    struct bench_label label;
    double value; /* NAN: not known */
};

struct bench_result {
    struct bench_measure measures[BENCH_MEASURES_MAX];
    size_t measure_count;
    struct bench_ratio ratios[BENCH_RATIOS_MAX];
    size_t ratio_count;
    struct bench_number numbers[BENCH_NUMBERS_MAX];
    size_t number_count;
};

void bench_result_measure(struct bench_result *result, const char *key, const char *text,
                          const char *unit, struct bench_samples *samples);

/* Both must have the same rounds. */
void bench_result_ratio(struct bench_result *result, const char *key,
                        const struct bench_samples *ours, const struct bench_samples *other);

void bench_result_number(struct bench_result *result, const char *key, const char *text,
                         const char *unit, double value);

#endif
