/*
 * scenarios.c - what the stress program plays: rounds of random starts, stops, closes, losses,
 * cancels and forks, each scenario around one rule of simba.h.
 */
#include "scenarios.h"

#include "thing.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GENEROUS "10s" /* a stop timeout that nothing here needs */
#define THREADS 3

static void lose_or_heal(struct world *w)
{
    if (random_below(2) == 0)
        sb_shim_refuse(w->shim, SB_SHIM_OP(SIMBA_OP_GUARD), SIMBA_EUNAVAILABLE);
    else
        sb_shim_let_go(w->shim);
}

static void run_threads(void *(*run)(void *), void *arguments[], unsigned count)
{
    pthread_t threads[16];

    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, arguments[i]) != 0)
            broken("a thread cannot be started");
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

/* Nothing begins when a stop has returned. After one that was given up a callback may still run:
 * the one that runs now, or else one that is about to begin; nobody can see which. Returns false in
 * that case. */
static bool check_stop(struct thing *t, int code)
{
    unsigned running = atomic_load(&t->running);
    unsigned begun = atomic_load(&t->begun);
    unsigned allowed = code != SIMBA_OK && running == 0 ? 1 : 0;

    if (code == SIMBA_OK && running > 0)
        broken("a callback of '%s' runs when its stop has returned", t->mutex);
    if (running > 0 && random_below(2) == 0)
        return true; /* it is started again under the callback */
    pause_us(random_below(3000));
    thing_wait_quiet(t);
    if (atomic_load(&t->begun) > begun + allowed)
        broken("a callback of '%s' begins when its stop has returned", t->mutex);
    return allowed == 0;
}

static void *drive_contender(void *thing)
{
    struct thing *t = thing;
    bool certain = true;

    for (int i = 0; i < 8 && certain; i++) {
        int code = thing_start(t);

        if (code != SIMBA_OK)
            broken("'%s' cannot be started: %s", t->mutex, simba_strerror(code));
        pause_us(random_below(12000));
        code = thing_stop(t);
        if (code != SIMBA_OK && code != SIMBA_ETIMEDOUT && code != SIMBA_EUNAVAILABLE)
            broken("'%s' cannot be stopped: %s", t->mutex, simba_strerror(code));
        certain = check_stop(t, code);
        atomic_store(&t->unsure, !certain);
        atomic_store(&t->told, false);
    }
    thing_close(t);
    return NULL;
}

void play_stops(void)
{
    static const char *const timeouts[] = {"1ms", "3ms", "10ms", GENEROUS};
    void *arguments[THREADS + 1];
    struct world w;
    char name[16];

    world_open(&w, timeouts[random_below(4)], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        struct thing *t;

        snprintf(name, sizeof name, "m-%u", i);
        t = thing_create(&w, CONTENDER, name);
        t->slow_us = random_below(15000);
        arguments[i] = t;
    }
    lose_or_heal(&w);
    run_threads(drive_contender, arguments, THREADS);
    world_close(&w);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* Terms end while on_notify runs, because the store does not renew them. */
void play_losses(void)
{
    struct thing *t;
    struct world w;

    world_open(&w, GENEROUS, NULL);
    t = thing_create(&w, CONTENDER, "m");
    t->slow_us = 100000;
    thing_start(t);
    for (int i = 0; i < 4; i++) {
        sb_shim_refuse(w.shim, SB_SHIM_OP(SIMBA_OP_GUARD), SIMBA_EUNAVAILABLE);
        pause_us(60000 + random_below(60000));
        sb_shim_let_go(w.shim);
        pause_us(random_below(20000));
    }
    thing_close(t);
    world_close(&w);
}

/* ---- Starts ---------------------------------------------------------------------------------- */

static void *start_thing(void *thing)
{
    int code = thing_start(thing);

    if (code != SIMBA_OK)
        broken("a start fails: %s", simba_strerror(code));
    return NULL;
}

/* The first callback closes the handle that another thread is still starting. */
void play_starts(void)
{
    void *arguments[2 * THREADS];
    struct world w;
    char name[16];

    world_open(&w, GENEROUS, NULL);
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        bool observes = i % 3 == 1;
        struct thing *t;

        snprintf(name, sizeof name, "m-%u", observes ? i - 1 : i); /* somebody has it */
        t = thing_create(&w, i % 3 == 0 ? CONTENDER : observes ? OBSERVER : SCHEDULER, name);
        atomic_store(&t->closes, true);
        arguments[i] = t;
    }
    run_threads(start_thing, arguments, 2 * THREADS);
    for (struct thing *t = w.things; t != NULL; t = t->next)
        if (t->kind == OBSERVER && atomic_exchange(&t->closes, false))
            thing_close(t); /* it came too late to see an owner */
    for (struct thing *t = w.things; t != NULL; t = t->next)
        while (atomic_load(&t->closed) == 0)
            pause_us(500); /* the run's own limit ends it */
    world_close(&w);
}

