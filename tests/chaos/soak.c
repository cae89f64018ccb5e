/*
 * soak.c - a process that contends for many mutexes for a long time, and tells what it uses.
 *
 *     chaos-soak NAME URL JOURNAL COUNT        until SIGTERM; SIGUSR1 tells
 *
 * Now and then it stops some contenders and starts them again, so that mutexes go to and fro
 * between processes.
 */
#include "census.h"
#include "journal.h"

#include <simba/simba.h>

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define TURN_MS 50
#define MUTEX_SIZE 32

struct soak {
    simba_client *client;
    simba_contender **contenders;
    int count;
    unsigned seed;
};

static bool open_client(struct soak *soak, const char *url)
{
    struct simba_error error;

    if (simba_client_open(url, NULL, &soak->client, &error) == SIMBA_OK)
        return true;
    journal_write("broken %s", error.text);
    return false;
}

static bool start_all(struct soak *soak)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    char mutex[MUTEX_SIZE];

    options.mutex = mutex;
    for (int i = 0; i < soak->count; i++) {
        snprintf(mutex, sizeof mutex, "soak-%04d", i);
        if (simba_contender_create(soak->client, &options, &soak->contenders[i], &error) !=
                SIMBA_OK ||
            simba_contender_start(soak->contenders[i], &error) != SIMBA_OK) {
            journal_write("broken %s", error.text);
            return false;
        }
    }
    return true;
}

/* One gives way to a waiter; it may have to wait for the store, and then the others wait for their
 * turn. */
static void shuffle(struct soak *soak)
{
    simba_contender *contender = soak->contenders[rand_r(&soak->seed) % soak->count];

    simba_contender_stop(contender, NULL);
    simba_contender_start(contender, NULL);
}

static long resident_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long size = 0;
    long resident = 0;

    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &size, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void tell(struct soak *soak)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct census census = census_take();

    simba_client_metrics(soak->client, &metrics);
    journal_write("use %ld %zu %d %d %llu %llu %llu", resident_kb(), mallinfo2().uordblks / 1024,
                  census.descriptors, census.threads, (unsigned long long)metrics.owned,
                  (unsigned long long)metrics.losses, (unsigned long long)metrics.errors);
}

static void live(struct soak *soak, const sigset_t *signals)
{
    const struct timespec pause = {0, TURN_MS * 1000000L};
    int got = 0;

    while (got != SIGTERM) {
        got = sigtimedwait(signals, NULL, &pause);
        if (got == SIGUSR1)
            tell(soak);
        else if (got != SIGTERM)
            shuffle(soak);
    }
}

static void close_all(struct soak *soak)
{
    for (int i = 0; i < soak->count; i++)
        simba_contender_close(soak->contenders[i]);
    if (simba_client_close(soak->client, NULL) != SIMBA_OK)
        journal_write("broken the client cannot be closed");
}

int main(int argc, char **argv)
{
    struct soak soak = {.seed = (unsigned)getpid()};
    sigset_t signals;

    if (argc != 5)
        return 64;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    journal_open(argv[3]);
    soak.count = atoi(argv[4]);
    soak.contenders = calloc((size_t)soak.count, sizeof(simba_contender *));
    if (soak.contenders == NULL || !open_client(&soak, argv[2]) || !start_all(&soak))
        return 1;
    journal_write("opened");
    live(&soak, &signals);
    close_all(&soak);
    free(soak.contenders);
    return 0;
}
