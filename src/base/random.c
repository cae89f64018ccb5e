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

static uint64_t mix_in_clock(uint64_t seed, clockid_t clock)
{
    struct timespec now = {0, 0};

    clock_gettime(clock, &now);
    return mix(seed ^ ((uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec));
}

/* What tells this call from others: the instant, the work done so far, the process. Copies of a
 * process may have the last of them in common. */
static uint64_t seed_of_instant(void)
{
    static _Atomic uint64_t calls;
    uint64_t seed = mix_in_clock(GOLDEN_GAMMA, CLOCK_REALTIME);

    seed = mix_in_clock(seed, CLOCK_BOOTTIME);
    seed = mix_in_clock(seed, CLOCK_PROCESS_CPUTIME_ID);
    seed = mix(seed ^ (uint64_t)getpid());
    return mix(seed + GOLDEN_GAMMA * atomic_fetch_add(&calls, 1));
}

/* The instant stands in for kernels and sandboxes that refuse getrandom: jitter and ids need
 * numbers that differ, not secrets. It is mixed in always, because two machines restored from one
 * snapshot may begin with the same state of the kernel's random source. */
uint64_t sb_random_seed(void)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = 0;
    return seed ^ seed_of_instant();
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

int64_t sb_random_backoff(uint64_t *state, int64_t first_ms, int64_t most_ms, unsigned failures)
{
    int64_t delay_ms = first_ms;

    for (unsigned i = 1; i < failures && delay_ms < most_ms; i++)
        delay_ms *= 2;
    if (delay_ms > most_ms)
        delay_ms = most_ms;
    return delay_ms / 2 + sb_random_between(sb_random_next(state), 0, delay_ms / 2 + 1);
}
