/*
 * worker.c - one process of the stress of semaphores and sets, which tests/groups/stress starts.
 *
 *     groups-worker slots URL SHARED NUMBER SECONDS
 *     groups-worker sets URL SHARED NUMBER SECONDS
 *
 * All processes map SHARED, a file that is zero at first, and write down there what they see:
 * stress reads it. What the mutexes guard is written without atomics, so two owners show.
 */
#include <simba/simba.h>

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 128
#define SLOTS 5
#define NAMES 8
#define TURNS_TOLD 4

struct shared {
    int64_t ready;             /* processes whose client is open */
    int64_t inside;            /* of slots */
    int64_t most;              /* of these at a time */
    int64_t busy[SLOTS];       /* by how many */
    int64_t breaches;          /* a slot of two, or a mutex of a set */
    int64_t failures;          /* of the library */
    int64_t served[PROCESSES]; /* acquires */
    int64_t turns[TURNS_TOLD]; /* waits in line in which another was served so many times */
    int64_t longest_ms;        /* wait */
    int64_t ledger[NAMES];     /* written by the owner alone */
    int64_t expected[NAMES];   /* counted atomically */
    int64_t holders[NAMES];
};

struct worker {
    struct shared *shared;
    simba_client *client;
    int number;
    int64_t until_ms;
    unsigned seed;
};

static void pause_ms(int64_t ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&pause, NULL);
}

static int64_t add(int64_t *counter, int64_t n)
{
    return __atomic_add_fetch(counter, n, __ATOMIC_SEQ_CST);
}

static void raise_to(int64_t *most, int64_t value)
{
    int64_t seen = __atomic_load_n(most, __ATOMIC_SEQ_CST);

    while (value > seen && !__atomic_compare_exchange_n(most, &seen, value, false, __ATOMIC_SEQ_CST,
                                                        __ATOMIC_SEQ_CST))
        continue;
}

