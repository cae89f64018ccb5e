/*
 * time.h - arithmetic on instants and durations in milliseconds, which does not overflow.
 */
#ifndef SB_BASE_TIME_H
#define SB_BASE_TIME_H

#include <simba/simba.h>

#include <stdint.h>

/* a + b, held between INT64_MIN and SIMBA_INFINITE. `a` is an instant, `b` a duration, which may be
 * negative. */
static inline int64_t sb_later(int64_t a_ms, int64_t b_ms)
{
    int64_t sum;

    if (__builtin_add_overflow(a_ms, b_ms, &sum))
        return b_ms > 0 ? SIMBA_INFINITE : INT64_MIN;
    return sum;
}

static inline int64_t sb_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

#endif
