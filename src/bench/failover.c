/*
 * failover.c - how long it takes until somebody owns again after an owner's process was killed
 * (kill -9).
 *
 *     an owner      acquires, renews ...... killed |<------- measured ------->|
 *     a waiter            waits ................................ told that it owns
 *     the lease           |- ttl -|- transition -----------|
 *                                                  |<-left->|
 *
 * Each owner is a process of its own and has a mutex of its own; they are killed one after the
 * other, each at another moment of its lease. The lease that is left is what the owner itself
 * counted with. Each round is there three times: with one process that waits for all mutexes, with
 * several that come by the jitter, and with several that take turns, where the store has turns.
 */
#include "bench/machine.h"
#include "bench/process.h"
#include "bench/bench.h"
#include "bench/side.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define OWNERS_MAX 100
#define WAITERS 8
#define TURN_MS 5 /* where the URL says nothing */

/* Who waits, and what keeps waiters apart. */
enum way { ALONE, JITTER, TURN, WAYS };

struct duel {
    struct shared *shared;
    int number;
    _Atomic int64_t deadline_ms;  /* until which the owner believes */
    _Atomic double taken_over_us; /* 0: not yet */
    double killed_us;
};

struct shared {
    struct bench_plan plan;
    int64_t ttl_ms;    /* these two are told by the owners */
    int64_t margin_ms; /* from the end of the belief to that of the lease */
    int round;         /* of any way */
    sem_t ready;       /* the process that is started now has come so far */
    sem_t taken_over;  /* one mutex */
    struct duel duels[OWNERS_MAX];
};

struct outcome {
    struct bench_samples took;
    struct bench_samples left;
    struct bench_samples after;
    struct bench_samples multiple;
};

struct failover {
    struct shared *shared;
    struct bench_process owners[OWNERS_MAX];
    struct bench_process waiters[WAITERS];
    struct outcome outcomes[WAYS];
    int ways; /* of this store: the first so many */
    int64_t turn_ms;
};

static int create_contender(struct duel *duel, simba_client *client, simba_state_fn *on_acquired,
                            simba_contender **ret_contender, struct simba_error *error)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    const struct shared *shared = duel->shared;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(&shared->plan, "failover", shared->round * OWNERS_MAX + duel->number, name);
    options.mutex = name;
    options.on_acquired = on_acquired;
    options.user = duel;
    int code = simba_contender_create(client, &options, ret_contender, error);
    return code == SIMBA_OK ? simba_contender_start(*ret_contender, error) : code;
}

/* ---- Owners ---------------------------------------------------------------------------------- */

static int tell_lease(struct shared *shared, simba_client *client)
{
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;
    int code = simba_client_lease(client, &ttl_ms, &transition_ms);

    shared->ttl_ms = ttl_ms;
    shared->margin_ms = simba_drift_margin_ms(ttl_ms + transition_ms);
    return code;
}

/* Tells what it believes, until it is killed. */
static int run_owner(void *argument, struct simba_error *error)
{
    struct duel *duel = argument;
    simba_client *client = NULL;
    simba_contender *contender = NULL;
    bool told = false;

    int code = bench_client_open(&duel->shared->plan, &client, error);
    if (code == SIMBA_OK)
        code = tell_lease(duel->shared, client);
    if (code == SIMBA_OK)
        code = create_contender(duel, client, NULL, &contender, error);
    while (code == SIMBA_OK) {
        int64_t deadline_ms = simba_contender_deadline_ms(contender);
        atomic_store(&duel->deadline_ms, deadline_ms);
        if (deadline_ms > 0 && !told)
            sem_post(&duel->shared->ready);
        told = told || deadline_ms > 0;
        bench_sleep_ms(1);
    }
    return code;
}

static int start_owners(struct failover *failover, int count, struct simba_error *error)
{
    struct shared *shared = failover->shared;
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++) {
        shared->duels[i] = (struct duel){.shared = shared, .number = i};
        code = bench_process_start(&failover->owners[i], run_owner, &shared->duels[i], error);
    }
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = bench_process_await(failover->owners, count, &shared->ready, error);
    return code;
}

