/*
 * run.c - asks questions, each in a process of its own, and cleans up after them.
 */
#include "bench/bench.h"
#include "bench/process.h"
#include "bench/raw_store.h"
#include "bench/side.h"

#include "base/error.h"
#include "base/url.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TTL_MS 1000
#define TRANSITION_MS 2000
#define CHECK_TIMEOUT_MS 10000

const struct bench_question bench_questions[] = {
    {"cycle", "acquire + release of a mutex that nobody else wants", bench_cycle, 200, 5},
    {"beside", "the same while 40 clients wait for other mutexes", bench_beside, 100, 10},
    {"handover", "hand-over to a waiter in another process", bench_handover, 8, 5},
    {"many", "mutexes held by one client through several renewals", bench_many, 1, 3},
    {"contention", "one mutex that many contenders in several processes want", bench_contention, 1,
     3},
    {"failover", "kill -9 of an owner with waiters in other processes", bench_failover, 10, 2},
    {"is-owner", "to ask whether one owns", bench_is_owner, 1000000, 5},
    {NULL, NULL, NULL, 0, 0},
};

static volatile sig_atomic_t caught;

static void on_signal(int signal)
{
    caught = signal;
}

void bench_catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: waits are to end */

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

int bench_signal(void)
{
    return caught;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* Short leases, so that a run does not take long; what the URL says goes before them. */
static int choose_timings(struct bench_plan *plan, simba_url *url, struct simba_error *error)
{
    const struct simba_backend_ops *backend = simba_backend_find(simba_url_scheme(url));

    plan->ttl_ms = simba_url_param(url, "ttl") != NULL ? SIMBA_UNSET : TTL_MS;
    plan->transition_ms = simba_url_param(url, "transition") != NULL ? SIMBA_UNSET : TRANSITION_MS;
    plan->has_turns = backend != NULL && backend->has_queue &&
                      strcmp(backend->name, "zookeeper") != 0; /* whose turns cannot be set */
    return simba_url_duration(url, "turn", &plan->turn_ms, error);
}

int bench_plan_init(struct bench_plan *plan, const char *url, struct simba_error *error)
{
    char random[SIMBA_ID_MAX + 1];
    simba_url *parsed = NULL;

    int code = simba_id_uuid(NULL, random);
    if (code != SIMBA_OK)
        return sb_error_plain(error, code);
    code = sb_url_parse(url, &parsed, error);
    if (code != SIMBA_OK)
        return code;
    *plan = (struct bench_plan){
        .url = url,
        .turn_ms = SIMBA_UNSET,
        .mutexes = 1000,
        .contenders = 1000,
        .processes = 4,
        .window_ms = 1000,
    };
    snprintf(plan->prefix, sizeof plan->prefix, "bench-%.8s-", random);
    code = choose_timings(plan, parsed, error);
    sb_url_free(parsed);
    return code;
}

/* ---- Processes ------------------------------------------------------------------------------- */

struct task {
    struct bench_plan plan;
    bench_task *run;
    struct bench_result *result; /* shared; NULL: it has none */
};

static int run_task(void *argument, struct simba_error *error)
{
    struct task *task = argument;

    srandom((unsigned)getpid() ^ (unsigned)time(NULL));
    return task->run(&task->plan, task->result, error);
}

static int run_in_process(struct task *task, struct simba_error *error)
{
    struct bench_process process = {0};
    int code = bench_process_start(&process, run_task, task, error);

    if (code == SIMBA_OK)
        code = bench_process_wait(&process, error);
    bench_process_kill(&process);
    return code;
}

/* For all tasks but the clean-up. */
static int run_until_signal(struct task *task, struct simba_error *error)
{
    int code = run_in_process(task, error);

    return caught == 0 ? code : sb_error_set(error, SIMBA_ECONTENDED, "signal %d came", caught);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int clean_up(const struct bench_plan *plan, struct bench_result *result,
                    struct simba_error *error)
{
    struct bench_raw raw;
    int code = bench_raw_open(&raw, plan->url, plan->prefix, error);

    (void)result;
    if (code != SIMBA_OK)
        return code;
    code = raw.ops->forget(raw.handle, error);
    bench_raw_close(&raw);
    return code;
}

/* Asks for a mutex that does not exist: only whether the store answers counts. */
static int check_store(const struct bench_plan *plan, struct bench_result *result,
                       struct simba_error *error)
{
    simba_client *client = NULL;
    struct simba_mutex_status *list = NULL;
    char name[SIMBA_MUTEX_MAX + 1];
    size_t count = 0;
    int code = bench_client_open(plan, &client, error);

    (void)result;
    if (code != SIMBA_OK)
        return code;
    bench_name(plan, "check", 0, name);
    code = simba_client_status(client, name, CHECK_TIMEOUT_MS, &list, &count, error);
    simba_free(list);
    int closed = simba_client_close(client, code == SIMBA_OK ? error : NULL);
    return code != SIMBA_OK ? code : closed;
}

int bench_check(const struct bench_plan *plan, struct simba_error *error)
{
    struct task task = {.plan = *plan, .run = check_store};

    return run_until_signal(&task, error);
}

int bench_check_rights(const struct bench_plan *plan, struct simba_error *error)
{
    struct task task = {.plan = *plan, .run = clean_up};
    int code = run_until_signal(&task, error);

    return code == SIMBA_EUNSUPPORTED ? SIMBA_OK : code;
}

int bench_ask(const struct bench_plan *plan, const struct bench_question *question,
              struct bench_result *ret_result, struct simba_error *error)
{
    struct task task = {.plan = *plan, .run = question->ask};
    void *memory = NULL;

    int code = bench_shared_create(sizeof *ret_result, &memory, error);
    if (code != SIMBA_OK)
        return code;
    task.result = memory;
    task.plan.count = plan->count != 0 ? plan->count : question->count;
    task.plan.rounds = plan->rounds != 0 ? plan->rounds : question->rounds;
    code = run_until_signal(&task, error);
    if (code == SIMBA_OK)
        *ret_result = *task.result;
    bench_shared_free(memory, sizeof *ret_result);
    return code;
}

int bench_forget(const struct bench_plan *plan, struct simba_error *error)
{
    struct task task = {.plan = *plan, .run = clean_up};

    return run_in_process(&task, error);
}
