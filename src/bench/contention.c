/*
 * contention.c - one mutex that a thousand contenders in several processes want, each again as soon
 * as it had its turn.
 *
 * A turn is as short as can be: told that it owns, a contender stops, and starts again. The
 * processes are killed at the end, and bench_forget removes what they leave.
 */
#include "bench/machine.h"
#include "bench/process.h"
#include "bench/bench.h"
#include "bench/side.h"

#include "base/error.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PROCESSES_MAX 64
#define RAW_HANDOVERS 10 /* by hand, when the contenders have gone */

struct shared {
    const struct bench_plan *plan;
    sem_t ready;          /* posted by each process whose contenders all take part */
    atomic_int process;   /* the next one's number */
    atomic_bool counting; /* turns count */
    atomic_uint turns[];  /* of each contender */
};

struct contention {
    const struct bench_plan *plan;
    struct shared *shared;
    size_t shared_size;
    struct bench_process processes[PROCESSES_MAX];
    struct bench_by_hand by_hand;
    struct bench_samples handovers; /* by hand */
};

/* ---- A process of contenders ----------------------------------------------------------------- */

struct party;

struct member {
    struct party *party;
    simba_contender *contender;
    atomic_uint *turns;
    struct member *next;
};

/* The owner is handed to the main thread, which makes it stop and start: a callback must not
 * wait. */
struct party {
    struct shared *shared;
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    struct member *owners;
};

static void on_acquired(void *user, const struct simba_state *state)
{
    struct member *member = user;
    struct party *party = member->party;

    (void)state;
    if (atomic_load(&party->shared->counting))
        atomic_fetch_add(member->turns, 1);
    pthread_mutex_lock(&party->lock);
    member->next = party->owners;
    party->owners = member;
    pthread_cond_signal(&party->not_empty);
    pthread_mutex_unlock(&party->lock);
}

static struct member *await_owner(struct party *party)
{
    pthread_mutex_lock(&party->lock);
    while (party->owners == NULL)
        pthread_cond_wait(&party->not_empty, &party->lock);
    struct member *member = party->owners;
    party->owners = member->next;
    pthread_mutex_unlock(&party->lock);
    return member;
}

/* Until it is killed. */
static int take_turns(struct party *party, struct simba_error *error)
{
    for (;;) {
        struct member *member = await_owner(party);
        int code = simba_contender_stop(member->contender, error);
        if (code == SIMBA_OK)
            code = simba_contender_start(member->contender, error);
        if (code != SIMBA_OK)
            return code;
    }
}

static int start_member(struct member *member, simba_client *client, struct simba_error *error)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    char name[SIMBA_MUTEX_MAX + 1];

    bench_name(member->party->shared->plan, "contention", 0, name);
    options.mutex = name;
    options.on_acquired = on_acquired;
    options.user = member;
    int code = simba_contender_create(client, &options, &member->contender, error);
    return code == SIMBA_OK ? simba_contender_start(member->contender, error) : code;
}

/* Those that the store has not answered yet take no part. An owner meanwhile keeps it. */
static int await_members(const struct member *members, int count, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int i = 0; i < count && code == SIMBA_OK; i++)
        if (members[i].contender != NULL)
            code = bench_await_answer(members[i].contender, error);
    return code;
}

/* The contenders i with i % processes == process are this one's. */
static int run_party(void *argument, struct simba_error *error)
{
    static struct party party = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                 .not_empty = PTHREAD_COND_INITIALIZER};
    struct shared *shared = argument;
    const struct bench_plan *plan = shared->plan;
    struct member *members = calloc((size_t)plan->contenders, sizeof *members);
    simba_client *client = NULL;

    if (members == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    party.shared = shared;
    int code = bench_client_open(plan, &client, error);
    for (int i = atomic_fetch_add(&shared->process, 1); i < plan->contenders && code == SIMBA_OK;
         i += plan->processes) {
        members[i] = (struct member){.party = &party, .turns = &shared->turns[i]};
        code = start_member(&members[i], client, error);
    }
    if (code == SIMBA_OK)
        code = await_members(members, plan->contenders, error);
    if (code != SIMBA_OK)
        return code;
    sem_post(&shared->ready);
    return take_turns(&party, error);
}

static int start_processes(struct contention *contention, struct simba_error *error)
{
    const struct bench_plan *plan = contention->plan;
    void *memory = NULL;

    contention->shared_size =
        sizeof(struct shared) + (size_t)plan->contenders * sizeof(atomic_uint);
    int code = bench_shared_create(contention->shared_size, &memory, error);
    if (code != SIMBA_OK)
        return code;
    contention->shared = memory;
    contention->shared->plan = plan;
    sem_init(&contention->shared->ready, 1, 0);
    for (int i = 0; i < plan->processes && code == SIMBA_OK; i++)
        code = bench_process_start(&contention->processes[i], run_party, contention->shared, error);
    for (int i = 0; i < plan->processes && code == SIMBA_OK; i++)
        code = bench_process_await(contention->processes, plan->processes,
                                   &contention->shared->ready, error);
    return code;
}

static void end_processes(struct contention *contention)
{
    for (int i = 0; i < contention->plan->processes; i++)
        bench_process_kill(&contention->processes[i]);
}

/* Who has given up takes no more turns, and would be measured as unfairness. */
static int check_processes(struct contention *contention, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int i = 0; i < contention->plan->processes && code == SIMBA_OK; i++)
        code = bench_process_check(&contention->processes[i], error);
    return code;
}

