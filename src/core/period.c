/*
 * period.c - the contend period: how long a contender waits before it tries again; the drift
 * margin. The delay of an owner is for callers of simba.h only: the machine renews at ttl_at itself
 * (win and renew in machine_reply.c).
 *
 *     now        ttl_at            transition_at
 *      |--- owner ---|                   |
 *      |------------- contender ---------|~~~ jitter ~~~|
 *
 * All sums saturate: a time at SIMBA_INFINITE stays there, and no delay is negative.
 */
#include "base/random.h"
#include "base/time.h"

#include <simba/simba.h>

#define MARGIN_FIXED_MS 10  /* for the granularity of timers and of stores that count in ms */
#define MARGIN_FRACTION 100 /* 1 %: clocks of hosts drift apart by much less */

static int64_t time_until(int64_t at_ms, int64_t now_ms)
{
    int64_t left;

    if (at_ms == SIMBA_INFINITE)
        return SIMBA_INFINITE;
    if (__builtin_sub_overflow(at_ms, now_ms, &left))
        return at_ms > now_ms ? SIMBA_INFINITE : INT64_MIN;
    return left;
}

int64_t simba_period_owner_delay_ms(const struct simba_owner *owner, int64_t now_ms)
{
    return sb_max(time_until(owner->ttl_at_ms, now_ms), 0);
}

/* Without a transition the owner may be gone the moment its ttl is over, but not earlier: a
 * contender that came early would only lose. */
int64_t simba_period_contender_delay_ms(const struct simba_owner *owner, int64_t now_ms,
                                        int64_t transition_ms, int64_t jitter_min_ms,
                                        int64_t jitter_max_ms, uint64_t random)
{
    int64_t left = time_until(owner->transition_at_ms, now_ms);

    if (left == SIMBA_INFINITE)
        return SIMBA_INFINITE;
    if (transition_ms == 0)
        jitter_min_ms = sb_max(jitter_min_ms, 0);
    return sb_max(sb_later(left, sb_random_between(random, jitter_min_ms, jitter_max_ms)), 0);
}

int64_t simba_drift_margin_ms(int64_t lease_ms)
{
    return MARGIN_FIXED_MS + sb_max(lease_ms, 0) / MARGIN_FRACTION;
}
