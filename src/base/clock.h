/*
 * clock.h - the clock of simba_now_ms() in microseconds, for measuring; and deadlines for waits.
 */
#ifndef SB_BASE_CLOCK_H
#define SB_BASE_CLOCK_H

#include "base/shared.h"

#include <stdint.h>
#include <time.h>

int64_t sb_clock_us(void);

/* The instant in `ms` milliseconds, for condition variables on CLOCK_MONOTONIC. */
struct timespec sb_clock_deadline(int64_t ms) SB_SHARED("clock_deadline");

#endif
