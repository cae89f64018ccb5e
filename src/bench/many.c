/*
 * many.c - what it costs one client to hold many mutexes through several renewals.
 *
 * How late a renewal was is seen from outside: an owner believes until a fixed time after its last
 * request was sent, so that belief moves on by one ttl with every renewal that is in time.
 *
 * The mutexes are not given back one by one: the process ends, and bench_forget removes what they
 * leave.
 */
#include "bench/machine.h"
#include "bench/bench.h"
#include "bench/side.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

#define POLL_MS 5
#define PATIENCE_MS 600000 /* until all are owned */
#define RAW_MAX 1000       /* written by hand in a round: more would hold up the store */
#define LOOKS_PER_TTL 20

struct many {
    const struct bench_plan *plan;
    struct bench_raw raw;
    simba_client *client;
    simba_contender **contenders;
    int64_t *deadlines_ms; /* as last seen */
    int64_t ttl_ms;
    struct bench_samples lateness;
};

/* What was used from the time that all were owned, without what was done by hand. */
struct usage {
    double wall_us;
    double cpu_us;
    double raw_cpu_us;
    double raw_count;
    double commands;
};

/* A count, and since when it has been so. */
struct pulse {
    uint64_t count;
    double since_us;
};

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    simba_client_metrics(client, &metrics);
    return metrics;
}

/* ---- To own all ------------------------------------------------------------------------------ */

static int allocate(struct many *many, struct simba_error *error)
{
    size_t count = (size_t)many->plan->mutexes;

    many->contenders = calloc(count, sizeof *many->contenders);
    many->deadlines_ms = calloc(count, sizeof *many->deadlines_ms);
    if (many->contenders == NULL || many->deadlines_ms == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    for (size_t i = 0; i < count; i++) /* touched now, so that it is not counted as the library's */
        many->deadlines_ms[i] = -1;
    return bench_samples_init(&many->lateness, count * (size_t)(many->plan->rounds + 2), error);
}

static int start_all(struct many *many, struct simba_error *error)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    char name[SIMBA_MUTEX_MAX + 1];
    int code = SIMBA_OK;

    options.mutex = name;
    for (int i = 0; i < many->plan->mutexes && code == SIMBA_OK; i++) {
        bench_name(many->plan, "many", i, name);
        code = simba_contender_create(many->client, &options, &many->contenders[i], error);
        if (code == SIMBA_OK)
            code = simba_contender_start(many->contenders[i], error);
    }
    return code;
}

/* Whether a count has stood still for longer than a store may take. */
static bool has_stopped(struct pulse *pulse, uint64_t count, int64_t patience_ms)
{
    double now_us = bench_now_us();

    if (pulse->since_us == 0 || count != pulse->count)
        *pulse = (struct pulse){count, now_us};
    return now_us - pulse->since_us > (double)patience_ms * 1000;
}

static int await_all(struct many *many, struct simba_error *error)
{
    double end = bench_now_us() + PATIENCE_MS * 1000.0;
    struct pulse pulse = {0};
    uint64_t owned;

    while ((owned = metrics_of(many->client).owned) < (uint64_t)many->plan->mutexes) {
        if (bench_now_us() > end || has_stopped(&pulse, owned, BENCH_PATIENCE_MS))
            return sb_error_set(error, SIMBA_ETIMEDOUT, "the mutexes could not all be acquired");
        bench_sleep_ms(POLL_MS);
    }
    return SIMBA_OK;
}

static int own_all(struct many *many, struct bench_result *result, struct simba_error *error)
{
    double count = many->plan->mutexes;
    int64_t rss_kb = bench_status_field("VmRSS:");
    double begin = bench_now_us();

    int code = start_all(many, error);
    if (code == SIMBA_OK)
        code = await_all(many, error);
    if (code != SIMBA_OK)
        return code;
    bench_result_number(result, "mutexes", "mutexes", "", count);
    bench_result_number(result, "own_all_ms", "until all are owned", "ms",
                        (bench_now_us() - begin) / 1000);
    bench_result_number(result, "rss_per_mutex_bytes", "memory (RSS) of a mutex", "B",
                        (double)(bench_status_field("VmRSS:") - rss_kb) * 1024 / count);
    return SIMBA_OK;
}

/* ---- Renewals -------------------------------------------------------------------------------- */

static void look_at(struct many *many, int i)
{
    int64_t seen = many->deadlines_ms[i];
    int64_t deadline_ms = simba_contender_deadline_ms(many->contenders[i]);

    many->deadlines_ms[i] = deadline_ms;
    if (seen <= 0 || deadline_ms <= seen || many->lateness.count == many->lateness.capacity)
        return;
    double late_ms = (double)(deadline_ms - seen - many->ttl_ms);
    bench_samples_add(&many->lateness, late_ms > 0 ? late_ms : 0);
}

static int await_renewals(struct many *many, uint64_t count, struct simba_error *error)
{
    int64_t pause_ms = many->ttl_ms / LOOKS_PER_TTL;
    struct pulse pulse = {0};
    uint64_t renewals = 0;

    while (renewals < count) {
        if (has_stopped(&pulse, renewals, many->ttl_ms + BENCH_PATIENCE_MS))
            return sb_error_set(error, SIMBA_ETIMEDOUT, "the mutexes are not renewed");
        bench_sleep_ms(pause_ms > POLL_MS ? pause_ms : POLL_MS);
        renewals = metrics_of(many->client).renewals;
        for (int i = 0; i < many->plan->mutexes; i++)
            look_at(many, i);
    }
    return SIMBA_OK;
}