/* ---- The question ---------------------------------------------------------------------------- */

static double sum_turns(struct contention *contention)
{
    double sum = 0;

    for (int i = 0; i < contention->plan->contenders; i++)
        sum += atomic_load(&contention->shared->turns[i]);
    return sum;
}

/* The sum of the squares when as many turns are spread as evenly as can be. */
static double even_squares(double turns, double contenders)
{
    double few = (double)(int64_t)(turns / contenders);
    double with_one_more = turns - few * contenders;

    return with_one_more * (few + 1) * (few + 1) + (contenders - with_one_more) * few * few;
}

/* Jain's index, as a part of the best that so many turns allow: 1 when nobody had two more than
 * another. */
static void tell_fairness(struct contention *contention, struct bench_result *result)
{
    double sum = sum_turns(contention);
    double squares = 0;
    double least = INFINITY;
    double most = 0;

    for (int i = 0; i < contention->plan->contenders; i++) {
        double turns = atomic_load(&contention->shared->turns[i]);
        squares += turns * turns;
        least = turns < least ? turns : least;
        most = turns > most ? turns : most;
    }
    bench_result_number(result, "turns_least", "turns of who had the fewest", "", least);
    bench_result_number(result, "turns_most", "turns of who had the most", "", most);
    bench_result_number(result, "fairness", "fairness, 1: as even as can be", "",
                        sum > 0 ? even_squares(sum, contention->plan->contenders) / squares : NAN);
}

static int measure_by_hand(struct contention *contention, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (contention->by_hand.raw.handle == NULL)
        return SIMBA_OK;
    code = bench_by_hand_measure(&contention->by_hand, 0, &contention->handovers, error);
    contention->handovers.count = 0; /* it was for warming up */
    for (int i = 0; i < RAW_HANDOVERS && code == SIMBA_OK; i++)
        code = bench_by_hand_measure(&contention->by_hand, 0, &contention->handovers, error);
    if (code == SIMBA_OK)
        bench_samples_end_round(&contention->handovers);
    return code;
}

/* Each window is a round of its own, of the time that a hand-over takes on average. */
static void measure_windows(struct contention *contention, struct bench_result *result,
                            struct bench_samples *windows)
{
    const struct bench_plan *plan = contention->plan;
    double commands = bench_raw_counter(&contention->by_hand.raw);
    double begin = bench_now_us();

    atomic_store(&contention->shared->counting, true);
    for (int round = 0; round < plan->rounds; round++) {
        double turns = sum_turns(contention);
        double round_begin = bench_now_us();
        bench_sleep_ms(plan->window_ms);
        turns = sum_turns(contention) - turns;
        bench_samples_add(windows, (bench_now_us() - round_begin) / (turns > 0 ? turns : 1));
        bench_samples_end_round(windows);
    }
    atomic_store(&contention->shared->counting, false);
    double handovers = sum_turns(contention);
    double seconds = (bench_now_us() - begin) / 1e6;
    commands = bench_raw_counter(&contention->by_hand.raw) - commands;
    bench_result_number(result, "contenders", "contenders", "", plan->contenders);
    bench_result_number(result, "processes", "processes", "", plan->processes);
    bench_result_number(result, "handovers_per_second", "hand-overs per second", "/s",
                        handovers / seconds);
    bench_result_number(result, "commands_per_handover",
                        contention->by_hand.raw.handle != NULL &&
                                contention->by_hand.raw.ops->counter != NULL
                            ? contention->by_hand.raw.ops->counter_name
                            : "commands",
                        "per hand-over", handovers > 0 ? commands / handovers : NAN);
}

static int measure(struct contention *contention, struct bench_result *result,
                   struct simba_error *error)
{
    struct bench_samples windows = {0};
    int code = bench_samples_init(&windows, (size_t)contention->plan->rounds, error);

    if (code != SIMBA_OK)
        return code;
    measure_windows(contention, result, &windows);
    tell_fairness(contention, result);
    code = check_processes(contention, error);
    end_processes(contention);
    if (code == SIMBA_OK)
        code = measure_by_hand(contention, error);
    bench_result_measure(result, "simba", "a hand-over, on average of a window", "us", &windows);
    if (code == SIMBA_OK && contention->by_hand.raw.handle != NULL)
        bench_result_measure(result, "raw", contention->by_hand.raw.ops->ways[0].handover_label,
                             "us", &contention->handovers);
    bench_samples_free(&windows);
    return code;
}

int bench_contention(const struct bench_plan *plan, struct bench_result *result,
                     struct simba_error *error)
{
    struct contention contention = {.plan = plan};
    int code = bench_by_hand_start_waiter(&contention.by_hand, plan, error);

    if (code == SIMBA_OK)
        code = start_processes(&contention, error);
    if (code == SIMBA_OK)
        code = bench_plain_open(plan, &contention.by_hand.raw, error);
    if (code == SIMBA_OK)
        code = bench_samples_init(&contention.handovers, RAW_HANDOVERS, error);
    if (code == SIMBA_OK)
        code = measure(&contention, result, error);
    end_processes(&contention);
    bench_samples_free(&contention.handovers);
    bench_by_hand_close(&contention.by_hand);
    bench_shared_free(contention.shared, contention.shared_size);
    return code;
}
