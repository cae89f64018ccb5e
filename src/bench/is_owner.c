/*
 * is_owner.c - what it costs to ask whether one owns, as work does in every turn of a loop.
 */
#include "bench/machine.h"
#include "bench/bench.h"
#include "bench/side.h"

#include "base/error.h"

#include <time.h>

#define BATCHES 1000 /* measurements in a round, each short enough to run without an interruption */

static double ask_batch_ns(const simba_contender *contender, int calls, bool *ret_always)
{
    double begin = bench_now_us();

    for (int i = 0; i < calls; i++)
        *ret_always = simba_contender_is_owner(contender) && *ret_always;
    return (bench_now_us() - begin) * 1000 / calls;
}

/* An owner that lets go by itself has to look at a clock. */
static double read_clock_batch_ns(int calls)
{
    double begin = bench_now_us();

    for (int i = 0; i < calls; i++) {
        struct timespec now;
        clock_gettime(CLOCK_BOOTTIME, &now);
    }
    return (bench_now_us() - begin) * 1000 / calls;
}

static int await_ownership(simba_contender *contender, struct simba_error *error)
{
    double end = bench_now_us() + BENCH_PATIENCE_MS * 1000.0;

    while (!simba_contender_is_owner(contender)) {
        if (bench_now_us() > end)
            return sb_error_set(error, SIMBA_ETIMEDOUT, "the mutex could not be acquired");
        bench_sleep_ms(1);
    }
    return SIMBA_OK;
}

static int measure(const simba_contender *contender, const struct bench_plan *plan,
                   struct bench_sides *sides, struct simba_error *error)
{
    int calls = plan->count / BATCHES > 0 ? plan->count / BATCHES : 1;
    bool always = true;

    for (int round = 0; round < plan->rounds; round++) {
        for (int batch = 0; batch < BATCHES; batch++) {
            bench_samples_add(&sides->raw[0], read_clock_batch_ns(calls));
            bench_samples_add(&sides->ours, ask_batch_ns(contender, calls, &always));
        }
        bench_sides_end_round(sides);
    }
    return always ? SIMBA_OK : sb_error_set(error, SIMBA_ELOST, "the lease was lost meanwhile");
}

static int measure_owner(simba_client *client, const struct bench_plan *plan,
                         struct bench_sides *sides, struct simba_error *error)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(plan, "owner", 0, name);
    options.mutex = name;
    int code = simba_contender_create(client, &options, &contender, error);
    if (code == SIMBA_OK)
        code = simba_contender_start(contender, error);
    if (code == SIMBA_OK)
        code = await_ownership(contender, error);
    if (code == SIMBA_OK)
        code = measure(contender, plan, sides, error);
    simba_contender_close(contender);
    return code;
}

int bench_is_owner(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error)
{
    struct bench_sides sides = {0};
    simba_client *client = NULL;
    int code = bench_client_open(plan, &client, error);

    if (code == SIMBA_OK)
        code = bench_sides_init(&sides, 1, BATCHES * (size_t)plan->rounds, error);
    if (code == SIMBA_OK)
        code = measure_owner(client, plan, &sides, error);
    if (code == SIMBA_OK) {
        bench_result_measure(result, "simba", "simba_contender_is_owner", "ns", &sides.ours);
        bench_result_measure(result, "raw", "clock_gettime", "ns", &sides.raw[0]);
        bench_result_ratio(result, "raw", &sides.ours, &sides.raw[0]);
    }
    bench_sides_free(&sides);
    if (client != NULL)
        simba_client_close(client, NULL);
    return code;
}