static bool fails(struct worker *w, int code, const struct simba_error *error)
{
    if (code != SIMBA_OK) {
        fprintf(stderr, "worker %d: %d %s\n", w->number, code, error->text);
        add(&w->shared->failures, 1);
    }
    return code != SIMBA_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* What others were served when this process had its place in line: noted by a thread, as the one
 * that acquires waits. Before that it is in no line, however long it has not come to run. */
struct line {
    struct worker *worker;
    simba_locker *locker;
    pthread_t thread;
    sem_t begun;
    atomic_int wait;  /* the number of the wait; 0: it is over. -1: the thread ends */
    atomic_int noted; /* the wait that `before` is of */
    int64_t before[PROCESSES];
};

static void *watch_line(void *argument)
{
    struct line *line = argument;

    for (;;) {
        int wait;

        while (sem_wait(&line->begun) != 0)
            continue;
        wait = atomic_load(&line->wait);
        if (wait < 0)
            return NULL;
        while (atomic_load(&line->wait) == wait && simba_locker_place(line->locker) == 0)
            pause_ms(1);
        memcpy(line->before, line->worker->shared->served, sizeof line->before);
        if (atomic_load(&line->wait) == wait && wait > 0)
            atomic_store(&line->noted, wait);
    }
}

/* Those that were before this one in line are served once; when they come back they are behind it,
 * and may be served once more before this process notices that it has been, too. */
static int64_t turns_of(const struct line *line, int wait)
{
    const struct worker *w = line->worker;
    int64_t most = 0;

    if (atomic_load(&line->noted) != wait)
        return 0;
    for (int i = 0; i < PROCESSES; i++)
        if (i != w->number && w->shared->served[i] - line->before[i] > most)
            most = w->shared->served[i] - line->before[i];
    return most < TURNS_TOLD ? most : TURNS_TOLD - 1;
}

static bool take_slot(struct line *line, int wait)
{
    struct worker *w = line->worker;
    struct shared *s = w->shared;
    struct simba_error error;
    int64_t began_ms = simba_now_ms();
    int slot;
    int code;

    atomic_store(&line->wait, wait);
    sem_post(&line->begun);
    code = simba_locker_acquire(line->locker, &error);
    atomic_store(&line->wait, 0);
    if (fails(w, code, &error))
        return false;
    add(&s->turns[turns_of(line, wait)], 1);
    add(&s->served[w->number], 1);
    raise_to(&s->longest_ms, simba_now_ms() - began_ms);
    slot = simba_locker_slot(line->locker);
    raise_to(&s->most, add(&s->inside, 1));
    if (add(&s->busy[slot], 1) > 1)
        add(&s->breaches, 1);
    pause_ms(rand_r(&w->seed) % 20);
    add(&s->busy[slot], -1);
    add(&s->inside, -1);
    return !fails(w, simba_locker_release(line->locker, &error), &error);
}

static void work_on_slots(struct worker *w)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct line line = {.worker = w};
    struct simba_error error;
    int wait = 1;

    options.mutex = "stress";
    if (fails(w, simba_semaphore_create(w->client, SLOTS, &options, &line.locker, &error), &error))
        return;
    sem_init(&line.begun, 0, 0);
    if (pthread_create(&line.thread, NULL, watch_line, &line) != 0)
        abort();
    while (simba_now_ms() < w->until_ms && take_slot(&line, wait))
        wait++;
    atomic_store(&line.wait, -1);
    sem_post(&line.begun);
    pthread_join(line.thread, NULL);
    sem_destroy(&line.begun);
    simba_locker_close(line.locker);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static void use(struct worker *w, int name)
{
    struct shared *s = w->shared;
    volatile int64_t *entry = &s->ledger[name];
    int64_t seen = *entry;

    if (add(&s->holders[name], 1) > 1)
        add(&s->breaches, 1);
    pause_ms(rand_r(&w->seed) % 3);
    *entry = seen + 1;
    add(&s->expected[name], 1);
    add(&s->holders[name], -1);
}

static bool take_set(struct worker *w, bool no_hold)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    static const char *const all[NAMES] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    const char *names[4];
    int chosen[4];
    int count = 2 + rand_r(&w->seed) % 3;
    int first = rand_r(&w->seed) % NAMES;
    int step = 1 + 2 * (rand_r(&w->seed) % (NAMES / 2)); /* odd, so no name comes twice */
    int64_t began_ms = simba_now_ms();
    struct simba_error error;
    simba_locker *locker;
    int code;

    options.no_hold = no_hold;
    for (int i = 0; i < count; i++) {
        chosen[i] = (first + i * step) % NAMES;
        names[i] = all[chosen[i]];
    }
    if (fails(w,
              simba_locker_create_set(w->client, names, (size_t)count, &options, &locker, &error),
              &error))
        return false;
    code = simba_locker_acquire(locker, &error);
    if (code == SIMBA_OK) {
        raise_to(&w->shared->longest_ms, simba_now_ms() - began_ms);
        add(&w->shared->served[w->number], 1);
        for (int i = 0; i < count; i++)
            use(w, chosen[i]);
        code = simba_locker_release(locker, &error);
    }
    simba_locker_close(locker);
    return !fails(w, code, &error);
}

/* One in four does not hold what it has while it waits. */
static void work_on_sets(struct worker *w)
{
    while (simba_now_ms() < w->until_ms && take_set(w, w->number % 4 == 0))
        continue;
}

int main(int argc, char **argv)
{
    struct simba_error error;
    struct worker w = {0};
    int fd;

    if (argc != 6)
        return 64;
    fd = open(argv[3], O_RDWR | O_CLOEXEC);
    w.shared = mmap(NULL, sizeof *w.shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || w.shared == MAP_FAILED)
        return 71;
    w.number = atoi(argv[4]);
    w.seed = (unsigned)w.number + 1;
    if (fails(&w, simba_client_open(argv[2], NULL, &w.client, &error), &error))
        return 69;
    add(&w.shared->ready, 1);
    while (__atomic_load_n(&w.shared->ready, __ATOMIC_SEQ_CST) >= 0)
        pause_ms(5); /* stress says when */
    w.until_ms = simba_now_ms() + 1000 * atoll(argv[5]);
    if (strcmp(argv[1], "slots") == 0)
        work_on_slots(&w);
    else
        work_on_sets(&w);
    fails(&w, simba_client_close(w.client, &error), &error);
    return 0;
}
