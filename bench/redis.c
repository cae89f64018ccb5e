/*
 * redis.c - measures the library on Redis against what no client can beat, in the same run:
 *
 *     acquire + release of a free mutex    against two calls of a script by a blocking client
 *     hand-over to a waiter                against PUBLISH to a subscriber + one call of a script
 *     10,000 mutexes held by one client    threads, connections, writes, losses over three renewals
 *
 * The first two also against the library's own scripts, called by a blocking client.
 *
 *     bench-redis [--cores] [ROUNDS]
 *
 * It starts a server of its own. Everything is pinned to one core, so that code is compared with code and
 * not with the waking of halted cores, unless --cores is given.
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

#define MUTEXES 10000
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
    printf("%-50s %.2f to the first (at most %.2f), %.2f to the second\n\n", "ratio of the medians",
           at(ours, 0.5) / at(trivial, 0.5), bar, at(ours, 0.5) / at(by_hand, 0.5));
}

/* ---- A free mutex --------------------------------------------------------------------------- */

static void call_trivial_twice(redisContext *raw)
{
    trivial_call(raw);
    trivial_call(raw);
}

static void cycle_by_hand(redisContext *raw)
{
    script_release(raw, "hand", "id", script_acquire(raw, "hand", "id"));
}

static void measure_block(void (*cycle)(redisContext *raw), redisContext *raw,
                          struct samples *samples)
{
    for (int i = 0; i < BLOCK; i++) {
        double begin = now_us();

        cycle(raw);
        add(samples, now_us() - begin);
    }
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
        measure_block(call_trivial_twice, raw, &trivial);
        measure_block(cycle_by_hand, raw, &by_hand);
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
    print("release + acquire of the waiter by hand, hiredis", &by_hand);
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

/* ---- Many mutexes --------------------------------------------------------------------------- */

static long proc_number(const char *file, const char *field)
{
    FILE *stream = fopen(file, "re");
    char line[256];
    long value = -1;

    while (stream != NULL && fgets(line, sizeof line, stream) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    if (stream != NULL)
        fclose(stream);
    return value;
}

static long count_connections(redisContext *raw)
{
    redisReply *reply = redisCommand(raw, "CLIENT LIST");
    long count = 0;

    for (const char *c = reply->str; (c = strstr(c, " name=many ")) != NULL; c++)
        count++;
    freeReplyObject(reply);
    return count;
}

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = {.size = sizeof metrics};

    simba_client_metrics(client, &metrics);
    return metrics;
}

static void await_renewals(simba_client *client, uint64_t count)
{
    while (metrics_of(client).renewals < count)
        pause_ms(1);
}

static void measure_many(redisContext *raw)
{
    static simba_contender *contenders[MUTEXES];
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    char long_url[192];
    char mutex[32];
    simba_client *client;
    double begin;
    long writes;

    snprintf(long_url, sizeof long_url, "%s?client-name=many&ttl=5s&transition=5s", server_url());
    check(simba_client_open(long_url, NULL, &client, &error), &error);
    options.mutex = mutex;
    begin = now_us();
    for (int i = 0; i < MUTEXES; i++) {
        snprintf(mutex, sizeof mutex, "many-%d", i);
        check(simba_contender_create(client, &options, &contenders[i], &error), &error);
        check(simba_contender_start(contenders[i], &error), &error);
    }
    while (metrics_of(client).owned < MUTEXES)
        pause_ms(1);
    printf("%d mutexes led after %.0f ms\n", MUTEXES, (now_us() - begin) / 1000);
    for (int turn = 1; turn <= 3; turn++) {
        writes = proc_number("/proc/self/io", "syscw:");
        await_renewals(client, (uint64_t)turn * MUTEXES);
        printf("renewal %d: %ld write calls of the process\n", turn,
               proc_number("/proc/self/io", "syscw:") - writes);
    }
    printf("lost %llu, threads %ld, connections %ld, RSS %ld kB\n",
           (unsigned long long)metrics_of(client).losses,
           proc_number("/proc/self/status", "Threads:"), count_connections(raw),
           proc_number("/proc/self/status", "VmRSS:"));
    for (int i = 0; i < MUTEXES; i++)
        simba_contender_close(contenders[i]);
    check(simba_client_close(client, &error), &error);
}

int main(int argc, char **argv)
{
    bool one_core = argc < 2 || strcmp(argv[1], "--cores") != 0;
    int rounds = argc > 1 ? atoi(argv[argc - 1]) : 0;
    redisContext *raw;
    cpu_set_t core;

    signal(SIGPIPE, SIG_IGN);
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    if (one_core && sched_setaffinity(0, sizeof core, &core) != 0)
        end(strerror(errno));
    server_start();
    raw = server_connect();
    scripts_learn(raw);
    printf("%s\n\n", one_core ? "all on one core" : "on all cores");
    measure_free(raw, rounds > 0 ? rounds : 60);
    measure_hand_over(raw, rounds > 0 ? rounds : 200);
    measure_many(raw);
    redisFree(raw);
    server_stop();
    return 0;
}
