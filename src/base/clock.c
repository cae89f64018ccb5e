/*
 * clock.c - the one clock of the library: it counts while the machine is suspended, does not follow
 * steps of the wall clock, and is shared by all processes of a host.
 */
#include "base/clock.h"

#include <simba/simba.h>

#include <time.h>

int64_t sb_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t simba_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