/* ---- Waiters --------------------------------------------------------------------------------- */

/* Only the first counts: at the end of a round the waiters are killed too, and those that are left
 * succeed them. */
static void on_taken_over(void *user, const struct simba_state *state)
{
    struct duel *duel = user;
    double not_yet = 0;

    (void)state;
    if (atomic_compare_exchange_strong(&duel->taken_over_us, &not_yet, bench_now_us()))
        sem_post(&duel->shared->taken_over);
}

/* Waits for all mutexes, until it is killed. */
static int run_waiter(void *argument, struct simba_error *error)
{
    struct shared *shared = argument;
    simba_client *client = NULL;
    simba_contender *contenders[OWNERS_MAX];

    int code = bench_client_open(&shared->plan, &client, error);
    for (int i = 0; i < shared->plan.count && code == SIMBA_OK; i++)
        code = create_contender(&shared->duels[i], client, on_taken_over, &contenders[i], error);
    for (int i = 0; i < shared->plan.count && code == SIMBA_OK; i++)
        code = bench_await_answer(contenders[i], error);
    if (code != SIMBA_OK)
        return code;
    sem_post(&shared->ready);
    for (;;)
        bench_sleep_ms(1000);
}

static int start_waiters(struct failover *failover, int count, struct simba_error *error)
{
    struct shared *shared = failover->shared;
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = bench_process_start(&failover->waiters[i], run_waiter, shared, error);
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = bench_process_await(failover->waiters, count, &shared->ready, error);
    return code;
}

/* ---- A round --------------------------------------------------------------------------------- */

/* The kills are spread over a ttl, so that every part of a lease is met. */
static int kill_owners(struct failover *failover, int count, struct simba_error *error)
{
    struct shared *shared = failover->shared;
    int code = SIMBA_OK;

    for (int i = 0; i < count; i++) {
        bench_rest_ms(shared->ttl_ms / count);
        shared->duels[i].killed_us = bench_now_us();
        bench_process_kill(&failover->owners[i]);
    }
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = bench_process_await(failover->waiters, 1, &shared->taken_over, error);
    return code;
}

static int keep(struct outcome *outcome, const struct duel *duel, struct simba_error *error)
{
    double killed_ms = duel->killed_us / 1000;
    double took_ms = atomic_load(&duel->taken_over_us) / 1000 - killed_ms;
    double end_ms = (double)(atomic_load(&duel->deadline_ms) + duel->shared->margin_ms);
    double left_ms = end_ms - killed_ms;

    if (took_ms < 0 || atomic_load(&duel->deadline_ms) == 0)
        return sb_error_set(error, SIMBA_ELOST, "an owner lost its lease before it was killed");
    bench_samples_add(&outcome->took, took_ms);
    bench_samples_add(&outcome->left, left_ms);
    bench_samples_add(&outcome->after, took_ms - left_ms);
    bench_samples_add(&outcome->multiple, took_ms / (left_ms > 1 ? left_ms : 1));
    return SIMBA_OK;
}

static void end_round(struct failover *failover, int count)
{
    for (int i = 0; i < WAITERS; i++)
        bench_process_kill(&failover->waiters[i]);
    for (int i = 0; i < count; i++)
        bench_process_kill(&failover->owners[i]);
}

static int measure_round(struct failover *failover, enum way way, struct simba_error *error)
{
    struct shared *shared = failover->shared;
    struct outcome *outcome = &failover->outcomes[way];
    int count = shared->plan.count;
    bool has_turns = way != JITTER && failover->ways > TURN;
    int code;

    shared->plan.turn_ms = has_turns ? failover->turn_ms : 0;
    code = start_owners(failover, count, error);
    if (code == SIMBA_OK)
        code = start_waiters(failover, way == ALONE ? 1 : WAITERS, error);
    if (code == SIMBA_OK)
        code = kill_owners(failover, count, error);
    end_round(failover, count);
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = keep(outcome, &shared->duels[i], error);
    if (code != SIMBA_OK)
        return code;
    bench_samples_end_round(&outcome->took);
    bench_samples_end_round(&outcome->left);
    bench_samples_end_round(&outcome->after);
    bench_samples_end_round(&outcome->multiple);
    return SIMBA_OK;
}

