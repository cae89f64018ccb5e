/*
 * main.c - simba-sim-groups: runs seeds, and tells which seed broke which rule.
 *
 *     simba-sim-groups [--seeds N] [--first SEED]
 *     simba-sim-groups --trace SEED
 *
 * Exit code: 0 when no rule is broken, 1 when one is, 64 for a wrong call.
 */
#include "groups.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#define SEEDS_FOR_ALL 2000 /* in so many worlds everything must have happened */

static const char *const count_names[GRP_COUNTS] = {
    [GRP_WORLDS] = "worlds",
    [GRP_HELDS] = "groups held",
    [GRP_REFUSALS] = "tries refused",
    [GRP_TIMEOUTS] = "time-outs",
    [GRP_DENIALS] = "numbers of slots denied",
    [GRP_LOSSES] = "losses while held",
    [GRP_LOST_WAITING] = "losses during a wait",
    [GRP_LOST_STEPPING] = "losses within a step",
    [GRP_CRASHES] = "crashes",
    [GRP_PAUSES] = "pauses",
    [GRP_CUTS] = "partitions",
    [GRP_FORCED] = "force-releases",
    [GRP_RESIZES] = "resizes",
    [GRP_RESERVATIONS] = "reservations",
    [GRP_WITHDRAWALS] = "withdrawals of sets that do not hold",
    [GRP_BESIDE] = "tries that found a slot beside the gate",
};

static bool print_counts(const uint64_t counts[GRP_COUNTS])
{
    bool all = true;

    for (size_t i = 0; i < GRP_COUNTS; i++) {
        printf("%12" PRIu64 " %s\n", counts[i], count_names[i]);
        all &= counts[i] > 0;
    }
    return all;
}

static int run(uint64_t first, uint64_t seeds)
{
    static struct grp_world world;
    uint64_t sum[GRP_COUNTS] = {0};
    bool all;

    for (uint64_t i = 0; i < seeds; i++) {
        const char *violation = grp_world_run(&world, first + i, NULL);
        for (size_t c = 0; c < GRP_COUNTS; c++)
            sum[c] += world.counts[c];
        if (violation == NULL)
            continue;
        printf("seed %" PRIu64 " breaks a rule after %" PRIu64 " seeds of this job: %s\n",
               first + i, i, violation);
        return 1;
    }
    all = print_counts(sum);
    if (seeds >= SEEDS_FOR_ALL && !all) {
        puts("the worlds are dull: something never happened");
        return 1;
    }
    puts("no rule broken");
    return 0;
}

static int trace(uint64_t seed)
{
    static struct grp_world world;
    const char *violation = grp_world_run(&world, seed, stdout);

    print_counts(world.counts);
    printf("seed %" PRIu64 ": %s\n", seed, violation != NULL ? violation : "no rule broken");
    return violation != NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'},
        {"first", required_argument, NULL, 'f'},
        {"trace", required_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    uint64_t seeds = 1000;
    uint64_t first = 1;
    bool traces = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint64_t number = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        if (option == 's')
            seeds = number;
        else if (option == 'f' || option == 't')
            first = number;
        else
            return 64;
        traces |= option == 't';
    }
    return traces ? trace(first) : run(first, seeds);
}
