/*
 * beside.c - how much longer acquire + release takes while clients wait for other mutexes.
 *
 *     this process      cycles ......            cycles ......            cycles ...
 *     the others                      all wait .................. close            all wait
 *
 * The others are in one process, each with a client of its own, as in a fleet.
 */
#include "bench/machine.h"
#include "bench/process.h"
#include "bench/bench.h"
#include "bench/side.h"

#define OTHERS 40

struct shared {
    const struct bench_plan *plan;
    sem_t may_wait;
    sem_t waiting; /* all of them; and, after may_close, all are closed */
    sem_t may_close;
};

/* ---- The others ------------------------------------------------------------------------------ */

struct member {
    simba_client *client;
    simba_contender *owner; /* of the mutex that it waits for, of the first client */
    simba_contender *waiter;
};

static int take_part(const struct bench_plan *plan, int number, simba_client *client,
                     simba_contender **ret_contender, struct simba_error *error)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(plan, "other", number, name);
    options.mutex = name;
    int code = simba_contender_create(client, &options, ret_contender, error);
    if (code == SIMBA_OK)
        code = simba_contender_start(*ret_contender, error);
    return code == SIMBA_OK ? bench_await_answer(*ret_contender, error) : code;
}

static int open_all(const struct bench_plan *plan, simba_client **owner,
                    struct member members[OTHERS], struct simba_error *error)
{
    int code = bench_client_open(plan, owner, error);

    for (int i = 0; i < OTHERS && code == SIMBA_OK; i++) {
        struct member *member = &members[i];

        code = bench_client_open(plan, &member->client, error);
        if (code == SIMBA_OK)
            code = take_part(plan, i, *owner, &member->owner, error);
        if (code == SIMBA_OK)
            code = take_part(plan, i, member->client, &member->waiter, error);
    }
    return code;
}

/* Until it is killed. */
static int run_others(void *memory, struct simba_error *error)
{
    struct shared *shared = memory;
    int code = SIMBA_OK;

    while (code == SIMBA_OK) {
        struct member members[OTHERS] = {0};
        simba_client *owner = NULL;

        sem_wait(&shared->may_wait);
        code = open_all(shared->plan, &owner, members, error);
        if (code != SIMBA_OK)
            break;
        sem_post(&shared->waiting);
        sem_wait(&shared->may_close);
        for (int i = 0; i < OTHERS; i++) {
            simba_contender_close(members[i].waiter);
            simba_contender_close(members[i].owner);
            simba_client_close(members[i].client, NULL);
        }
        simba_client_close(owner, NULL);
        sem_post(&shared->waiting);
    }
    return code;
}

static int ask_others(struct bench_process *others, struct shared *shared, sem_t *what,
                      struct simba_error *error)
{
    sem_post(what);
    return bench_process_await(others, 1, &shared->waiting, error);
}

/* ---- The cycles ------------------------------------------------------------------------------ */

static int measure_cycles(simba_locker *locker, int count, struct bench_samples *samples,
                          struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++) {
        double begin = bench_now_us();
        code = simba_locker_acquire_timeout(locker, BENCH_PATIENCE_MS, error);
        if (code == SIMBA_OK)
            code = simba_locker_release(locker, error);
        bench_samples_add(samples, bench_now_us() - begin);
    }
    return code;
}

static int measure_round(struct bench_process *others, struct shared *shared, simba_locker *locker,
                         struct bench_sides *sides, struct simba_error *error)
{
    int count = shared->plan->count;
    int code = measure_cycles(locker, count, &sides->raw[0], error);

    if (code == SIMBA_OK)
        code = ask_others(others, shared, &shared->may_wait, error);
    if (code == SIMBA_OK)
        code = measure_cycles(locker, count, &sides->ours, error);
    if (code == SIMBA_OK)
        code = ask_others(others, shared, &shared->may_close, error);
    return code;
}

static int measure(struct bench_process *others, struct shared *shared, struct bench_sides *sides,
                   struct simba_error *error)
{
    const struct bench_plan *plan = shared->plan;
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(plan, "beside", 0, name);
    options.mutex = name;
    int code = bench_client_open(plan, &client, error);
    if (code == SIMBA_OK)
        code = simba_locker_create(client, &options, &locker, error);
    for (int round = -1; round < plan->rounds && code == SIMBA_OK; round++) {
        code = measure_round(others, shared, locker, sides, error);
        if (round < 0) /* for warming up */
            sides->ours.count = sides->raw[0].count = 0;
        else if (code == SIMBA_OK)
            bench_sides_end_round(sides);
    }
    simba_locker_close(locker);
    if (client != NULL)
        simba_client_close(client, NULL);
    return code;
}

int bench_beside(const struct bench_plan *plan, struct bench_result *result,
                 struct simba_error *error)
{
    struct bench_process others = {0};
    struct bench_sides sides = {0};
    struct shared *shared;
    void *memory = NULL;
    int code = bench_shared_create(sizeof *shared, &memory, error);

    if (code != SIMBA_OK)
        return code;
    shared = memory;
    shared->plan = plan;
    sem_init(&shared->may_wait, 1, 0);
    sem_init(&shared->waiting, 1, 0);
    sem_init(&shared->may_close, 1, 0);
    code = bench_process_start(&others, run_others, shared, error);
    if (code == SIMBA_OK)
        code = bench_sides_init(&sides, 1, (size_t)plan->count * (size_t)plan->rounds, error);
    if (code == SIMBA_OK)
        code = measure(&others, shared, &sides, error);
    if (code == SIMBA_OK) {
        bench_result_measure(result, "simba", "acquire + release beside 40 waiting clients", "us",
                             &sides.ours);
        bench_result_measure(result, "raw", "the same without them", "us", &sides.raw[0]);
        bench_result_ratio(result, "raw", &sides.ours, &sides.raw[0]);
    }
    bench_process_kill(&others);
    bench_sides_free(&sides);
    bench_shared_free(shared, sizeof *shared);
    return code;
}