static int renew_by_hand(struct many *many, struct usage *usage, struct simba_error *error)
{
    int count = many->plan->mutexes < RAW_MAX ? many->plan->mutexes : RAW_MAX;
    double begin_us = bench_thread_cpu_us();

    if (many->raw.handle == NULL || many->raw.ops->renew == NULL)
        return SIMBA_OK;
    int code = many->raw.ops->renew(many->raw.handle, count, error);
    usage->raw_cpu_us += bench_thread_cpu_us() - begin_us;
    usage->raw_count += count;
    return code;
}

/* The library's threads are all but this one. */
static int measure_round(struct many *many, struct usage *usage, uint64_t renewals,
                         struct simba_error *error)
{
    double commands = bench_raw_counter(&many->raw);
    double cpu_us = bench_process_cpu_us() - bench_thread_cpu_us();
    double begin_us = bench_now_us();

    int code = await_renewals(many, renewals, error);
    usage->wall_us += bench_now_us() - begin_us;
    usage->cpu_us += bench_process_cpu_us() - bench_thread_cpu_us() - cpu_us;
    usage->commands += bench_raw_counter(&many->raw) - commands;
    return code == SIMBA_OK ? renew_by_hand(many, usage, error) : code;
}

static void tell_usage(struct many *many, const struct usage *usage, double renewals,
                       struct bench_result *result)
{
    const struct bench_raw_ops *ops = many->raw.ops;
    double seconds = usage->wall_us / 1e6;
    bool by_hand = usage->raw_count > 0;

    bench_result_number(result, "renewals_per_second", "renewals per second", "/s",
                        renewals / seconds);
    bench_result_number(result, "commands_per_second",
                        ops != NULL && ops->counter != NULL ? ops->counter_name : "commands", "/s",
                        usage->commands / seconds);
    bench_result_number(result, "cpu_percent", "processor, of one core", "%",
                        usage->cpu_us / usage->wall_us * 100);
    bench_result_number(result, "cpu_us_per_renewal", "processor time of a renewal", "us",
                        usage->cpu_us / renewals);
    bench_result_number(result, "raw_cpu_us_per_renewal",
                        by_hand ? ops->renew_label : "the same by hand", "us",
                        by_hand ? usage->raw_cpu_us / usage->raw_count : NAN);
}

static int hold_all(struct many *many, struct bench_result *result, struct simba_error *error)
{
    struct usage usage = {0};
    uint64_t before = metrics_of(many->client).renewals;
    uint64_t mutexes = (uint64_t)many->plan->mutexes;
    int code = SIMBA_OK;

    for (int round = 1; round <= many->plan->rounds && code == SIMBA_OK; round++)
        code = measure_round(many, &usage, before + (uint64_t)round * mutexes, error);
    if (code != SIMBA_OK)
        return code;
    tell_usage(many, &usage, (double)(metrics_of(many->client).renewals - before), result);
    if (many->lateness.count == 0)
        bench_samples_add(&many->lateness, 0);
    bench_samples_end_round(&many->lateness);
    bench_result_measure(result, "lateness", "renewals sent after their ttl by", "ms",
                         &many->lateness);
    return SIMBA_OK;
}

/* ---- The question ---------------------------------------------------------------------------- */

static int measure(struct many *many, struct bench_result *result, struct simba_error *error)
{
    int64_t threads = bench_status_field("Threads:");
    int sockets = bench_socket_count();
    int64_t transition_ms = 0;

    int code = bench_client_open(many->plan, &many->client, error);
    if (code == SIMBA_OK)
        code = simba_client_lease(many->client, &many->ttl_ms, &transition_ms);
    if (code == SIMBA_OK)
        code = own_all(many, result, error);
    if (code == SIMBA_OK)
        code = hold_all(many, result, error);
    if (code != SIMBA_OK)
        return code;
    struct simba_metrics metrics = metrics_of(many->client);
    bench_result_number(result, "threads", "threads, the application's included", "",
                        (double)(bench_status_field("Threads:") - threads + 1));
    bench_result_number(result, "connections", "connections", "", bench_socket_count() - sockets);
    bench_result_number(result, "lost", "leases lost", "", (double)metrics.losses);
    bench_result_number(result, "errors", "requests that failed", "", (double)metrics.errors);
    return SIMBA_OK;
}

/* An SQL store has its table only after a client was opened. */
static int create_store(const struct bench_plan *plan, struct simba_error *error)
{
    simba_client *client = NULL;
    int code = bench_client_open(plan, &client, error);

    return code == SIMBA_OK ? simba_client_close(client, error) : code;
}

int bench_many(const struct bench_plan *plan, struct bench_result *result,
               struct simba_error *error)
{
    struct many many = {.plan = plan};
    int code = allocate(&many, error);

    if (code == SIMBA_OK)
        code = create_store(plan, error);
    if (code == SIMBA_OK)
        code = bench_plain_open(plan, &many.raw, error);
    if (code == SIMBA_OK)
        code = measure(&many, result, error);
    return code;
}
