/*
 * thing.c - see thing.h.
 */
#include "thing.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 20000

/* ---- The run --------------------------------------------------------------------------------- */

void broken(const char *format, ...)
{
    va_list arguments;

    fputs("broken: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(1);
}

static uint64_t run_seed;
static atomic_uint_fast64_t threads;
static _Thread_local uint64_t random_state;

void random_begin(uint64_t seed)
{
    run_seed = seed;
}

unsigned random_below(unsigned limit)
{
    uint64_t x;

    if (random_state == 0)
        random_state =
            run_seed * 2862933555777941757U + 3037000493U * atomic_fetch_add(&threads, 1);
    x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return limit > 0 ? (unsigned)((x ^ (x >> 31)) % limit) : 0;
}

void pause_us(unsigned us)
{
    const struct timespec pause = {us / 1000000, (long)(us % 1000000) * 1000};

    nanosleep(&pause, NULL);
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void enter(struct thing *t, const char *callback)
{
    if (atomic_fetch_add(&t->running, 1) != 0)
        broken("%s of '%s' begins while another callback of it runs", callback, t->mutex);
    if (atomic_load(&t->closed) > 0)
        broken("%s of '%s' begins after on_closed", callback, t->mutex);
    if (atomic_load(&t->is_silent))
        broken("%s of '%s' begins after a close inside a callback", callback, t->mutex);
    atomic_fetch_add(&t->begun, 1);
}

/* Uses the handle as callbacks do. */
static void ask(struct thing *t)
{
    struct simba_state state;

    if (t->kind == CONTENDER) {
        if (strcmp(simba_contender_mutex(t->handle.contender), t->mutex) != 0)
            broken("a contender has another mutex inside its callback");
        simba_contender_state(t->handle.contender, &state);
    } else if (t->kind == OBSERVER) {
        simba_observer_state(t->handle.observer, &state);
    } else if (t->kind == SCHEDULER) {
        (void)simba_scheduler_should_stop(t->handle.scheduler);
    } else {
        (void)simba_locker_fence(t->handle.locker);
    }
}

static void work(struct thing *t)
{
    if (t->slow_us > 0)
        pause_us(random_below(t->slow_us));
    if (atomic_exchange(&t->closes, false)) {
        thing_close(t);
        atomic_store(&t->is_silent, true);
        if (t->slow_us > 0)
            pause_us(random_below(t->slow_us));
    }
    ask(t);
}

static void leave(struct thing *t)
{
    atomic_fetch_sub(&t->running, 1);
}

/* A term that is seen to be over when on_notify returns has no on_acquired, unless it is seen again
 * there: the answer to a renewal may have come in time, and be told to other threads late. */
static void on_notify(void *user, const struct simba_state *state)
{
    struct thing *t = user;

    enter(t, "on_notify");
    work(t);
    if (t->kind == CONTENDER &&
        strcmp(state->after.id, simba_contender_id(t->handle.contender)) == 0 &&
        simba_contender_fence(t->handle.contender) != state->after.fence)
        atomic_store(&t->over, state->after.fence);
    leave(t);
}

static void on_acquired(void *user, const struct simba_state *state)
{
    struct thing *t = user;

    enter(t, "on_acquired");
    if (atomic_exchange(&t->told, true) && !atomic_load(&t->unsure))
        broken("on_acquired of '%s' comes twice in a row", t->mutex);
    if (atomic_load(&t->over) == state->after.fence &&
        simba_contender_fence(t->handle.contender) != state->after.fence)
        broken("on_acquired of '%s' begins for a term that is over", t->mutex);
    atomic_fetch_add(&t->acquired, 1);
    work(t);
    leave(t);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct thing *t = user;

    enter(t, "on_released");
    if (!atomic_exchange(&t->told, false) && !atomic_load(&t->unsure))
        broken("on_released of '%s' comes without on_acquired", t->mutex);
    atomic_fetch_add(&t->released, 1);
    work(t);
    leave(t);
}

static int on_work(void *user, simba_scheduler *scheduler)
{
    (void)scheduler;
    enter(user, "the work");
    work(user);
    leave(user);
    return 0;
}

static void on_lost(void *user)
{
    enter(user, "on_lost");
    work(user);
    leave(user);
}

static void on_closed(void *user)
{
    struct thing *t = user;

    if (atomic_load(&t->running) != 0)
        broken("on_closed of '%s' begins while a callback of it runs", t->mutex);
    if (atomic_fetch_add(&t->closed, 1) != 0)
        broken("on_closed of '%s' comes twice", t->mutex);
}

/* ---- Handles --------------------------------------------------------------------------------- */

static int create_contender(struct thing *t, simba_client *client)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = t->mutex;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_notify = on_notify;
    options.on_closed = on_closed;
    options.user = t;
    return simba_contender_create(client, &options, &t->handle.contender, NULL);
}

static int create_observer(struct thing *t, simba_client *client)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;

    options.mutex = t->mutex;
    options.poll_ms = 2;
    options.on_notify = on_notify;
    options.on_closed = on_closed;
    options.user = t;
    return simba_observer_create(client, &options, &t->handle.observer, NULL);
}

