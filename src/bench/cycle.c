/*
 * cycle.c - how long acquire + release of a mutex takes that nobody else wants.
 */
#include "bench/machine.h"
#include "bench/bench.h"
#include "bench/side.h"

#define BLOCK 10 /* measurements of one side before the next has its turn */

struct cycle {
    struct bench_raw raw;
    simba_client *client;
    simba_locker *locker;
    struct bench_sides sides;
};

static int cycle_once(simba_locker *locker, struct simba_error *error)
{
    int code = simba_locker_acquire_timeout(locker, BENCH_PATIENCE_MS, error);

    return code == SIMBA_OK ? simba_locker_release(locker, error) : code;
}

static int measure_ours(struct cycle *cycle, int count, bool keep, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++) {
        double begin = bench_now_us();
        code = cycle_once(cycle->locker, error);
        if (keep)
            bench_samples_add(&cycle->sides.ours, bench_now_us() - begin);
    }
    return code;
}

static int measure_raw(struct cycle *cycle, size_t way, int count, bool keep,
                       struct simba_error *error)
{
    const struct bench_way *by_hand = &cycle->raw.ops->ways[way];
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++) {
        double begin = bench_now_us();
        code = by_hand->cycle(cycle->raw.handle, error);
        if (keep)
            bench_samples_add(&cycle->sides.raw[way], bench_now_us() - begin);
    }
    return code;
}

/* The sides take turns in small blocks, so that whatever else happens on the machine meets them
 * alike. */
static int measure_round(struct cycle *cycle, int count, bool keep, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int done = 0; done < count && code == SIMBA_OK; done += BLOCK) {
        int block = count - done < BLOCK ? count - done : BLOCK;
        for (size_t way = 0; way < cycle->sides.ways && code == SIMBA_OK; way++)
            code = measure_raw(cycle, way, block, keep, error);
        if (code == SIMBA_OK)
            code = measure_ours(cycle, block, keep, error);
    }
    return code;
}

static int open_sides(struct cycle *cycle, const struct bench_plan *plan, struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(plan, "cycle", 0, name);
    options.mutex = name;
    int code = bench_client_open(plan, &cycle->client, error);
    if (code == SIMBA_OK)
        code = simba_locker_create(cycle->client, &options, &cycle->locker, error);
    if (code == SIMBA_OK)
        code = bench_plain_open(plan, &cycle->raw, error);
    if (code == SIMBA_OK)
        code = bench_sides_init(&cycle->sides, bench_way_count(&cycle->raw),
                                (size_t)plan->count * (size_t)plan->rounds, error);
    return code;
}

static void close_sides(struct cycle *cycle)
{
    bench_sides_free(&cycle->sides);
    bench_raw_close(&cycle->raw);
    simba_locker_close(cycle->locker);
    if (cycle->client != NULL)
        simba_client_close(cycle->client, NULL);
}

static void tell(struct cycle *cycle, struct bench_result *result)
{
    bench_result_measure(result, "simba", "acquire + release", "us", &cycle->sides.ours);
    for (size_t way = 0; way < cycle->sides.ways; way++) {
        const struct bench_way *by_hand = &cycle->raw.ops->ways[way];
        bench_result_measure(result, by_hand->key, by_hand->cycle_label, "us",
                             &cycle->sides.raw[way]);
        bench_result_ratio(result, by_hand->key, &cycle->sides.ours, &cycle->sides.raw[way]);
    }
    bench_result_number(result, "per_second", "cycles per second", "/s",
                        1e6 / result->measures[0].values.mean);
}

int bench_cycle(const struct bench_plan *plan, struct bench_result *result,
                struct simba_error *error)
{
    struct cycle cycle = {0};
    int code = open_sides(&cycle, plan, error);

    if (code == SIMBA_OK) /* caches, prepared statements, a server that compiles as it goes */
        code = measure_round(&cycle, plan->count, false, error);
    for (int round = 0; round < plan->rounds && code == SIMBA_OK; round++) {
        code = measure_round(&cycle, plan->count, true, error);
        if (code == SIMBA_OK)
            bench_sides_end_round(&cycle.sides);
    }
    if (code == SIMBA_OK)
        tell(&cycle, result);
    close_sides(&cycle);
    return code;
}
