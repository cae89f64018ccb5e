/*
 * relay.c - see relay.h. Must not know what is handed over.
 */
#include "bench/relay.h"

#include "bench/machine.h"

#include "base/error.h"

typedef int (*step_fn)(void *side, struct simba_error *error);

static int take_step(step_fn step, void *side, struct simba_error *error)
{
    return step != NULL ? step(side, error) : SIMBA_OK;
}

/* ---- The waiter's process -------------------------------------------------------------------- */

void bench_baton_await(struct bench_baton *baton)
{
    sem_post(&baton->ready);
    sem_wait(&baton->may_join);
}

int bench_baton_take(struct bench_baton *baton, const struct bench_waiter *steps, void *waiter,
                     struct simba_error *error)
{
    int code = take_step(steps->join, waiter, error);

    if (code != SIMBA_OK)
        return code;
    sem_post(&baton->joined);
    code = take_step(steps->take, waiter, error);
    if (code != SIMBA_OK)
        return code;
    baton->taken_us = bench_now_us();
    sem_post(&baton->taken);
    sem_wait(&baton->may_leave);
    return take_step(steps->leave, waiter, error);
}

/* ---- The owner's process --------------------------------------------------------------------- */

static int await(struct bench_relay *relay, sem_t *posted, struct simba_error *error)
{
    return bench_process_await(&relay->waiter, 1, posted, error);
}

int bench_relay_start(struct bench_relay *relay, const struct bench_plan *plan,
                      int (*run)(void *baton, struct simba_error *error), struct simba_error *error)
{
    void *memory = NULL;
    int code = bench_shared_create(sizeof *relay->baton, &memory, error);

    if (code != SIMBA_OK)
        return code;
    relay->baton = memory;
    relay->baton->plan = plan;
    sem_init(&relay->baton->ready, 1, 0);
    sem_init(&relay->baton->may_join, 1, 0);
    sem_init(&relay->baton->joined, 1, 0);
    sem_init(&relay->baton->taken, 1, 0);
    sem_init(&relay->baton->may_leave, 1, 0);
    code = bench_process_start(&relay->waiter, run, relay->baton, error);
    return code == SIMBA_OK ? await(relay, &relay->baton->ready, error) : code;
}

void bench_relay_end(struct bench_relay *relay)
{
    bench_process_kill(&relay->waiter);
    bench_shared_free(relay->baton, sizeof *relay->baton);
    relay->baton = NULL;
}

/* Until the waiter waits. */
static int prepare(struct bench_relay *relay, const struct bench_owner *steps, void *owner,
                   struct simba_error *error)
{
    int code = take_step(steps->own, owner, error);

    if (code != SIMBA_OK)
        return code;
    sem_post(&relay->baton->may_join);
    code = await(relay, &relay->baton->joined, error);
    return code == SIMBA_OK ? take_step(steps->await_waiter, owner, error) : code;
}

int bench_relay_measure(struct bench_relay *relay, const struct bench_owner *steps, void *owner,
                        int64_t rest_ms, struct bench_samples *samples, struct simba_error *error)
{
    int code = prepare(relay, steps, owner, error);

    if (code != SIMBA_OK)
        return code;
    bench_rest_ms(rest_ms);
    double begin = bench_now_us();
    code = steps->release(owner, error);
    if (code == SIMBA_OK)
        code = await(relay, &relay->baton->taken, error);
    if (code != SIMBA_OK)
        return code;
    if (relay->baton->taken_us < begin)
        return sb_error_set(error, SIMBA_EUNKNOWN, "it was taken before it was released");
    bench_samples_add(samples, relay->baton->taken_us - begin);
    sem_post(&relay->baton->may_leave);
    return await(relay, &relay->baton->ready, error);
}
