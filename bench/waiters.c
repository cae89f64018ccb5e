/*
 * waiters.c - holds mutexes and lets contenders wait for them, for scripts/bench-waiters to look
 * at.
 *
 *     bench-waiters URL MUTEXES WAITERS CLIENTS
 *
 * One client owns all mutexes; WAITERS contenders wait for each, spread over CLIENTS other clients.
 * It says a word after each stage (opened, held, waiting, released) and goes on with the next line
 * of standard input. While they wait, a line `handover` lets the owner of the first mutex stop, and
 * the answer is how many microseconds later a waiter owned.
 */
#include <simba/simba.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PATIENCE_S 60
#define LINE_MAX_BYTES 64

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int terms;             /* that have begun */
    simba_contender **who; /* began the latest one */
    int64_t when_ns;
} news = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, NULL, 0};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void fail(const char *what, const struct simba_error *error)
{
    fprintf(stderr, "bench-waiters: %s: %s\n", what, error != NULL ? error->text : "in vain");
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL)
        fail("memory", NULL);
    return memory;
}

static void on_acquired(void *user, const struct simba_state *state)
{
    (void)state;
    pthread_mutex_lock(&news.lock);
    news.terms++;
    news.who = user;
    news.when_ns = now_ns();
    pthread_cond_broadcast(&news.changed);
    pthread_mutex_unlock(&news.lock);
}

/* Until that many terms have begun. */
static void await_terms(int terms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&news.lock);
    while (news.terms < terms)
        if (pthread_cond_timedwait(&news.changed, &news.lock, &until) != 0)
            fail("waiting for an owner", NULL);
    pthread_mutex_unlock(&news.lock);
}

static void await_running(const simba_contender *contender)
{
    const struct timespec pause = {0, 1000000};
    int64_t until_ns = now_ns() + (int64_t)PATIENCE_S * 1000000000;

    while (simba_contender_status(contender) != SIMBA_RUNNING) {
        if (now_ns() > until_ns)
            fail("waiting for the store", NULL);
        nanosleep(&pause, NULL);
    }
}

static void start(simba_contender *contender)
{
    struct simba_error error;

    if (simba_contender_start(contender, &error) != SIMBA_OK)
        fail("start", &error);
}

static void add_contender(simba_client *client, int mutex, simba_contender **into)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    char name[32];

    snprintf(name, sizeof name, "waiters-%07d", mutex);
    options.mutex = name;
    options.on_acquired = on_acquired;
    options.user = into;
    if (simba_contender_create(client, &options, into, &error) != SIMBA_OK)
        fail("create", &error);
    start(*into);
}

/* Stops the owner, and starts it again behind the others. -1: there was no owner to stop, or it had
 * lost before. */
static int64_t hand_over(void)
{
    struct simba_error error;
    simba_contender *from;
    int64_t begin_ns, took_ns;
    int terms;

    pthread_mutex_lock(&news.lock);
    from = *news.who;
    terms = news.terms;
    pthread_mutex_unlock(&news.lock);
    if (!simba_contender_is_owner(from))
        return -1;
    begin_ns = now_ns();
    if (simba_contender_stop(from, &error) != SIMBA_OK)
        fail("stop", &error);
    await_terms(terms + 1);
    pthread_mutex_lock(&news.lock);
    took_ns = news.when_ns - begin_ns;
    pthread_mutex_unlock(&news.lock);
    start(from);
    await_running(from);
    return took_ns > 0 ? took_ns / 1000 : -1;
}

/* False: standard input has ended. */
static bool next_line(char *line, const char *word)
{
    puts(word);
    fflush(stdout);
    return fgets(line, LINE_MAX_BYTES, stdin) != NULL;
}

static void answer(void)
{
    char line[LINE_MAX_BYTES], word[LINE_MAX_BYTES] = "waiting";

    while (next_line(line, word) && strcmp(line, "handover\n") == 0)
        snprintf(word, sizeof word, "%lld", (long long)hand_over());
}

static void raise_limit_of_files(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    int mutexes = argc == 5 ? atoi(argv[2]) : 0, waiters = argc == 5 ? atoi(argv[3]) : 0;
    int clients = argc == 5 ? atoi(argv[4]) : 0, total = mutexes * (1 + waiters);
    simba_contender **contenders;
    simba_client **opened;
    struct simba_error error;
    char line[LINE_MAX_BYTES];

    if (mutexes < 1 || waiters < 1 || clients < 1) {
        fprintf(stderr, "usage: bench-waiters URL MUTEXES WAITERS CLIENTS\n");
        return 64;
    }
    raise_limit_of_files();
    contenders = allocate((size_t)total, sizeof *contenders);
    opened = allocate((size_t)clients + 1, sizeof *opened);
    for (int i = 0; i <= clients; i++)
        if (simba_client_open(argv[1], NULL, &opened[i], &error) != SIMBA_OK)
            fail("open", &error);
    next_line(line, "opened");
    for (int i = 0; i < mutexes; i++)
        add_contender(opened[0], i, &contenders[i]);
    await_terms(mutexes);
    next_line(line, "held");
    for (int i = mutexes; i < total; i++)
        add_contender(opened[1 + i % clients], i % mutexes, &contenders[i]);
    for (int i = mutexes; i < total; i++)
        await_running(contenders[i]);
    answer();
    for (int i = total - 1; i >= 0; i--) /* the owners last: nobody is woken */
        simba_contender_close(contenders[i]);
    next_line(line, "released");
    for (int i = 0; i <= clients; i++)
        simba_client_close(opened[i], NULL);
    free(opened);
    free(contenders);
    return 0;
}
