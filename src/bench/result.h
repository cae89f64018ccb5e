/*
 * result.h - measurements, and the answer to a question: distributions, ratios and numbers.
 *
 * The machine is shared with others, so measurements come in rounds, and the medians of the rounds
 * show how far a result can be trusted. An answer is written by one process and read by another, so
 * it points to nothing.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <simba/simba.h>

/* ---- Measurements ---------------------------------------------------------------------------- */

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

/* ---- The answer ------------------------------------------------------------------------------ */

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