/* ---- The question ---------------------------------------------------------------------------- */

static int init_outcome(struct outcome *outcome, size_t capacity, struct simba_error *error)
{
    int code = bench_samples_init(&outcome->took, capacity, error);

    if (code == SIMBA_OK)
        code = bench_samples_init(&outcome->left, capacity, error);
    if (code == SIMBA_OK)
        code = bench_samples_init(&outcome->after, capacity, error);
    if (code == SIMBA_OK)
        code = bench_samples_init(&outcome->multiple, capacity, error);
    return code;
}

static int init(struct failover *failover, const struct bench_plan *plan, struct simba_error *error)
{
    int count = plan->count < OWNERS_MAX ? plan->count : OWNERS_MAX;
    size_t capacity = (size_t)count * (size_t)plan->rounds;
    void *memory = NULL;
    int code = bench_shared_create(sizeof *failover->shared, &memory, error);

    if (code != SIMBA_OK)
        return code;
    failover->ways = plan->has_turns ? WAYS : TURN;
    failover->turn_ms = plan->turn_ms > 0 ? plan->turn_ms : TURN_MS;
    failover->shared = memory;
    failover->shared->plan = *plan;
    failover->shared->plan.count = count;
    sem_init(&failover->shared->ready, 1, 0);
    sem_init(&failover->shared->taken_over, 1, 0);
    for (int way = 0; way < failover->ways && code == SIMBA_OK; way++)
        code = init_outcome(&failover->outcomes[way], capacity, error);
    return code;
}

static void clear(struct failover *failover)
{
    for (int way = 0; way < WAYS; way++) {
        bench_samples_free(&failover->outcomes[way].took);
        bench_samples_free(&failover->outcomes[way].left);
        bench_samples_free(&failover->outcomes[way].after);
        bench_samples_free(&failover->outcomes[way].multiple);
    }
    bench_shared_free(failover->shared, sizeof *failover->shared);
}

static void tell_turns(struct failover *failover, struct bench_result *result)
{
    char text[48];

    snprintf(text, sizeof text, "the same with turns of %" PRId64 " ms", failover->turn_ms);
    bench_result_measure(result, "turn_after_lease", text, "ms", &failover->outcomes[TURN].after);
}

static void tell(struct failover *failover, struct bench_result *result)
{
    struct outcome *alone = &failover->outcomes[ALONE];

    bench_result_measure(result, "simba", "from the kill to the next owner", "ms", &alone->took);
    bench_result_measure(result, "raw", "what was left of the lease", "ms", &alone->left);
    bench_result_measure(result, "after_lease", "after the end of the lease", "ms", &alone->after);
    bench_result_measure(result, "multiple", "as a multiple of what was left", "",
                         &alone->multiple);
    bench_result_measure(result, "jitter", "from the kill, the first of 8 waiters", "ms",
                         &failover->outcomes[JITTER].took);
    bench_result_measure(result, "jitter_after_lease", "after the lease, the first of 8", "ms",
                         &failover->outcomes[JITTER].after);
    if (failover->ways > TURN)
        tell_turns(failover, result);
}

int bench_failover(const struct bench_plan *plan, struct bench_result *result,
                   struct simba_error *error)
{
    struct failover failover = {0};
    int code = init(&failover, plan, error);

    for (int round = 0; round < failover.ways * plan->rounds && code == SIMBA_OK; round++) {
        failover.shared->round = round;
        code = measure_round(&failover, (enum way)(round % failover.ways), error);
    }
    if (code == SIMBA_OK)
        tell(&failover, result);
    clear(&failover);
    return code;
}
