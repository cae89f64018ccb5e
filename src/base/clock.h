/*
 * clock.h - the clock of simba_now_ms() in microseconds, for measuring.
 */
#ifndef SB_BASE_CLOCK_H
#define SB_BASE_CLOCK_H

#include <stdint.h>

int64_t sb_clock_us(void);

#endif
