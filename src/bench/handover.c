/*
 * handover.c - how long a waiter in another process waits after the owner has released.
 *
 *     this process     acquire ......... rest ... release |<----- measured ----->|
 *     the waiter               acquire (waits) .......................... returns, release
 */
#include "bench/machine.h"
#include "bench/process.h"
#include "bench/questions.h"
#include "bench/side.h"

#include <stdlib.h>

#define REST_MS 20 /* where no plain client says better */
#define STATUS_TIMEOUT_MS 5000

struct shared {
    const struct bench_plan *plan;
    sem_t may_wait;
    sem_t has_it;
    sem_t may_release;
    sem_t released;
    double acquired_us;
};

struct handover {
    struct shared *shared;
    struct bench_process waiter;
    struct bench_raw raw;
    simba_client *client;
    simba_locker *locker;
    struct bench_sides sides;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

/* ---- The waiter ------------------------------------------------------------------------------- */

static int take_turns(struct shared *shared, simba_locker *locker, struct simba_error *error)
{
    for (;;) {
        sem_wait(&shared->may_wait);
        int code = simba_locker_acquire(locker, error);
        if (code != SIMBA_OK)
            return code;
        shared->acquired_us = bench_now_us();
        sem_post(&shared->has_it);
        sem_wait(&shared->may_release);
        code = simba_locker_release(locker, error);
        if (code != SIMBA_OK)
            return code;
        sem_post(&shared->released);
    }
}

/* Until it is killed. */
static int run_waiter(void *argument, struct simba_error *error)
{
    struct shared *shared = argument;
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(shared->plan, "handover", 0, name);
    int code = bench_client_open(shared->plan, &client, error);
    if (code == SIMBA_OK)
        code = simba_locker_create(client, name, NULL, &locker, error);
    return code == SIMBA_OK ? take_turns(shared, locker, error) : code;
}

static int start_waiter(struct handover *handover, const struct bench_plan *plan,
                        struct simba_error *error)
{
    void *memory = NULL;
    int code = bench_shared_create(sizeof *handover->shared, &memory, error);

    if (code != SIMBA_OK)
        return code;
    handover->shared = memory;
    handover->shared->plan = plan;
    sem_init(&handover->shared->may_wait, 1, 0);
    sem_init(&handover->shared->has_it, 1, 0);
    sem_init(&handover->shared->may_release, 1, 0);
    sem_init(&handover->shared->released, 1, 0);
    return bench_process_start(&handover->waiter, run_waiter, handover->shared, error);
}

/* ---- The owner -------------------------------------------------------------------------------- */

/* A store that does not know its waiters answers -1, and the rest that follows has to do. A waiter that failed never
 * comes. */
static int await_waiter(struct handover *handover, struct simba_error *error)
{
    int64_t waiters = 0;

    while (waiters == 0) {
        struct simba_mutex_status *list = NULL;
        size_t count = 0;
        int code = simba_client_status(handover->client, handover->mutex, STATUS_TIMEOUT_MS, &list,
                                       &count, error);
        if (code != SIMBA_OK)
            return code;
        waiters = count > 0 ? list[0].waiters : 0;
        simba_free(list);
        if (waiters == 0) {
            bench_sleep_ms(1);
            code = bench_process_check(&handover->waiter, error);
        }
        if (code != SIMBA_OK)
            return code;
    }
    return SIMBA_OK;
}

static int await_turn(struct handover *handover, struct simba_error *error)
{
    int code = bench_process_await(&handover->waiter, 1, &handover->shared->has_it, error);

    sem_post(&handover->shared->may_release);
    if (code == SIMBA_OK)
        code = bench_process_await(&handover->waiter, 1, &handover->shared->released, error);
    return code;
}

static int measure_ours(struct handover *handover, int64_t rest_ms, struct simba_error *error)
{
    int code = simba_locker_acquire_timeout(handover->locker, BENCH_PATIENCE_MS, error);

    if (code != SIMBA_OK)
        return code;
    sem_post(&handover->shared->may_wait);
    code = await_waiter(handover, error);
    if (code != SIMBA_OK)
        return code;
    bench_rest_ms(rest_ms);
    double begin = bench_now_us();
    code = simba_locker_release(handover->locker, error);
    if (code == SIMBA_OK)
        code = await_turn(handover, error);
    if (code == SIMBA_OK)
        bench_samples_add(&handover->sides.ours, handover->shared->acquired_us - begin);
    return code;
}

static int measure_once(struct handover *handover, struct simba_error *error)
{
    int64_t rest_ms = handover->raw.handle != NULL ? handover->raw.ops->rest_ms : REST_MS;
    int code = measure_ours(handover, rest_ms, error);

    for (size_t way = 0; way < handover->sides.ways && code == SIMBA_OK; way++)
        code = bench_measure_handover(&handover->raw, way, &handover->sides.raw[way], error);
    return code;
}

/* ---- The question ----------------------------------------------------------------------------- */

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
    bench_name(plan, "handover", 0, handover->mutex);
    int code = bench_client_open(plan, &handover->client, error);
    if (code == SIMBA_OK)
        code =
            simba_locker_create(handover->client, handover->mutex, NULL, &handover->locker, error);
    if (code == SIMBA_OK)
        code = bench_plain_open(plan, &handover->raw, error);
    if (code == SIMBA_OK)
        code = bench_sides_init(&handover->sides, bench_handover_way_count(&handover->raw),
                                (size_t)plan->count * (size_t)plan->rounds, error);
    return code;
}

static void close_sides(struct handover *handover)
{
    bench_process_kill(&handover->waiter);
    bench_sides_free(&handover->sides);
    bench_raw_close(&handover->raw);
    simba_locker_close(handover->locker);
    if (handover->client != NULL)
        simba_client_close(handover->client, NULL);
    bench_shared_free(handover->shared, sizeof *handover->shared);
}

static void tell(struct handover *handover, struct bench_result *result)
{
    bench_result_measure(result, "simba", "release() called to acquire() returned", "us",
                         &handover->sides.ours);
    for (size_t way = 0; way < handover->sides.ways; way++) {
        const struct bench_way *by_hand = &handover->raw.ops->ways[way];
        bench_result_measure(result, by_hand->key, by_hand->handover_label, "us",
                             &handover->sides.raw[way]);
        bench_result_ratio(result, by_hand->key, &handover->sides.ours, &handover->sides.raw[way]);
    }
}

int bench_handover(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error)
{
    struct handover handover = {0};
    int code = start_waiter(&handover, plan, error);

    if (code == SIMBA_OK)
        code = open_sides(&handover, plan, error);
    if (code == SIMBA_OK)
        code = measure_all(&handover, plan, error);
    if (code == SIMBA_OK)
        tell(&handover, result);
    close_sides(&handover);
    return code;
}