/* ---- Closes ---------------------------------------------------------------------------------- */

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct {
        void (*run)(void *argument);
        void *argument;
    } tasks[1024];
    unsigned head;
    unsigned tail;
    bool is_over;
};

static void execute(void *user, void (*run)(void *argument), void *argument)
{
    struct pool *pool = user;

    pthread_mutex_lock(&pool->lock);
    pool->tasks[pool->tail % 1024].run = run;
    pool->tasks[pool->tail++ % 1024].argument = argument;
    pthread_cond_signal(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
}

/* Runs the first task; false: there is none. */
static bool run_first(struct pool *pool, bool waits)
{
    void (*run)(void *argument) = NULL;
    void *argument = NULL;

    pthread_mutex_lock(&pool->lock);
    while (waits && pool->head == pool->tail && !pool->is_over)
        pthread_cond_wait(&pool->filled, &pool->lock);
    if (pool->head != pool->tail) {
        run = pool->tasks[pool->head % 1024].run;
        argument = pool->tasks[pool->head++ % 1024].argument;
    }
    pthread_mutex_unlock(&pool->lock);
    if (run != NULL)
        run(argument);
    return run != NULL;
}

static void *run_pool(void *pool)
{
    while (run_first(pool, true))
        ;
    return NULL;
}

static void *live_and_close(void *thing)
{
    struct thing *t = thing;
    int code = thing_start(t);

    pause_us(random_below(20000));
    if (t->kind == LOCKER && code == SIMBA_OK && random_below(2) == 0)
        thing_stop(t);
    if (atomic_exchange(&t->closes, false) || t->kind == LOCKER) {
        thing_close(t);
        if (t->slow_us == 1 && atomic_load(&t->closed) != 1)
            broken("close of '%s' returns before on_closed, and no callback was slow", t->mutex);
    }
    return NULL;
}

/* A thing that has `closes` set is closed by its first callback, or by the thread that has started
 * it. */
static void live_in(struct world *w, unsigned slow_us)
{
    void *arguments[2 * KINDS];
    char name[16];

    for (unsigned i = 0; i < 2 * KINDS; i++) {
        struct thing *t;

        snprintf(name, sizeof name, "m-%u", random_below(4));
        t = thing_create(w, (enum kind)(i % KINDS), name);
        t->slow_us = slow_us;
        atomic_store(&t->closes, t->kind != LOCKER);
        arguments[i] = t;
    }
    lose_or_heal(w);
    run_threads(live_and_close, arguments, 2 * KINDS);
}

void play_closes(void)
{
    static const char *const timeouts[] = {"1ms", "5ms", "20ms"};
    bool generous = random_below(2) == 0;
    struct world w;

    world_open(&w, generous ? GENEROUS : timeouts[random_below(3)], NULL);
    live_in(&w, generous ? 1 : 30000);
    world_close(&w);
}

/* The same on an executor with two threads. */
void play_pools(void)
{
    static struct pool pool;
    struct simba_executor executor = {execute, &pool};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    pthread_t threads[2];
    struct world w;

    memset(&pool, 0, sizeof pool);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.filled, NULL);
    options.executor = &executor;
    world_open(&w, random_below(2) == 0 ? GENEROUS : "5ms", &options);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_pool, &pool);
    live_in(&w, 10000);
    world_close(&w);
    pthread_mutex_lock(&pool.lock);
    pool.is_over = true;
    pthread_cond_broadcast(&pool.filled);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- One thread ------------------------------------------------------------------------------ */

