/*
 * metrics.h - the counters of a client. Written by its loop, read by anybody.
 */
#ifndef SB_RUNTIME_METRICS_H
#define SB_RUNTIME_METRICS_H

#include <simba/simba.h>

#include <stdatomic.h>

struct sb_histogram {
    _Atomic uint64_t sum_us;
    _Atomic uint64_t bucket[SIMBA_HISTOGRAM_BUCKETS];
};

struct sb_metrics {
    _Atomic uint64_t acquisitions;
    _Atomic uint64_t losses;
    _Atomic uint64_t releases;
    _Atomic uint64_t renewals;
    _Atomic uint64_t errors;
    _Atomic uint64_t owned;
    _Atomic uint64_t contenders;
    struct sb_histogram contention;
    struct sb_histogram operation;
};

void sb_metrics_count(_Atomic uint64_t *counter);
void sb_metrics_uncount(_Atomic uint64_t *gauge);
void sb_metrics_observe(struct sb_histogram *histogram, int64_t duration_us);

/* Fills in what fits into ret_metrics->size. */
void sb_metrics_read(const struct sb_metrics *metrics, struct simba_metrics *ret_metrics);

#endif
