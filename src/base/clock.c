/*
 * clock.c - the one clock of the library: it counts while the machine is suspended, does not follow
 * steps of the wall clock, and is shared by all processes of a host.
 */
#include "base/clock.h"

#include <simba/simba.h>

#include <stdio.h>
#include <string.h>

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

/* Without the file there are no such namespaces, or nobody can tell. */
int64_t sb_clock_offset_ms(void)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    char clock[16];
    long long seconds, nanoseconds;
    int64_t offset_ms = 0;

    if (file == NULL)
        return 0;
    while (fscanf(file, "%15s %lld %lld", clock, &seconds, &nanoseconds) == 3)
        if (strcmp(clock, "boottime") == 0)
            offset_ms = seconds * 1000 + nanoseconds / 1000000;
    fclose(file);
    return offset_ms;
}

int64_t simba_wall_ms(int64_t at_ms)
{
    struct timespec now;
    int64_t ahead_ms; /* of the wall clock */
    int64_t wall_ms;

    clock_gettime(CLOCK_REALTIME, &now);
    ahead_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - simba_now_ms();
    if (at_ms == SIMBA_INFINITE || __builtin_add_overflow(at_ms, ahead_ms, &wall_ms))
        return SIMBA_INFINITE;
    return wall_ms;
}

struct timespec sb_clock_deadline(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000 * 1000000);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}
