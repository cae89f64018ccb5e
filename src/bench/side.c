/*
 * side.c - the two sides of a comparison: the library's client and the plain one.
 */
#include "bench/side.h"

#include "bench/machine.h"

#include "base/error.h"

#include <stdio.h>

int bench_client_open(const struct bench_plan *plan, simba_client **ret_client,
                      struct simba_error *error)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.ttl_ms = plan->ttl_ms;
    options.transition_ms = plan->transition_ms;
    options.turn_ms = plan->turn_ms;
    options.log_level = SIMBA_LOG_NONE;
    return simba_client_open(plan->url, &options, ret_client, error);
}

int bench_await_answer(simba_contender *contender, struct simba_error *error)
{
    double end = bench_now_us() + BENCH_PATIENCE_MS * 1000.0;

    while (simba_contender_status(contender) == SIMBA_STARTING) {
        if (bench_now_us() > end) {
            int code = simba_contender_last_error(contender, error);

            return code != SIMBA_OK
                       ? code
                       : sb_error_set(error, SIMBA_ETIMEDOUT, "the store does not answer");
        }
        bench_sleep_ms(1);
    }
    return SIMBA_OK;
}

void bench_name(const struct bench_plan *plan, const char *what, int number,
                char ret_name[SIMBA_MUTEX_MAX + 1])
{
    snprintf(ret_name, SIMBA_MUTEX_MAX + 1, "%s%s-%d", plan->prefix, what, number);
}

int bench_plain_open(const struct bench_plan *plan, struct bench_raw *ret_raw,
                     struct simba_error *error)
{
    int code = bench_raw_open(ret_raw, plan->url, plan->prefix, error);

    return code == SIMBA_EUNSUPPORTED ? SIMBA_OK : code;
}

size_t bench_way_count(const struct bench_raw *raw)
{
    size_t count = 0;

    while (raw->handle != NULL && raw->ops->ways[count].key != NULL)
        count++;
    return count;
}

int bench_sides_init(struct bench_sides *sides, size_t ways, size_t capacity,
                     struct simba_error *error)
{
    *sides = (struct bench_sides){.ways = ways};
    int code = bench_samples_init(&sides->ours, capacity, error);
    for (size_t i = 0; i < ways && code == SIMBA_OK; i++)
        code = bench_samples_init(&sides->raw[i], capacity, error);
    return code;
}

void bench_sides_free(struct bench_sides *sides)
{
    bench_samples_free(&sides->ours);
    for (size_t i = 0; i < sides->ways; i++)
        bench_samples_free(&sides->raw[i]);
}

void bench_sides_end_round(struct bench_sides *sides)
{
    bench_samples_end_round(&sides->ours);
    for (size_t i = 0; i < sides->ways; i++)
        bench_samples_end_round(&sides->raw[i]);
}

/* ---- Hand-overs by plain clients ------------------------------------------------------------- */

/* Runs until it is killed; where the plain client cannot wait, it ends at once. */
static int run_waiter(void *memory, struct simba_error *error)
{
    struct bench_handover_state *state = memory;
    struct bench_raw raw = {0};
    int code = bench_plain_open(state->plan, &raw, error);

    if (code == SIMBA_OK && (raw.handle == NULL || raw.ops->ways[0].waiter.take == NULL)) {
        bench_raw_close(&raw);
        sem_post(&state->ready);
        return SIMBA_OK;
    }
    while (code == SIMBA_OK) {
        bench_waiter_await_turn(state);
        code = bench_waiter_take(state, &raw.ops->ways[state->way].waiter, raw.handle, error);
    }
    return code;
}

int bench_by_hand_start_waiter(struct bench_by_hand *by_hand, const struct bench_plan *plan,
                               struct simba_error *error)
{
    return bench_waiter_process_start(&by_hand->waiter, plan, run_waiter, error);
}

void bench_by_hand_close(struct bench_by_hand *by_hand)
{
    bench_waiter_process_end(&by_hand->waiter);
    bench_raw_close(&by_hand->raw);
}

size_t bench_by_hand_ways(const struct bench_by_hand *by_hand)
{
    size_t count = 0;

    while (count < bench_way_count(&by_hand->raw) &&
           by_hand->raw.ops->ways[count].handover_label != NULL)
        count++;
    return count;
}

int bench_by_hand_measure(struct bench_by_hand *by_hand, size_t way, struct bench_samples *samples,
                          struct simba_error *error)
{
    const struct bench_way *steps = &by_hand->raw.ops->ways[way];

    if (steps->waiter.take ==
        NULL) { /* a store without notices: only the two writes are measured */
        bench_rest_ms(by_hand->raw.ops->rest_ms);
        double begin = bench_now_us();
        int code = steps->cycle(by_hand->raw.handle, error);
        if (code == SIMBA_OK)
            bench_samples_add(samples, bench_now_us() - begin);
        return code;
    }
    by_hand->waiter.state->way = way;
    return bench_waiter_process_measure(&by_hand->waiter, &steps->owner, by_hand->raw.handle,
                                        by_hand->raw.ops->rest_ms, samples, error);
}
