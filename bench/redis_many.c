/*
 * redis_many.c - what many mutexes cost one client: time to lead them all, memory, processor, threads,
 * connections, writes, losses. One process for each number of them, so that memory is counted from the start.
 */
#include "redis_raw.h"

#include <simba/simba.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TTL_MS 10000
#define RENEWALS 2

static void check(int code, const struct simba_error *error)
{
    if (code != SIMBA_OK)
        end(error->text);
}

/* ---- What the process costs ----------------------------------------------------------------- */

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

static double processor_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static long count_connections(void)
{
    redisContext *raw = server_connect();
    redisReply *reply = redisCommand(raw, "CLIENT LIST");
    long count = 0;

    for (const char *c = reply->str; (c = strstr(c, " name=many ")) != NULL; c++)
        count++;
    freeReplyObject(reply);
    redisFree(raw);
    return count;
}

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = {.size = sizeof metrics};

    simba_client_metrics(client, &metrics);
    return metrics;
}

/* ---- Holding them --------------------------------------------------------------------------- */

/* They have callbacks, as those of an application do. */
static void on_change(void *user, const struct simba_state *state)
{
    (void)user;
    (void)state;
}

static void lead(simba_client *client, int from, int to)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    simba_contender *contender;
    char mutex[32];

    options.mutex = mutex;
    options.on_acquired = on_change;
    options.on_released = on_change;
    for (int i = from; i < to; i++) {
        snprintf(mutex, sizeof mutex, "many-%d", i);
        check(simba_contender_create(client, &options, &contender, &error), &error);
        check(simba_contender_start(contender, &error), &error);
    }
    while (metrics_of(client).owned < (uint64_t)to)
        pause_ms(1);
}

static void await_renewals(simba_client *client, uint64_t count)
{
    while (metrics_of(client).renewals < count && metrics_of(client).losses == 0)
        pause_ms(50);
}

/* The process ends with its mutexes held: what is measured is their life, not their end. */
static void hold(int count)
{
    struct simba_error error;
    simba_client *client;
    char url[192];
    double begin;
    double led_ms;
    double used_us;
    long empty_kb;
    long writes;

    snprintf(url, sizeof url, "%s?client-name=many&ttl=%dms&transition=6s", server_url(), TTL_MS);
    check(simba_client_open(url, NULL, &client, &error), &error);
    lead(client, 0, 1);
    empty_kb = proc_number("/proc/self/status", "VmRSS:");
    begin = now_us();
    lead(client, 1, count);
    led_ms = (now_us() - begin) / 1000;
    begin = now_us();
    used_us = processor_us();
    writes = proc_number("/proc/self/io", "syscw:");
    await_renewals(client, (uint64_t)count * RENEWALS);
    printf("%7d %9.0f %7.0f %9ld %9.1f %8ld %8ld %6ld %5llu\n", count, led_ms,
           (double)(proc_number("/proc/self/status", "VmRSS:") - empty_kb) * 1024 / count,
           proc_number("/proc/self/status", "VmHWM:"),
           100 * (processor_us() - used_us) / (now_us() - begin),
           (proc_number("/proc/self/io", "syscw:") - writes) / RENEWALS,
           proc_number("/proc/self/status", "Threads:"), count_connections(),
           (unsigned long long)metrics_of(client).losses);
    fflush(stdout);
    _exit(0);
}

void measure_many(const int *counts, size_t size)
{
    printf("held by one client, ttl %d ms, transition 6000 ms, through %d renewals\n", TTL_MS,
           RENEWALS);
    printf("%7s %9s %7s %9s %9s %8s %8s %6s %5s\n", "mutexes", "led in ms", "B each", "peak kB",
           "% of core", "writes", "threads", "conns", "lost");
    for (size_t i = 0; i < size; i++) {
        pid_t child;
        int status;

        server_forget();
        fflush(stdout);
        child = fork();
        if (child == 0)
            hold(counts[i]);
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
            end("a process that held mutexes failed");
    }
}
