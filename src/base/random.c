/*
 * random.c - numbers from the operating system, and a sequence made of one of them (splitmix64).
 */
#include "base/random.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* For kernels and sandboxes that refuse getrandom. Jitter and ids need numbers that differ, not
 * secrets, so a process goes on with what tells it from others. */
static uint64_t seed_of_process(void)
{
    static _Atomic uint64_t calls;
    struct timespec now = {0, 0};
    uint64_t seed;

    clock_gettime(CLOCK_REALTIME, &now);
    seed = mix((uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
    seed = mix(seed ^ (uint64_t)getpid());
    return mix(seed + GOLDEN_GAMMA * atomic_fetch_add(&calls, 1));
}

uint64_t sb_random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
        return seed;
    return seed_of_process();
}

uint64_t sb_random_next(uint64_t *state)
{
    *state += GOLDEN_GAMMA;
    return mix(*state);
}

int64_t sb_random_between(uint64_t random, int64_t low, int64_t high)
{
    uint64_t range;

    if (high <= low)
        return low;
    /* Unsigned, because the distance of two int64_t may not fit into one. */
    range = (uint64_t)high - (uint64_t)low;
    return (int64_t)((uint64_t)low + random % range);
}
