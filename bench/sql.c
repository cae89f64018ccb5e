/*
 * sql.c - measures the library on an SQL store against what no client can beat, in the same run:
 *
 *     acquire + release of a free mutex       against two committed UPDATEs of one row
 *     hand-over to a waiter's process         against NOTIFY + one committed UPDATE (PostgreSQL), or the
 *                                             poll interval + two of them (MySQL)
 *     10,000 mutexes held by one client       time, commits, connections and losses over three renewals
 *
 *     bench-sql URL [pair | handover | many] [COUNT]
 *
 * To compare code with code, both sides are pinned to one core: `taskset -a -p 1 PID` for the server's processes
 * and `taskset -c 0 bench-sql ...`. Waking another core costs more than a statement on some machines.
 *
 * The server must be running. The user needs the rights of an owner of the table, and to see the server's
 * counters.
 */
#include "raw.h"

#include <simba/simba.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 20 /* measurements before the other side has its turn */
#define RENEWALS 3

static const char *url;

static void check(int code, const struct simba_error *error)
{
    if (code == SIMBA_OK)
        return;
    fprintf(stderr, "bench-sql: %s\n", error->text);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static simba_client *open_client(const char *options)
{
    char text[4096];
    struct simba_error error;
    simba_client *client = NULL;

    snprintf(text, sizeof text, "%s%c%s", url, strchr(url, '?') != NULL ? '&' : '?', options);
    check(simba_client_open(text, NULL, &client, &error), &error);
    return client;
}

/* ---- Samples -------------------------------------------------------------------------------- */

struct samples {
    double *us;
    size_t count;
};

static void add(struct samples *samples, double us)
{
    samples->us = realloc(samples->us, (samples->count + 1) * sizeof *samples->us);
    if (samples->us == NULL)
        exit(1);
    samples->us[samples->count++] = us;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static double percentile(struct samples *samples, double part)
{
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    return samples->us[(size_t)(part * (double)(samples->count - 1))];
}

static void print(const char *what, struct samples *samples)
{
    printf("  %-44s p50 %8.0f us   p99 %8.0f us\n", what, percentile(samples, 0.5),
           percentile(samples, 0.99));
}

/* ---- Acquire and release of a free mutex ---------------------------------------------------- */

static int cores(void)
{
    cpu_set_t allowed;

    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

static double time_of_library(simba_locker *locker)
{
    struct simba_error error;
    double began = now_us();

    check(simba_locker_acquire(locker, &error), &error);
    check(simba_locker_release(locker, &error), &error);
    return now_us() - began;
}

static double time_of_updates(struct raw *raw)
{
    double began = now_us();

    raw_update(raw);
    raw_update(raw);
    return now_us() - began;
}

/* Both sides have their turn within a few milliseconds, so that what else the machine does concerns both. */
static double ratio_of_block(struct raw *raw, simba_locker *locker, struct samples *ours,
                             struct samples *theirs)
{
    struct samples here = {NULL, 0};
    struct samples there = {NULL, 0};
    double ratio;

    for (int i = 0; i < BLOCK; i++)
        add(&here, time_of_library(locker));
    for (int i = 0; i < BLOCK; i++)
        add(&there, time_of_updates(raw));
    for (int i = 0; i < BLOCK; i++) {
        add(ours, here.us[i]);
        add(theirs, there.us[i]);
    }
    ratio = percentile(&here, 0.5) / percentile(&there, 0.5);
    free(here.us);
    free(there.us);
    return ratio;
}

static void measure_pair(struct raw *raw, int rounds)
{
    simba_client *client = open_client("");
    struct samples ours = {NULL, 0};
    struct samples theirs = {NULL, 0};
    struct samples ratios = {NULL, 0};
    struct samples warm_up = {NULL, 0};
    struct simba_error error;
    simba_locker *locker = NULL;

    check(simba_locker_create(client, "bench-pair", NULL, &locker, &error), &error);
    ratio_of_block(raw, locker, &warm_up, &warm_up);
    for (int done = 0; done < rounds; done += 2 * BLOCK)
        add(&ratios, ratio_of_block(raw, locker, &ours, &theirs));
    printf("acquire + release of a free mutex, on %d core(s)\n", cores());
    print("the library", &ours);
    print("two committed UPDATEs", &theirs);
    printf("  ratio of the medians %.2f; of blocks of %d each: p25 %.2f p50 %.2f p75 %.2f\n",
           percentile(&ours, 0.5) / percentile(&theirs, 0.5), BLOCK, percentile(&ratios, 0.25),
           percentile(&ratios, 0.5), percentile(&ratios, 0.75));
    free(warm_up.us);
    simba_locker_close(locker);
    check(simba_client_close(client, &error), &error);
}

/* ---- Hand-over between two processes -------------------------------------------------------- */

struct shared {
    atomic_int round; /* the waiter has this one, or waits for it */
    double acquired_us;
};

/* Waits for the mutex, tells when it had it, gives it back. */
static void wait_in_turns(struct shared *shared, int rounds)
{
    simba_client *client = open_client("");
    struct simba_error error;
    simba_locker *locker = NULL;

    check(simba_locker_create(client, "bench-handover", NULL, &locker, &error), &error);
    for (int round = 1; round <= rounds; round++) {
        while (atomic_load(&shared->round) != 2 * round - 1)
            pause_ms(1);
        check(simba_locker_acquire(locker, &error), &error);
        shared->acquired_us = now_us();
        check(simba_locker_release(locker, &error), &error);
        atomic_store(&shared->round, 2 * round);
    }
    simba_locker_close(locker);
    check(simba_client_close(client, &error), &error);
}

static void measure_handover(struct raw *raw, int rounds)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct samples ours = {NULL, 0};
    struct samples floor = {NULL, 0};
    struct simba_error error;
    simba_locker *locker = NULL;
    simba_client *client;
    pid_t waiter = fork();

    if (waiter == 0) {
        wait_in_turns(shared, rounds);
        exit(0);
    }
    client = open_client("");
    check(simba_locker_create(client, "bench-handover", NULL, &locker, &error), &error);
    for (int round = 1; round <= rounds; round++) {
        double released;

        check(simba_locker_acquire(locker, &error), &error);
        atomic_store(&shared->round, 2 * round - 1);
        pause_ms(300 + 37 * round % 200); /* the waiter waits, and looks at any moment */
        released = now_us();
        check(simba_locker_release(locker, &error), &error);
        while (atomic_load(&shared->round) != 2 * round)
            pause_ms(1);
        add(&ours, shared->acquired_us - released);
        pause_ms(300); /* as rested as the waiter is when the owner releases */
        add(&floor, raw_handover_us(raw));
    }
    waitpid(waiter, NULL, 0);
    printf("hand-over to a waiter in another process\n");
    print("release() to acquire() returned", &ours);
    print(raw_handover_name(raw), &floor);
    printf("  ratio of the medians %.2f\n", percentile(&ours, 0.5) / percentile(&floor, 0.5));
    simba_locker_close(locker);
    check(simba_client_close(client, &error), &error);
}

/* ---- Many mutexes --------------------------------------------------------------------------- */

static void start_all(simba_client *client, simba_contender **contenders, int count)
{
    for (int i = 0; i < count; i++) {
        struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        struct simba_error error;
        char name[32];

        snprintf(name, sizeof name, "bench-%d", i);
        options.mutex = name;
        check(simba_contender_create(client, &options, &contenders[i], &error), &error);
        check(simba_contender_start(contenders[i], &error), &error);
    }
}

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = {.size = sizeof metrics};

    simba_client_metrics(client, &metrics);
    return metrics;
}

static void measure_many(struct raw *raw, int count)
{
    simba_client *client = open_client("ttl=10s&transition=6s");
    simba_contender **contenders = calloc((size_t)count, sizeof *contenders);
    double began = now_us();
    double held;
    double released;
    long long commits;

    if (contenders == NULL)
        exit(1);
    start_all(client, contenders, count);
    while (metrics_of(client).owned < (uint64_t)count)
        pause_ms(10);
    held = now_us();
    commits = raw_commits(raw);
    while (metrics_of(client).renewals < (uint64_t)count * RENEWALS)
        pause_ms(50);
    commits = raw_commits(raw) - commits;
    printf("%d mutexes held by one client through %d renewals\n", count, RENEWALS);
    printf("  all acquired after %.1f s; lost %llu, errors %llu\n", (held - began) / 1e6,
           (unsigned long long)metrics_of(client).losses,
           (unsigned long long)metrics_of(client).errors);
    printf("  %.1f commits per second, %lld connections\n",
           (double)commits / ((now_us() - held) / 1e6), raw_connections(raw));
    released = now_us();
    for (int i = 0; i < count; i++)
        simba_contender_close(contenders[i]);
    printf("  all released after %.1f s\n", (now_us() - released) / 1e6);
    free(contenders);
    check(simba_client_close(client, NULL), &(struct simba_error){.text = "cannot close"});
}

struct part {
    const char *name;
    void (*measure)(struct raw *raw, int count);
    int count; /* where the command line gives none */
};

static const struct part parts[] = {
    {"pair", measure_pair, 1000},
    {"handover", measure_handover, 40},
    {"many", measure_many, 10000},
};

static void measure(struct raw *raw, int count, char **arguments)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (count < 3 || strcmp(arguments[2], parts[i].name) == 0)
            parts[i].measure(raw, count > 3 ? atoi(arguments[3]) : parts[i].count);
}

int main(int count, char **arguments)
{
    struct raw *raw;

    if (count < 2) {
        fprintf(stderr, "usage: bench-sql URL [pair | handover | many] [COUNT]\n");
        return 64;
    }
    url = arguments[1];
    check(simba_client_close(open_client(""), NULL), &(struct simba_error){.text = "cannot close"});
    raw = raw_open(url);
    if (raw == NULL) {
        fprintf(stderr, "bench-sql: the server cannot be measured directly\n");
        return 69;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    measure(raw, count, arguments);
    raw_close(raw);
    return 0;
}
