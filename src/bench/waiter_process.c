/*
 * waiter_process.c - see waiter_process.h. Must not know what is handed over.
 */
#include "bench/waiter_process.h"

#include "bench/machine.h"

#include "base/error.h"

typedef int (*step_fn)(void *side, struct simba_error *error);

static int take_step(step_fn step, void *side, struct simba_error *error)
{
    return step != NULL ? step(side, error) : SIMBA_OK;
}

/* ---- The waiter's process -------------------------------------------------------------------- */

void bench_waiter_await_turn(struct bench_handover_state *state)
{
    sem_post(&state->ready);
    sem_wait(&state->may_join);
}

int bench_waiter_take(struct bench_handover_state *state, const struct bench_waiter *steps,
                      void *waiter, struct simba_error *error)
{
    int code = take_step(steps->join, waiter, error);

    if (code != SIMBA_OK)
        return code;
    sem_post(&state->joined);
    code = take_step(steps->take, waiter, error);
    if (code != SIMBA_OK)
        return code;
    state->taken_us = bench_now_us();
    sem_post(&state->taken);
    sem_wait(&state->may_leave);
    return take_step(steps->leave, waiter, error);
}

/* ---- The owner's process --------------------------------------------------------------------- */

static int await(struct bench_waiter_process *waiter, sem_t *posted, struct simba_error *error)
{
    return bench_process_await(&waiter->process, 1, posted, error);
}

int bench_waiter_process_start(struct bench_waiter_process *waiter, const struct bench_plan *plan,
                               int (*run)(void *state, struct simba_error *error),
                               struct simba_error *error)
{
    void *memory = NULL;
    int code = bench_shared_create(sizeof *waiter->state, &memory, error);

    if (code != SIMBA_OK)
        return code;
    waiter->state = memory;
    waiter->state->plan = plan;
    sem_init(&waiter->state->ready, 1, 0);
    sem_init(&waiter->state->may_join, 1, 0);
    sem_init(&waiter->state->joined, 1, 0);
    sem_init(&waiter->state->taken, 1, 0);
    sem_init(&waiter->state->may_leave, 1, 0);
    code = bench_process_start(&waiter->process, run, waiter->state, error);
    return code == SIMBA_OK ? await(waiter, &waiter->state->ready, error) : code;
}

void bench_waiter_process_end(struct bench_waiter_process *waiter)
{
    bench_process_kill(&waiter->process);
    bench_shared_free(waiter->state, sizeof *waiter->state);
    waiter->state = NULL;
}

/* Until the waiter waits. */
static int prepare(struct bench_waiter_process *waiter, const struct bench_owner *steps,
                   void *owner, struct simba_error *error)
{
    int code = take_step(steps->own, owner, error);

    if (code != SIMBA_OK)
        return code;
    sem_post(&waiter->state->may_join);
    code = await(waiter, &waiter->state->joined, error);
    return code == SIMBA_OK ? take_step(steps->await_waiter, owner, error) : code;
}

int bench_waiter_process_measure(struct bench_waiter_process *waiter,
                                 const struct bench_owner *steps, void *owner, int64_t rest_ms,
                                 struct bench_samples *samples, struct simba_error *error)
{
    int code = prepare(waiter, steps, owner, error);

    if (code != SIMBA_OK)
        return code;
    bench_rest_ms(rest_ms);
    double begin = bench_now_us();
    code = steps->release(owner, error);
    if (code == SIMBA_OK)
        code = await(waiter, &waiter->state->taken, error);
    if (code != SIMBA_OK)
        return code;
    if (waiter->state->taken_us < begin)
        return sb_error_set(error, SIMBA_EUNKNOWN, "it was taken before it was released");
    bench_samples_add(samples, waiter->state->taken_us - begin);
    sem_post(&waiter->state->may_leave);
    return await(waiter, &waiter->state->ready, error);
}
