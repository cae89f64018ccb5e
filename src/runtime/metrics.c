/*
 * metrics.c - relaxed counters and histograms of powers of two.
 */
#include "runtime/metrics.h"

#include "base/check.h"

#include <string.h>

static uint64_t load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

void sb_metrics_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void sb_metrics_uncount(_Atomic uint64_t *gauge)
{
    uint64_t before = atomic_fetch_sub_explicit(gauge, 1, memory_order_relaxed);

    SB_CHECK(before > 0, "a gauge counts down what it has counted");
}

void sb_metrics_observe(struct sb_histogram *histogram, int64_t duration_us)
{
    uint64_t us = duration_us > 0 ? (uint64_t)duration_us : 0;
    int bucket = 0;

    while (bucket < SIMBA_HISTOGRAM_BUCKETS - 1 && us >> bucket != 0)
        bucket++;
    sb_metrics_count(&histogram->bucket[bucket]);
    atomic_fetch_add_explicit(&histogram->sum_us, us, memory_order_relaxed);
}

static void read_histogram(const struct sb_histogram *histogram, struct simba_histogram *ret)
{
    ret->count = 0;
    ret->sum_us = load(&histogram->sum_us);
    for (int i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        ret->bucket[i] = load(&histogram->bucket[i]);
        ret->count += ret->bucket[i];
    }
}

void sb_metrics_read(const struct sb_metrics *m, struct simba_metrics *ret_metrics)
{
    struct simba_metrics all;
    size_t size = ret_metrics->size < sizeof all ? ret_metrics->size : sizeof all;

    memset(&all, 0, sizeof all);
    all.size = ret_metrics->size;
    all.acquisitions = load(&m->acquisitions);
    all.losses = load(&m->losses);
    all.releases = load(&m->releases);
    all.renewals = load(&m->renewals);
    all.errors = load(&m->errors);
    all.owned = load(&m->owned);
    all.contenders = load(&m->contenders);
    read_histogram(&m->contention, &all.contention);
    read_histogram(&m->operation, &all.operation);
    memcpy(ret_metrics, &all, size);
}