static int create_scheduler(struct thing *t, simba_client *client)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    options.mutex = t->mutex;
    options.period_ms = 1;
    options.work = on_work;
    options.on_closed = on_closed;
    options.user = t;
    return simba_scheduler_create(client, &options, &t->handle.scheduler, NULL);
}

static int create_locker(struct thing *t, simba_client *client)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = t->mutex;
    options.on_lost = on_lost;
    options.on_closed = on_closed;
    options.user = t;
    return simba_locker_create(client, &options, &t->handle.locker, NULL);
}

struct thing *thing_create(struct world *w, enum kind kind, const char *mutex)
{
    static int (*const create[])(struct thing *, simba_client *) = {
        create_contender, create_observer, create_scheduler, create_locker};
    struct thing *t = calloc(1, sizeof *t);

    if (t == NULL)
        broken("there is no memory");
    t->kind = kind;
    snprintf(t->mutex, sizeof t->mutex, "%s", mutex);
    if (create[kind](t, w->client) != SIMBA_OK)
        broken("a handle of kind %d cannot be created", (int)kind);
    t->next = w->things;
    w->things = t;
    return t;
}

#define ACQUIRE_MS 5

int thing_start(struct thing *t)
{
    switch (t->kind) {
    case CONTENDER:
        return simba_contender_start(t->handle.contender, NULL);
    case OBSERVER:
        return simba_observer_start(t->handle.observer, NULL);
    case SCHEDULER:
        return simba_scheduler_start(t->handle.scheduler, NULL);
    default:
        return simba_locker_acquire_timeout(t->handle.locker, ACQUIRE_MS, NULL);
    }
}

int thing_stop(struct thing *t)
{
    switch (t->kind) {
    case CONTENDER:
        return simba_contender_stop(t->handle.contender, NULL);
    case OBSERVER:
        return simba_observer_stop(t->handle.observer, NULL);
    case SCHEDULER:
        return simba_scheduler_stop(t->handle.scheduler, NULL);
    default:
        return simba_locker_release(t->handle.locker, NULL);
    }
}

void thing_close(struct thing *t)
{
    switch (t->kind) {
    case CONTENDER:
        simba_contender_close(t->handle.contender);
        break;
    case OBSERVER:
        simba_observer_close(t->handle.observer);
        break;
    case SCHEDULER:
        simba_scheduler_close(t->handle.scheduler);
        break;
    default:
        simba_locker_close(t->handle.locker);
        break;
    }
}

void thing_wait_quiet(struct thing *t)
{
    int64_t until_ms = now_ms() + PATIENCE_MS;

    while (atomic_load(&t->running) > 0) {
        if (now_ms() > until_ms)
            broken("a callback of '%s' does not return", t->mutex);
        pause_us(200);
    }
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

void world_open(struct world *w, const char *stop_timeout,
                const struct simba_client_options *options)
{
    const struct simba_client_options defaults = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_error error = {0};
    char url[160];

    memset(w, 0, sizeof *w);
    snprintf(url, sizeof url,
             "memory:world?ttl=20ms&transition=40ms&jitter=0ms..4ms&stop-timeout=%s", stop_timeout);
    if (sb_shim_create(url, NULL, &w->shim, &error) != SIMBA_OK ||
        sb_shim_open(w->shim, url, options != NULL ? options : &defaults, &w->client, &error) !=
            SIMBA_OK)
        broken("the client cannot be opened: %s", error.text);
}

void world_close(struct world *w)
{
    int64_t until_ms = now_ms() + PATIENCE_MS;
    int code;

    sb_shim_let_go(w->shim);
    while ((code = simba_client_close(w->client, NULL)) == SIMBA_EBUSY)
        if (now_ms() > until_ms)
            break;
    if (code != SIMBA_OK)
        broken("the client cannot be closed: %s", simba_strerror(code));
    sb_shim_free(w->shim);
    while (w->things != NULL) {
        struct thing *t = w->things;

        w->things = t->next;
        if (atomic_load(&t->closed) != 1)
            broken("on_closed of '%s' has not come before its client was closed", t->mutex);
        free(t);
    }
}
