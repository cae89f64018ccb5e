/*
 * by_hand.c - see by_hand.h.
 */
#include "bench/by_hand.h"

#include "bench/machine.h"
#include "bench/side.h"

static bool has_nothing_to_take(const struct bench_raw *raw)
{
    return raw->handle == NULL || raw->ops->ways[0].waiter.take == NULL;
}

/* Until it is killed, but where nobody will ask it. */
static int run_waiter(void *memory, struct simba_error *error)
{
    struct bench_baton *baton = memory;
    struct bench_raw raw = {0};
    int code = bench_plain_open(baton->plan, &raw, error);

    if (code == SIMBA_OK && has_nothing_to_take(&raw)) {
        bench_raw_close(&raw);
        sem_post(&baton->ready);
        return SIMBA_OK;
    }
    while (code == SIMBA_OK) {
        bench_baton_await(baton);
        code = bench_baton_take(baton, &raw.ops->ways[baton->way].waiter, raw.handle, error);
    }
    return code;
}

int bench_by_hand_start_waiter(struct bench_by_hand *by_hand, const struct bench_plan *plan,
                               struct simba_error *error)
{
    return bench_relay_start(&by_hand->relay, plan, run_waiter, error);
}

void bench_by_hand_close(struct bench_by_hand *by_hand)
{
    bench_relay_end(&by_hand->relay);
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

/* Where the store tells nobody, what it is told twice is all that there is to be measured. */
static int measure_writes(struct bench_by_hand *by_hand, const struct bench_way *way,
                          struct bench_samples *samples, struct simba_error *error)
{
    bench_rest_ms(by_hand->raw.ops->rest_ms);
    double begin = bench_now_us();
    int code = way->cycle(by_hand->raw.handle, error);

    if (code == SIMBA_OK)
        bench_samples_add(samples, bench_now_us() - begin);
    return code;
}

int bench_by_hand_measure(struct bench_by_hand *by_hand, size_t way, struct bench_samples *samples,
                          struct simba_error *error)
{
    const struct bench_way *steps = &by_hand->raw.ops->ways[way];

    if (steps->waiter.take == NULL)
        return measure_writes(by_hand, steps, samples, error);
    by_hand->relay.baton->way = way;
    return bench_relay_measure(&by_hand->relay, &steps->owner, by_hand->raw.handle,
                               by_hand->raw.ops->rest_ms, samples, error);
}
