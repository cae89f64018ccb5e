/*
 * dice.c - all randomness of a world; owns the one sequence that the seed begins.
 */
#include "sim.h"

#include "base/random.h"

int64_t sim_roll(struct sim_world *w, int64_t low, int64_t high)
{
    return sb_random_between(sb_random_next(&w->dice), low, high);
}

bool sim_chance(struct sim_world *w, int permille)
{
    return permille > 0 && sim_roll(w, 0, 1000) < permille;
}
