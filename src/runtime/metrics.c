/*
 * metrics.c - relaxed counters and histograms of powers of two.
 */
#include "runtime/metrics.h"

#include "base/check.h"
#include "base/time.h"

#include <string.h>

const char *const sb_metrics_ops[SB_METRICS_OPS] = {
    [SIMBA_OP_NONE] = "none",
    [SIMBA_OP_ACQUIRE] = "acquire",
    [SIMBA_OP_GUARD] = "renew",
    [SIMBA_OP_RELEASE] = "release",
    [SIMBA_OP_READ] = "read",
    [SIMBA_OP_LIST] = "list",
    [SIMBA_OP_QUEUE] = "queue",
    [SIMBA_OP_GET_PROPERTY] = "get_property",
    [SIMBA_OP_SET_PROPERTY] = "set_property",
    [SIMBA_OP_FORGET] = "forget",
    [SIMBA_OP_RAISE] = "raise",
    [SIMBA_OP_INSPECT] = "inspect",
    [SIMBA_OP_ENVIRONMENT] = "environment",
};

const char *const sb_metrics_losses[SB_LOSSES] = {
    [SB_LOSS_NOT_RENEWED] = "not_renewed", [SB_LOSS_SESSION] = "session_over",
    [SB_LOSS_SAME_ID] = "same_id",         [SB_LOSS_TAKEN] = "taken",
    [SB_LOSS_NO_LEASE] = "no_lease",       [SB_LOSS_AT_RELEASE] = "at_release",
};

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

/* What a store refuses it has served. */
void sb_metrics_answer(struct sb_metrics *m, enum simba_op op, int code, int64_t sent_at_us,
                       int64_t now_us)
{
    enum simba_error_group group = simba_error_group(code);
    bool fails = group == SIMBA_GROUP_UNAVAILABLE || group == SIMBA_GROUP_UNKNOWN;
    int64_t since_us = atomic_load_explicit(&m->failing_since_us, memory_order_relaxed);

    SB_CHECK((int)op < SB_METRICS_OPS, "each operation of a store has its histogram");
    sb_metrics_observe(&m->operation[op], now_us - sent_at_us);
    if (code != SIMBA_OK)
        sb_metrics_count(&m->errors);
    if (code != SIMBA_OK && op == SIMBA_OP_GUARD)
        sb_metrics_count(&m->renewal_failures);
    if (fails != (since_us != 0))
        atomic_store_explicit(&m->failing_since_us, fails ? now_us : 0, memory_order_relaxed);
}

static void add_histogram(const struct sb_histogram *histogram, struct simba_histogram *sum)
{
    sum->sum_us += load(&histogram->sum_us);
    for (int i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        uint64_t bucket = load(&histogram->bucket[i]);

        sum->bucket[i] += bucket;
        sum->count += bucket;
    }
}

static int64_t store_failing_ms(const struct sb_metrics *m)
{
    int64_t since_us = atomic_load_explicit(&m->failing_since_us, memory_order_relaxed);

    return since_us != 0 ? sb_max((sb_clock_us() - since_us) / 1000, 1) : 0;
}

void sb_metrics_read(const struct sb_metrics *m, struct simba_metrics *ret_metrics)
{
    struct simba_metrics all;
    size_t size = ret_metrics->size < sizeof all ? ret_metrics->size : sizeof all;

    memset(&all, 0, sizeof all);
    all.size = ret_metrics->size;
    all.acquisitions = load(&m->acquisitions);
    for (int i = 0; i < SB_LOSSES; i++)
        all.losses += load(&m->losses[i]);
    all.releases = load(&m->releases);
    all.renewals = load(&m->renewals);
    all.errors = load(&m->errors);
    all.owned = load(&m->owned);
    all.contenders = load(&m->contenders);
    all.renewal_failures = load(&m->renewal_failures);
    all.store_failing_ms = store_failing_ms(m);
    add_histogram(&m->contention, &all.contention);
    add_histogram(&m->hold, &all.hold);
    for (int i = 0; i < SB_METRICS_OPS; i++)
        add_histogram(&m->operation[i], &all.operation);
    memcpy(ret_metrics, &all, size);
}
