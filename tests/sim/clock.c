/*
 * clock.c - the clocks of the hosts. They have an offset and run too fast or too slow, but never
 * stand still and never step, as the suspend-aware monotonic clock does not.
 */
#include "sim.h"

#define MILLION 1000000

static int64_t clock_us(const struct sim_clock *clock, int64_t true_us)
{
    return clock->offset_us + true_us + true_us * clock->ppm / MILLION;
}

int64_t sim_clock_ms(const struct sim_clock *clock, int64_t true_us)
{
    return clock_us(clock, true_us) / SIM_MS;
}

int64_t sim_clock_true_us(const struct sim_clock *clock, int64_t ms)
{
    int64_t wanted_us;
    int64_t true_us;

    if (ms == SIMBA_INFINITE)
        return SIM_NEVER;
    wanted_us = ms * SIM_MS;
    if (wanted_us <= clock->offset_us)
        return 0;
    /* Whole and part apart: the product of a long time and a million may not fit. */
    true_us = wanted_us - clock->offset_us;
    true_us = true_us / (MILLION + clock->ppm) * MILLION +
              true_us % (MILLION + clock->ppm) * MILLION / (MILLION + clock->ppm);
    while (clock_us(clock, true_us) < wanted_us)
        true_us++;
    while (true_us > 0 && clock_us(clock, true_us - 1) >= wanted_us)
        true_us--;
    return true_us;
}

int64_t sim_clock_most_us(const struct sim_world *w, int64_t ms)
{
    return w->options->beyond_drift ? ms * SIM_MS * 4 / 3 : ms * SIM_MS * 102 / 100;
}

int64_t sim_process_ms(const struct sim_world *w, int process)
{
    return sim_clock_ms(&w->clocks[w->processes[process].host], w->now_us);
}
