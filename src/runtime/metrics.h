/*
 * metrics.h - the counters of a client. Written by its loop, read by anybody.
 */
#ifndef SB_RUNTIME_METRICS_H
#define SB_RUNTIME_METRICS_H

#include <simba/backend.h>
#include <simba/simba.h>

#include <stdatomic.h>

struct sb_histogram {
    _Atomic uint64_t sum_us;
    _Atomic uint64_t bucket[SIMBA_HISTOGRAM_BUCKETS];
};

/* Why a term ended without a stop, or was gone at its release. */
enum sb_loss {
    SB_LOSS_NOT_RENEWED,
    SB_LOSS_SESSION,
    SB_LOSS_SAME_ID,
    SB_LOSS_TAKEN,
    SB_LOSS_NO_LEASE,
    SB_LOSS_AT_RELEASE,
    SB_LOSSES
};

#define SB_METRICS_OPS (SIMBA_OP_ENVIRONMENT + 1)

struct sb_metrics {
    _Atomic uint64_t acquisitions;
    _Atomic uint64_t losses[SB_LOSSES];
    _Atomic uint64_t releases;
    _Atomic uint64_t renewals;
    _Atomic uint64_t renewal_failures;
    _Atomic uint64_t errors;
    _Atomic uint64_t owned;
    _Atomic uint64_t contenders;
    struct sb_histogram contention;
    struct sb_histogram operation[SB_METRICS_OPS];
    struct sb_histogram hold;
    _Atomic int64_t failing_since_us; /* 0: the store serves */
};

/* What operations and losses are called outside. */
extern const char *const sb_metrics_ops[SB_METRICS_OPS];
extern const char *const sb_metrics_losses[SB_LOSSES];

void sb_metrics_count(_Atomic uint64_t *counter);
/* Takes in how the store has answered a request. Loop thread only. */
void sb_metrics_answer(struct sb_metrics *metrics, enum simba_op op, int code, int64_t sent_at_us,
                       int64_t now_us);

void sb_metrics_uncount(_Atomic uint64_t *gauge);
void sb_metrics_observe(struct sb_histogram *histogram, int64_t duration_us);

/* Fills in what fits into ret_metrics->size, but for what the loop knows. */
void sb_metrics_read(const struct sb_metrics *metrics, struct simba_metrics *ret_metrics);

#endif
