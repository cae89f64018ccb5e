/*
 * redis.c - measures the library on Redis against what no client can beat, in the same run:
 *
 *     acquire + release of a free mutex    against two EVALSHA round trips of a blocking client
 *     hand-over to a waiter                against PUBLISH to a subscriber + one EVALSHA round trip
 *     10,000 mutexes held by one client    threads, connections, writes, losses over three renewals
 *
 *     bench-redis [--cores] [ROUNDS]
 *
 * It starts a server of its own. Everything is pinned to one core, so that code is compared with code and
 * not with the waking of halted cores, unless --cores is given.
 */
#include <simba/simba.h>

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUTEXES 10000
#define BLOCK 50 /* measurements before the other side has its turn */

static pid_t server;
static int port;
static char url[128];

static void end(const char *why)
{
    fprintf(stderr, "bench-redis: %s\n", why);
    if (server > 0)
        kill(server, SIGKILL);
    exit(1);
}

static void check(int code, const struct simba_error *error)
{
    if (code != SIMBA_OK)
        end(error->text);
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

/* ---- Samples -------------------------------------------------------------------------------- */

struct samples {
    double *us;
    size_t count;
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

static double at(struct samples *samples, double part)
{
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    return samples->us[(size_t)((double)(samples->count - 1) * part)];
}

static void print(const char *what, struct samples *samples)
{
    printf("%-52s p50 %7.1f us   p90 %7.1f us   p99 %7.1f us\n", what, at(samples, 0.5),
           at(samples, 0.9), at(samples, 0.99));
}

/* ---- The server ----------------------------------------------------------------------------- */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        end("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

static void start_server(void)
{
    char text[16];

    port = free_port();
    snprintf(text, sizeof text, "%d", port);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", text, "--save", "",
               "--appendonly", "no", "--logfile", "/dev/null", "--dir", "/tmp", NULL);
        _exit(121);
    }
}

static redisContext *connect_raw(void)
{
    for (int i = 0; i < 500; i++) {
        redisContext *raw = redisConnect("127.0.0.1", port);

        if (raw != NULL && raw->err == 0)
            return raw;
        redisFree(raw);
        pause_ms(10);
    }
    end("redis-server does not answer");
    return NULL;
}

static void ask(redisContext *raw, const char *format, ...)
{
    redisReply *reply;
    va_list list;

    va_start(list, format);
    reply = redisvCommand(raw, format, list);
    va_end(list);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        end(reply != NULL ? reply->str : raw->errstr);
    freeReplyObject(reply);
}

static void load(redisContext *raw, char sha1[41])
{
    redisReply *reply = redisCommand(
        raw, "SCRIPT LOAD %s",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], "
        "ARGV[2]) end return 0");

    if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        end("SCRIPT LOAD failed");
    snprintf(sha1, 41, "%s", reply->str);
    freeReplyObject(reply);
}

/* ---- A free mutex --------------------------------------------------------------------------- */

static void measure_free(redisContext *raw, const char *sha1, int rounds)
{
    struct samples theirs = {0};
    struct samples ours = {0};
    struct simba_error error;
    simba_client *client;
    simba_locker *locker;

    check(simba_client_open(url, NULL, &client, &error), &error);
    check(simba_locker_create(client, "free", NULL, &locker, &error), &error);
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < BLOCK; k++) {
            double begin = now_us();

            ask(raw, "EVALSHA %s 1 raw id 10000", sha1);
            ask(raw, "EVALSHA %s 1 raw id 10000", sha1);
            add(&theirs, now_us() - begin);
        }
        for (int k = 0; k < BLOCK; k++) {
            double begin = now_us();

            check(simba_locker_acquire(locker, &error), &error);
            check(simba_locker_release(locker, &error), &error);
            add(&ours, now_us() - begin);
        }
    }
    print("two EVALSHA round trips, blocking hiredis", &theirs);
    print("acquire + release through the locker", &ours);
    printf("%-52s %.2f (at most 1.6)\n\n", "ratio of the medians",
           at(&ours, 0.5) / at(&theirs, 0.5));
    simba_locker_close(locker);
    check(simba_client_close(client, &error), &error);
}