/* A program whose only thread is the executor. */
void play_single_thread(void)
{
    static struct pool pool;
    struct simba_executor executor = {execute, &pool};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct thing *t;
    struct world w;
    int code;

    memset(&pool, 0, sizeof pool);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.filled, NULL);
    options.executor = &executor;
    world_open(&w, "3s", &options);
    t = thing_create(&w, random_below(2) == 0 ? CONTENDER : SCHEDULER, "m");
    for (int i = 0; i < 3; i++) {
        code = thing_start(t);
        for (unsigned tasks = random_below(8); code == SIMBA_OK && tasks > 0; tasks--) {
            run_first(&pool, false);
            pause_us(random_below(3000));
        }
        if (code == SIMBA_OK)
            code = thing_stop(t);
        if (code != SIMBA_OK)
            broken("a single thread cannot start and stop: %s", simba_strerror(code));
        if (atomic_load(&t->acquired) != atomic_load(&t->released))
            broken("on_released does not come on a single thread");
    }
    if (random_below(2) == 0)
        thing_start(t);
    thing_close(t);
    if (atomic_load(&t->closed) != 1)
        broken("close returns before on_closed on a single thread");
    world_close(&w);
    while (run_first(&pool, false)) /* what is left belongs to nobody */
        ;
}

/* ---- Cancels --------------------------------------------------------------------------------- */

static void *acquire_and_release(void *thing)
{
    struct thing *t = thing;

    for (int i = 0; i < 10; i++) {
        int code =
            random_below(2) == 0 ? simba_locker_acquire(t->handle.locker, NULL) : thing_start(t);

        if (code == SIMBA_OK) {
            pause_us(random_below(2000));
            code = thing_stop(t);
        }
        if (simba_locker_is_held(t->handle.locker))
            broken("a locker is held after its release");
        if (code == SIMBA_EMISUSE || code == SIMBA_ESTATE || code == SIMBA_EBUSY)
            broken("a locker fails: %s", simba_strerror(code));
    }
    return NULL;
}

static void *cancel(void *thing)
{
    struct thing *t = thing;

    for (int i = 0; i < 10; i++) {
        pause_us(random_below(5000));
        simba_locker_cancel(t->handle.locker);
    }
    return NULL;
}

/* Waits without a limit end when their mutex is given back, or by a cancel, or when a lost lease
 * has run out. */
void play_cancels(void)
{
    void *lockers[THREADS];
    pthread_t thread;
    struct world w;

    world_open(&w, "5ms", NULL);
    for (unsigned i = 0; i < THREADS; i++)
        lockers[i] = thing_create(&w, LOCKER, "m");
    lose_or_heal(&w);
    pthread_create(&thread, NULL, cancel, lockers[0]);
    run_threads(acquire_and_release, lockers, THREADS);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        thing_close(lockers[i]);
    world_close(&w);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

#define CHILD_SECONDS 6 /* less than a stop waits for the callback that has forked */

/* In the child: handles of the parent are dead, and clients of its own come and go. */
static void live_as_child(struct thing *old)
{
    struct thing *t;
    struct world w;

    alarm(CHILD_SECONDS);
    if (thing_start(old) != SIMBA_EFORKED ||
        simba_contender_status(old->handle.contender) != SIMBA_INITIAL)
        broken("a handle of the parent lives in the child");
    thing_close(old);
    world_open(&w, GENEROUS, NULL);
    t = thing_create(&w, CONTENDER, "child");
    if (thing_start(t) != SIMBA_OK || thing_stop(t) != SIMBA_OK)
        broken("a child cannot start and stop");
    thing_close(t);
    world_close(&w);
    _exit(0);
}

/* Another thread may hold a lock of the address sanitizer's allocator at the fork: the child then
 * hangs in its first allocation, until the alarm. */
static bool hangs_in_sanitizer(int status)
{
#ifdef __SANITIZE_ADDRESS__
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
#else
    (void)status;
    return false;
#endif
}

static void fork_once(struct thing *t)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        live_as_child(t);
    if (child < 0 || waitpid(child, &status, 0) != child ||
        (status != 0 && !hangs_in_sanitizer(status)))
        broken("a child ended with status %d", status);
}

static void fork_inside(void *user, const struct simba_state *state)
{
    fork_once(user);
}

void play_forks(void)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_observer *observer = NULL;
    struct thing *t;
    struct world w;

    world_open(&w, GENEROUS, NULL);
    t = thing_create(&w, CONTENDER, "m");
    t->slow_us = 2000;
    options.mutex = "m";
    options.poll_ms = 1;
    options.on_notify = fork_inside;
    options.user = t;
    if (simba_observer_create(w.client, &options, &observer, NULL) != SIMBA_OK ||
        simba_observer_start(observer, NULL) != SIMBA_OK || thing_start(t) != SIMBA_OK)
        broken("contender and observer cannot be started");
    for (int i = 0; i < 3; i++) {
        pause_us(random_below(5000));
        fork_once(t);
    }
    simba_observer_close(observer);
    thing_close(t);
    world_close(&w);
}
