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

/* The time from `now_ms` to an instant: 0 where that has passed, SIMBA_INFINITE where it never
 * comes. */
static inline int64_t sb_time_left(int64_t at_ms, int64_t now_ms)
{
    if (at_ms == SIMBA_INFINITE)
        return SIMBA_INFINITE;
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

static inline int64_t sb_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t sb_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

#endif