/* ---- Hand-over ------------------------------------------------------------------------------ */

static _Atomic double heard_at;
static sem_t heard;

static void *hear(void *argument)
{
    redisContext *raw = connect_raw();
    void *reply;

    (void)argument;
    ask(raw, "SUBSCRIBE channel");
    sem_post(&heard);
    while (redisGetReply(raw, &reply) == REDIS_OK) {
        bool last = strcmp(((redisReply *)reply)->element[2]->str, "end") == 0;

        atomic_store(&heard_at, now_us());
        freeReplyObject(reply);
        sem_post(&heard);
        if (last)
            break;
    }
    redisFree(raw);
    return NULL;
}

/* As rested as the waiter is when the owner releases. */
static void rest(void)
{
    pause_ms(3);
}

static void measure_publish(redisContext *raw, const char *sha1, struct samples *theirs)
{
    double begin;
    double published;

    rest();
    begin = now_us();
    ask(raw, "PUBLISH channel text");
    sem_wait(&heard);
    published = atomic_load(&heard_at) - begin;
    begin = now_us();
    ask(raw, "EVALSHA %s 1 raw id 10000", sha1);
    add(theirs, published + now_us() - begin);
}

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

static void measure_hand_over(redisContext *raw, const char *sha1, int rounds)
{
    struct samples theirs = {0};
    struct samples ours = {0};
    struct turn turn = {0};
    struct simba_error error;
    simba_client *clients[2];
    simba_locker *owner;
    pthread_t ear;
    pthread_t thread;

    sem_init(&heard, 0, 0);
    pthread_create(&ear, NULL, hear, NULL);
    sem_wait(&heard);
    check(simba_client_open(url, NULL, &clients[0], &error), &error);
    check(simba_client_open(url, NULL, &clients[1], &error), &error);
    check(simba_locker_create(clients[0], "over", "owner", &owner, &error), &error);
    check(simba_locker_create(clients[1], "over", "waiter", &turn.locker, &error), &error);
    sem_init(&turn.may_wait, 0, 0);
    sem_init(&turn.has_it, 0, 0);
    pthread_create(&thread, NULL, take_turns, &turn);
    for (int i = 0; i < rounds; i++) {
        double begin;

        measure_publish(raw, sha1, &theirs);
        check(simba_locker_acquire(owner, &error), &error);
        sem_post(&turn.may_wait);
        await_waiter(raw);
        rest(); /* the waiter has looked once more after its subscription */
        begin = now_us();
        check(simba_locker_release(owner, &error), &error);
        sem_wait(&turn.has_it);
        add(&ours, atomic_load(&turn.got_at) - begin);
        check(simba_locker_release(turn.locker, &error), &error);
    }
    print("PUBLISH to a subscriber + one EVALSHA, hiredis", &theirs);
    print("hand-over: release called to acquire returned", &ours);
    printf("%-52s %.2f (at most 1.5)\n\n", "ratio of the medians",
           at(&ours, 0.5) / at(&theirs, 0.5));
    ask(raw, "PUBLISH channel end");
    pthread_join(ear, NULL);
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

    snprintf(long_url, sizeof long_url, "%s?client-name=many&ttl=5s&transition=5s", url);
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
    char sha1[41];
    cpu_set_t core;

    signal(SIGPIPE, SIG_IGN);
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    if (one_core && sched_setaffinity(0, sizeof core, &core) != 0)
        end(strerror(errno));
    start_server();
    raw = connect_raw();
    load(raw, sha1);
    ask(raw, "SET raw id PX 600000");
    printf("%s\n\n", one_core ? "all on one core" : "on all cores");
    measure_free(raw, sha1, rounds > 0 ? rounds : 60);
    measure_hand_over(raw, sha1, rounds > 0 ? rounds : 200);
    measure_many(raw);
    redisFree(raw);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
