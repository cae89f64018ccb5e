/*
 * redis.c - measures the library on Redis against what no client can beat, in the same run:
 *
 *     acquire + release of a free mutex    against two calls of a script by a blocking client
 *     hand-over to a waiter                against PUBLISH to a subscriber + one call of a script
 *     100 to 100,000 mutexes, one client   time, memory, processor, threads, connections, losses
 *
 * The first two have two things to be compared with: a trivial script (get, compare, set the expiry), and the
 * library's own scripts, which cost the server more, called by a blocking client.
 *
 *     bench-redis [--cores] [--many COUNT | ROUNDS]
 *
 * It starts a server of its own. Everything is pinned to one core, so that code is compared with code and
 * not with the waking of halted cores, unless --cores is given. With --many it only holds that many mutexes.
 */
#include "redis_raw.h"

#include <simba/simba.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 50 /* measurements of one side before the next has its turn */

static void check(int code, const struct simba_error *error)
{
    if (code != SIMBA_OK)
        end(error->text);
}

/* ---- Samples -------------------------------------------------------------------------------- */

struct samples {
    double *us;
    size_t count;
    size_t block; /* where the last block begins */
    double least; /* median of a block */
    double most;
};

static void add(struct samples *samples, double us)
{
    samples->us = realloc(samples->us, (samples->count + 1) * sizeof *samples->us);
    if (samples->us == NULL)
        end("out of memory");
    samples->us[samples->count++] = us;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* The machine is shared, so the medians of single blocks are of interest too. Sorts the block. */
static void end_block(struct samples *samples)
{
    double *first = samples->us + samples->block;
    size_t count = samples->count - samples->block;
    double median;

    qsort(first, count, sizeof *first, compare);
    median = first[count / 2];
    samples->least = samples->block == 0 || median < samples->least ? median : samples->least;
    samples->most = median > samples->most ? median : samples->most;
    samples->block = samples->count;
}

static double at(struct samples *samples, double part)
{
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    return samples->us[(size_t)((double)(samples->count - 1) * part)];
}

static void print(const char *what, struct samples *samples)
{
    printf("%-50s p50 %6.1f us (blocks %6.1f to %6.1f)  p90 %6.1f us  p99 %6.1f us\n", what,
           at(samples, 0.5), samples->least, samples->most, at(samples, 0.9), at(samples, 0.99));
}

/* The medians of one sort of samples beside those of what it is compared with. */
static void print_ratio(struct samples *ours, struct samples *trivial, double bar,
                        struct samples *by_hand)
{
    printf("%-50s %.2f x the trivial script (bar %.2f), %.2f x the same scripts\n",
           "ratio of the medians", at(ours, 0.5) / at(trivial, 0.5), bar,
           at(ours, 0.5) / at(by_hand, 0.5));
    printf("%-50s %.2f x the trivial script, %.2f x the same scripts\n\n",
           "ratio of the best blocks", ours->least / trivial->least, ours->least / by_hand->least);
}

/* ---- A free mutex --------------------------------------------------------------------------- */

static double trivial_twice_us(redisContext *raw)
{
    double begin = now_us();

    trivial_call(raw);
    trivial_call(raw);
    return now_us() - begin;
}

static double cycle_by_hand_us(redisContext *raw)
{
    return script_cycle_us(raw, "hand", "id");
}

static void measure_block(double (*cycle_us)(redisContext *raw), redisContext *raw,
                          struct samples *samples)
{
    for (int i = 0; i < BLOCK; i++)
        add(samples, cycle_us(raw));
    end_block(samples);
}

static void measure_locker(simba_locker *locker, struct samples *samples)
{
    struct simba_error error;

    for (int i = 0; i < BLOCK; i++) {
        double begin = now_us();

        check(simba_locker_acquire(locker, &error), &error);
        check(simba_locker_release(locker, &error), &error);
        add(samples, now_us() - begin);
    }
    end_block(samples);
}

static void measure_free(redisContext *raw, int rounds)
{
    struct samples trivial = {0};
    struct samples by_hand = {0};
    struct samples ours = {0};
    struct simba_error error;
    simba_client *client;
    simba_locker *locker;

    check(simba_client_open(server_url(), NULL, &client, &error), &error);
    check(simba_locker_create(client, "free", NULL, &locker, &error), &error);
    for (int i = 0; i < rounds; i++) {
        measure_block(trivial_twice_us, raw, &trivial);
        measure_block(cycle_by_hand_us, raw, &by_hand);
        measure_locker(locker, &ours);
    }
    print("two calls of a trivial script, blocking hiredis", &trivial);
    print("acquire + release scripts, blocking hiredis", &by_hand);
    print("acquire + release through the locker", &ours);
    print_ratio(&ours, &trivial, 1.6, &by_hand);
    simba_locker_close(locker);
    check(simba_client_close(client, &error), &error);
}

/* ---- Hand-over ------------------------------------------------------------------------------ */

struct turn {
    simba_locker *locker;
    sem_t may_wait;
    sem_t has_it;
    _Atomic double got_at;
    _Atomic bool stop;
};

static void *take_turns(void *argument)
{
    struct turn *turn = argument;
    struct simba_error error;

    for (;;) {
        sem_wait(&turn->may_wait);
        if (atomic_load(&turn->stop))
            return NULL;
        check(simba_locker_acquire(turn->locker, &error), &error);
        atomic_store(&turn->got_at, now_us());
        sem_post(&turn->has_it);
    }
}

static void await_waiter(redisContext *raw)
{
    for (;;) {
        redisReply *reply = redisCommand(raw, "PUBSUB NUMSUB simba:{over}:waiter");
        bool there = reply->element[1]->integer == 1;

        freeReplyObject(reply);
        reply = redisCommand(raw, "ZCARD simba:{over}:contender");
        there = there && reply->integer == 1;
        freeReplyObject(reply);
        if (there)
            return;
        pause_ms(1);
    }
}

static double hand_over_us(redisContext *raw, simba_locker *owner, struct turn *turn)
{
    struct simba_error error;
    double begin;
    double took;

    check(simba_locker_acquire(owner, &error), &error);
    sem_post(&turn->may_wait);
    await_waiter(raw);
    rest(); /* the waiter has looked once more after its subscription */
    begin = now_us();
    check(simba_locker_release(owner, &error), &error);
    sem_wait(&turn->has_it);
    took = atomic_load(&turn->got_at) - begin;
    check(simba_locker_release(turn->locker, &error), &error);
    return took;
}

static void measure_hand_overs(redisContext *raw, simba_locker *owner, struct turn *turn,
                               int rounds)
{
    struct samples trivial = {0};
    struct samples by_hand = {0};
    struct samples ours = {0};

    handover_open();
    for (int i = 1; i <= rounds; i++) {
        add(&trivial, handover_trivial_us(raw));
        add(&by_hand, handover_script_us(raw));
        add(&ours, hand_over_us(raw, owner, turn));
        if (i % BLOCK == 0 || i == rounds) {
            end_block(&trivial);
            end_block(&by_hand);
            end_block(&ours);
        }
    }
    handover_close(raw);
    print("PUBLISH to a subscriber + trivial script, hiredis", &trivial);
    print("release by hand until the waiter is told, hiredis", &by_hand);
    print("hand-over: release called to acquire returned", &ours);
    print_ratio(&ours, &trivial, 1.5, &by_hand);
}

static void measure_hand_over(redisContext *raw, int rounds)
{
    struct turn turn = {0};
    struct simba_error error;
    simba_client *clients[2];
    simba_locker *owner;
    pthread_t thread;

    check(simba_client_open(server_url(), NULL, &clients[0], &error), &error);
    check(simba_client_open(server_url(), NULL, &clients[1], &error), &error);
    check(simba_locker_create(clients[0], "over", "owner", &owner, &error), &error);
    check(simba_locker_create(clients[1], "over", "waiter", &turn.locker, &error), &error);
    sem_init(&turn.may_wait, 0, 0);
    sem_init(&turn.has_it, 0, 0);
    pthread_create(&thread, NULL, take_turns, &turn);
    measure_hand_overs(raw, owner, &turn, rounds);
    atomic_store(&turn.stop, true);
    sem_post(&turn.may_wait);
    pthread_join(thread, NULL);
    simba_locker_close(owner);
    simba_locker_close(turn.locker);
    check(simba_client_close(clients[0], &error), &error);
    check(simba_client_close(clients[1], &error), &error);
}

static void measure_times(int rounds)
{
    redisContext *raw = server_connect();

    scripts_learn(raw);
    measure_free(raw, rounds > 0 ? rounds : 60);
    measure_hand_over(raw, rounds > 0 ? rounds : 200);
    redisFree(raw);
}

static void pin_to_one_core(void)
{
    cpu_set_t core;

    CPU_ZERO(&core);
    CPU_SET(0, &core);
    if (sched_setaffinity(0, sizeof core, &core) != 0)
        end(strerror(errno));
}

int main(int argc, char **argv)
{
    static const int counts[] = {100, 1000, 10000, 100000};
    bool all_cores = argc > 1 && strcmp(argv[1], "--cores") == 0;
    bool only_many = argc > 2 && strcmp(argv[argc - 2], "--many") == 0;
    int number = argc > 1 ? atoi(argv[argc - 1]) : 0;

    signal(SIGPIPE, SIG_IGN);
    if (!all_cores)
        pin_to_one_core();
    server_start();
    printf("%s\n\n", all_cores ? "on all cores" : "all on one core");
    if (only_many) {
        measure_many(&number, 1);
    } else {
        measure_times(number);
        measure_many(counts, sizeof counts / sizeof counts[0]);
    }
    server_stop();
    return 0;
}
