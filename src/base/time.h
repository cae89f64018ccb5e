/*
 * time.h - the one clock of the library, and arithmetic on instants and durations in milliseconds,
 * which does not overflow. Durations as people write them are in simba/simba.h.
 */
#ifndef SB_BASE_TIME_H
#define SB_BASE_TIME_H

#include "base/shared.h"

#include <simba/simba.h>

#include <stdint.h>
#include <time.h>

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static inline int64_t sb_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a + b, held between INT64_MIN and SIMBA_INFINITE. `a` is an instant, `b` a duration, which may be
 * negative. */
static inline int64_t sb_later(int64_t a_ms, int64_t b_ms)
{
    int64_t sum;

    if (__builtin_add_overflow(a_ms, b_ms, &sum))
        return b_ms > 0 ? SIMBA_INFINITE : INT64_MIN;
    return sum;
}

/* a - b, held between INT64_MIN and SIMBA_INFINITE. */
static inline int64_t sb_time_between(int64_t a_ms, int64_t b_ms)
{
    int64_t difference;

    if (__builtin_sub_overflow(a_ms, b_ms, &difference))
        return a_ms > b_ms ? SIMBA_INFINITE : INT64_MIN;
    return difference;
}

/* The time from `now_ms` to an instant: 0 where that has passed, SIMBA_INFINITE where it never
 * comes. */
static inline int64_t sb_time_left(int64_t at_ms, int64_t now_ms)
{
    if (at_ms == SIMBA_INFINITE)
        return SIMBA_INFINITE;
    return sb_max(sb_time_between(at_ms, now_ms), 0);
}

static inline int64_t sb_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* ---- The clock ------------------------------------------------------------------------------- */

int64_t sb_clock_us(void) SB_SHARED("clock_us");

/* By how much the clock of this process is ahead of the host's, in milliseconds: not 0 in a time
 * namespace. */
int64_t sb_clock_offset_ms(void);

/* The instant in `ms` milliseconds, for condition variables on CLOCK_MONOTONIC. */
struct timespec sb_clock_deadline(int64_t ms) SB_SHARED("clock_deadline");

#endif
