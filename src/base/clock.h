/*
 * clock.h - the clock of simba_now_ms() in microseconds, for measuring; what it differs by from the
 * host's; and deadlines for waits.
 */
#ifndef SB_BASE_CLOCK_H
#define SB_BASE_CLOCK_H

#include "base/shared.h"

#include <stdint.h>
#include <time.h>

int64_t sb_clock_us(void) SB_SHARED("clock_us");

/* By how much the clock of this process is ahead of the host's, in milliseconds: not 0 in a time
 * namespace. */
int64_t sb_clock_offset_ms(void);

/* The instant in `ms` milliseconds, for condition variables on CLOCK_MONOTONIC. */
struct timespec sb_clock_deadline(int64_t ms) SB_SHARED("clock_deadline");

#endif
