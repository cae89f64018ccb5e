/*
 * handover.c - how long a waiter in another process waits after the owner has released.
 */
#include "bench/machine.h"
#include "bench/bench.h"
#include "bench/waiter_process.h"
#include "bench/side.h"

#include "base/error.h"

#define REST_MS 20 /* where no plain client says better */
#define STATUS_TIMEOUT_MS 5000

struct handover {
    struct bench_waiter_process waiter;
    struct bench_by_hand by_hand;
    simba_client *client;
    simba_locker *locker;
    struct bench_sides sides;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

/* ---- The waiter ------------------------------------------------------------------------------ */

static int take(void *locker, struct simba_error *error)
{
    return simba_locker_acquire(locker, error);
}

static int leave(void *locker, struct simba_error *error)
{
    return simba_locker_release(locker, error);
}

/* Until it is killed. */
static int run_waiter(void *memory, struct simba_error *error)
{
    static const struct bench_waiter steps = {.take = take, .leave = leave};
    struct bench_handover_state *state = memory;
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(state->plan, "handover", 0, name);
    options.mutex = name;
    int code = bench_client_open(state->plan, &client, error);
    if (code == SIMBA_OK)
        code = simba_locker_create(client, &options, &locker, error);
    while (code == SIMBA_OK) {
        bench_waiter_await_turn(state);
        code = bench_waiter_take(state, &steps, locker, error);
    }
    return code;
}

/* ---- The owner ------------------------------------------------------------------------------- */

static int own(void *argument, struct simba_error *error)
{
    struct handover *handover = argument;

    return simba_locker_acquire_timeout(handover->locker, BENCH_PATIENCE_MS, error);
}

static int count_waiters(struct handover *handover, int64_t *ret_waiters, struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    size_t count = 0;
    int code = simba_client_status(handover->client, handover->mutex, STATUS_TIMEOUT_MS, &list,
                                   &count, error);

    if (code != SIMBA_OK)
        return code;
    *ret_waiters = count > 0 ? list[0].waiters : 0;
    simba_free(list);
    return SIMBA_OK;
}

/* A store that does not know its waiters answers -1, and the rest that follows has to do. */
static int await_waiter(void *argument, struct simba_error *error)
{
    struct handover *handover = argument;
    double end = bench_now_us() + BENCH_PATIENCE_MS * 1000.0;
    int64_t waiters = 0;

    for (;;) {
        int code = count_waiters(handover, &waiters, error);
        if (code == SIMBA_OK && waiters == 0)
            code = bench_process_check(&handover->waiter.process, error);
        if (code != SIMBA_OK || waiters != 0)
            return code;
        if (bench_now_us() > end)
            return sb_error_set(error, SIMBA_ETIMEDOUT, "the waiter does not come");
        bench_sleep_ms(1);
    }
}

static int release(void *argument, struct simba_error *error)
{
    struct handover *handover = argument;

    return simba_locker_release(handover->locker, error);
}

static int measure_once(struct handover *handover, struct simba_error *error)
{
    static const struct bench_owner steps = {own, await_waiter, release};
    struct bench_by_hand *by_hand = &handover->by_hand;
    int64_t rest_ms = by_hand->raw.handle != NULL ? by_hand->raw.ops->rest_ms : REST_MS;
    int code = bench_waiter_process_measure(&handover->waiter, &steps, handover, rest_ms,
                                            &handover->sides.ours, error);

    for (size_t way = 0; way < handover->sides.ways && code == SIMBA_OK; way++)
        code = bench_by_hand_measure(by_hand, way, &handover->sides.raw[way], error);
    return code;
}

/* ---- The question ---------------------------------------------------------------------------- */

/* The first hand-over of all sides is for warming up. */
static int measure_all(struct handover *handover, const struct bench_plan *plan,
                       struct simba_error *error)
{
    int code = measure_once(handover, error);

    handover->sides.ours.count = 0;
    for (size_t way = 0; way < handover->sides.ways; way++)
        handover->sides.raw[way].count = 0;
    for (int round = 0; round < plan->rounds && code == SIMBA_OK; round++) {
        for (int i = 0; i < plan->count && code == SIMBA_OK; i++)
            code = measure_once(handover, error);
        if (code == SIMBA_OK)
            bench_sides_end_round(&handover->sides);
    }
    return code;
}

static int open_sides(struct handover *handover, const struct bench_plan *plan,
                      struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    bench_name(plan, "handover", 0, handover->mutex);
    options.mutex = handover->mutex;
    int code = bench_client_open(plan, &handover->client, error);
    if (code == SIMBA_OK)
        code = simba_locker_create(handover->client, &options, &handover->locker, error);
    if (code == SIMBA_OK)
        code = bench_plain_open(plan, &handover->by_hand.raw, error);
    if (code == SIMBA_OK)
        code = bench_sides_init(&handover->sides, bench_by_hand_ways(&handover->by_hand),
                                (size_t)plan->count * (size_t)plan->rounds, error);
    return code;
}

static void close_sides(struct handover *handover)
{
    bench_sides_free(&handover->sides);
    bench_by_hand_close(&handover->by_hand);
    simba_locker_close(handover->locker);
    if (handover->client != NULL)
        simba_client_close(handover->client, NULL);
    bench_waiter_process_end(&handover->waiter);
}

static void tell(struct handover *handover, struct bench_result *result)
{
    bench_result_measure(result, "simba", "release() called to acquire() returned", "us",
                         &handover->sides.ours);
    for (size_t way = 0; way < handover->sides.ways; way++) {
        const struct bench_way *manner = &handover->by_hand.raw.ops->ways[way];
        bench_result_measure(result, manner->key, manner->handover_label, "us",
                             &handover->sides.raw[way]);
        bench_result_ratio(result, manner->key, &handover->sides.ours, &handover->sides.raw[way]);
    }
}

int bench_handover(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error)
{
    struct handover handover = {0};
    int code = bench_waiter_process_start(&handover.waiter, plan, run_waiter, error);

    if (code == SIMBA_OK)
        code = bench_by_hand_start_waiter(&handover.by_hand, plan, error);
    if (code == SIMBA_OK)
        code = open_sides(&handover, plan, error);
    if (code == SIMBA_OK)
        code = measure_all(&handover, plan, error);
    if (code == SIMBA_OK)
        tell(&handover, result);
    close_sides(&handover);
    return code;
}
