/*
 * redis_raw.c - a Redis server of our own, and what is done on it by hand.
 */
#include "redis_raw.h"

#include <simba/simba.h>

#include <arpa/inet.h>
#include <pthread.h>
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

/* What the library says when these are told of it stands for whatever is called by hand. */
#define LEARNT_MUTEX "learnt-mutex"
#define LEARNT_ID "learnt-id"

#define ARGUMENTS_MAX 16
#define ARGUMENT_SIZE 128

static pid_t server;
static int port;
static char url[128];
static char trivial[ARGUMENT_SIZE];

/* A command of the library, word for word. */
struct learnt {
    char arguments[ARGUMENTS_MAX][ARGUMENT_SIZE];
    int count;
};

static struct learnt acquire;
static struct learnt release;
static char learnt_token[ARGUMENT_SIZE];

void end(const char *why)
{
    fprintf(stderr, "bench-redis: %s\n", why);
    if (server > 0)
        kill(server, SIGKILL);
    exit(1);
}

double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

void rest(void)
{
    pause_ms(3);
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

void server_start(void)
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

void server_stop(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

const char *server_url(void)
{
    return url;
}

redisContext *server_connect(void)
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

void server_forget(void)
{
    redisContext *raw = server_connect();

    ask(raw, "FLUSHALL");
    redisFree(raw);
}

static redisReply *demand(redisContext *raw, redisReply *reply)
{
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        end(reply != NULL ? reply->str : raw->errstr);
    return reply;
}

void ask(redisContext *raw, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    freeReplyObject(demand(raw, redisvCommand(raw, format, list)));
    va_end(list);
}

/* ---- Scripts -------------------------------------------------------------------------------- */

static void load_trivial(redisContext *raw)
{
    redisReply *reply = demand(
        raw,
        redisCommand(raw, "SCRIPT LOAD %s",
                     "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', "
                     "KEYS[1], ARGV[2]) end return 0"));

    snprintf(trivial, sizeof trivial, "%s", reply->str);
    freeReplyObject(reply);
    ask(raw, "SET raw id PX 600000");
}

/* A line of MONITOR: the time, the client, and the words of a command in quotes. */
static void take_words(const char *line, struct learnt *learnt)
{
    learnt->count = 0;
    while ((line = strchr(line, '"')) != NULL && learnt->count < ARGUMENTS_MAX) {
        const char *close = strchr(++line, '"');
        int length = close != NULL ? (int)(close - line) : 0;

        snprintf(learnt->arguments[learnt->count++], ARGUMENT_SIZE, "%.*s", length, line);
        line = close != NULL ? close + 1 : line;
    }
}

/* The next call of a script other than `other`. */
static void hear_script(redisContext *monitor, const struct learnt *other, struct learnt *learnt)
{
    for (;;) {
        redisReply *reply = NULL;

        if (redisGetReply(monitor, (void **)&reply) != REDIS_OK)
            end("MONITOR failed");
        take_words(reply->str, learnt);
        freeReplyObject(reply);
        if (strcmp(learnt->arguments[0], "EVALSHA") == 0 &&
            strcmp(learnt->arguments[1], other->arguments[1]) != 0)
            return;
    }
}

static void acquire_and_release_once(void)
{
    struct simba_error error;
    simba_client *client;
    simba_locker *locker;

    if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK ||
        simba_locker_create(client, LEARNT_MUTEX, LEARNT_ID, &locker, &error) != SIMBA_OK ||
        simba_locker_acquire(locker, &error) != SIMBA_OK)
        end(error.text);
    snprintf(learnt_token, sizeof learnt_token, "%llu",
             (unsigned long long)simba_locker_fence(locker));
    if (simba_locker_release(locker, &error) != SIMBA_OK)
        end(error.text);
    simba_locker_close(locker);
    simba_client_close(client, NULL);
}

void scripts_learn(redisContext *raw)
{
    redisContext *monitor = server_connect();

    load_trivial(raw);
    ask(monitor, "MONITOR");
    acquire_and_release_once();
    hear_script(monitor, &release, &acquire);
    hear_script(monitor, &acquire, &release);
    redisFree(monitor);
}

/* Puts a name of ours in place of the learnt one, in keys too. */
static void translate(const char *learnt, const char *mutex, const char *id, const char *token,
                      char text[ARGUMENT_SIZE])
{
    const char *name = strstr(learnt, LEARNT_MUTEX);

    if (name != NULL)
        snprintf(text, ARGUMENT_SIZE, "%.*s%.60s%s", (int)(name - learnt), learnt, mutex,
                 name + strlen(LEARNT_MUTEX));
    else if (strcmp(learnt, LEARNT_ID) == 0)
        snprintf(text, ARGUMENT_SIZE, "%s", id);
    else if (strcmp(learnt, learnt_token) == 0)
        snprintf(text, ARGUMENT_SIZE, "%s", token);
    else
        snprintf(text, ARGUMENT_SIZE, "%s", learnt);
}

/* The words are not what is measured, so they are made before. */
static struct learnt prepare(const struct learnt *learnt, const char *mutex, const char *id,
                             long long token)
{
    struct learnt words = {.count = learnt->count};
    char digits[32];

    snprintf(digits, sizeof digits, "%lld", token);
    for (int i = 0; i < learnt->count; i++)
        translate(learnt->arguments[i], mutex, id, digits, words.arguments[i]);
    return words;
}

static redisReply *say(redisContext *raw, const struct learnt *words)
{
    const char *arguments[ARGUMENTS_MAX];

    for (int i = 0; i < words->count; i++)
        arguments[i] = words->arguments[i];
    return demand(raw, redisCommandArgv(raw, words->count, arguments, NULL));
}

/* The token, or 0 when another one owns. */
static long long take_token(redisReply *reply)
{
    long long token = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;

    freeReplyObject(reply);
    return token;
}

void trivial_call(redisContext *raw)
{
    ask(raw, "EVALSHA %s 1 raw id 10000", trivial);
}

long long script_acquire(redisContext *raw, const char *mutex, const char *id)
{
    struct learnt words = prepare(&acquire, mutex, id, 0);

    return take_token(say(raw, &words));
}

void script_release(redisContext *raw, const char *mutex, const char *id, long long token)
{
    struct learnt words = prepare(&release, mutex, id, token);

    freeReplyObject(say(raw, &words));
}

double script_cycle_us(redisContext *raw, const char *mutex, const char *id)
{
    struct learnt words = prepare(&acquire, mutex, id, 0);
    double begin = now_us();
    long long token = take_token(say(raw, &words));
    double took = now_us() - begin;

    words = prepare(&release, mutex, id, token);
    begin = now_us();
    freeReplyObject(say(raw, &words));
    return took + now_us() - begin;
}

/* ---- Hand-over ------------------------------------------------------------------------------ */

#define MUTEX "by-hand"
#define CHANNEL "simba:{" MUTEX "}:waiter"

static pthread_t listener;
static sem_t heard;
static _Atomic double heard_at;
static _Atomic long long token_heard; /* 0: nothing was handed over */

/* The token that a message hands over; 0: none. */
static long long token_of_message(const char *text)
{
    static const char word[] = "@@handed@@";
    const char *found = strstr(text, word);

    return found != NULL ? strtoll(found + sizeof word - 1, NULL, 10) : 0;
}

/* The waiter: takes what it is handed, and says when it had it. */
static void *listen_for_release(void *argument)
{
    redisContext *subscription = server_connect();
    void *reply;

    (void)argument;
    ask(subscription, "SUBSCRIBE channel " CHANNEL);
    redisGetReply(subscription, &reply);
    freeReplyObject(reply);
    sem_post(&heard);
    while (redisGetReply(subscription, &reply) == REDIS_OK) {
        const redisReply *message = reply;
        bool last = strcmp(message->element[2]->str, "end") == 0;

        atomic_store(&token_heard, token_of_message(message->element[2]->str));
        atomic_store(&heard_at, now_us());
        freeReplyObject(reply);
        sem_post(&heard);
        if (last)
            break;
    }
    redisFree(subscription);
    return NULL;
}

void handover_open(void)
{
    sem_init(&heard, 0, 0);
    pthread_create(&listener, NULL, listen_for_release, NULL);
    sem_wait(&heard);
}

double handover_trivial_us(redisContext *raw)
{
    double begin;
    double published;

    rest();
    begin = now_us();
    ask(raw, "PUBLISH channel text");
    sem_wait(&heard);
    published = atomic_load(&heard_at) - begin;
    begin = now_us();
    trivial_call(raw);
    return published + now_us() - begin;
}

double handover_script_us(redisContext *raw)
{
    long long token = script_acquire(raw, MUTEX, "owner");
    struct learnt words = prepare(&release, MUTEX, "owner", token);
    double begin;

    if (script_acquire(raw, MUTEX, "waiter") != 0) /* takes its place in the queue */
        end("two own one mutex");
    rest();
    begin = now_us();
    freeReplyObject(say(raw, &words));
    sem_wait(&heard);
    if (atomic_load(&token_heard) == 0)
        end("the waiter was woken and did not get the mutex");
    script_release(raw, MUTEX, "waiter", atomic_load(&token_heard));
    return atomic_load(&heard_at) - begin;
}

void handover_close(redisContext *raw)
{
    ask(raw, "PUBLISH channel end");
    pthread_join(listener, NULL);
}
