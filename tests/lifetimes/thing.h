/*
 * thing.h - a contender, observer, scheduler or locker with random callbacks that check what they
 * see.
 *
 * A thing stays in memory until its world ends, so that a callback which comes too late finds out.
 */
#ifndef SIMBA_LIFETIMES_THING_H
#define SIMBA_LIFETIMES_THING_H

#include "tck/shim.h"

#include <simba/simba.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- The run --------------------------------------------------------------------------------- */

/* Ends the process: a rule is broken. */
void broken(const char *format, ...) SIMBA_PRINTF(1, 2) __attribute__((noreturn));

/* Random numbers from the seed of the run; each thread has its own. */
void random_begin(uint64_t seed);
unsigned random_below(unsigned limit);

void pause_us(unsigned us);
int64_t now_ms(void);

/* ---- Things ---------------------------------------------------------------------------------- */

enum kind { CONTENDER, OBSERVER, SCHEDULER, LOCKER, KINDS };

struct thing {
    enum kind kind;
    union {
        simba_contender *contender;
        simba_observer *observer;
        simba_scheduler *scheduler;
        simba_locker *locker;
    } handle;
    char mutex[32];
    unsigned slow_us;      /* callbacks take up to that long */
    atomic_bool closes;    /* the next callback closes the handle */
    atomic_bool is_silent; /* it has done so: nothing but on_closed may begin */
    atomic_bool told;      /* on_acquired, and no on_released since */
    atomic_bool
        unsure; /* a callback may be about to begin that was decided before a stop was given up */
    atomic_uint begun;         /* callbacks but on_closed */
    atomic_uint acquired;      /* of those, on_acquired */
    atomic_uint released;      /* and on_released */
    atomic_uint running;       /* now */
    atomic_uint closed;        /* on_closed */
    atomic_uint_fast64_t over; /* the fence of a term that on_notify saw the end of */
    struct thing *next;
};

/* What a round plays in: a client on a store that can be made to refuse, and its things. */
struct world {
    struct sb_shim *shim;
    simba_client *client;
    struct thing *things;
};

/* Opens a client with a short lease. `options` may be NULL. */
void world_open(struct world *world, const char *stop_timeout,
                const struct simba_client_options *options);

/* Closes the client, whose things are closed, and checks that each has been told. */
void world_close(struct world *world);

struct thing *thing_create(struct world *world, enum kind kind, const char *mutex);

/* Of a locker: one acquire with a short time-out. Returns its code; a thing may be gone by then. */
int thing_start(struct thing *thing);
int thing_stop(struct thing *thing);
void thing_close(struct thing *thing);

/* Waits until no callback runs. */
void thing_wait_quiet(struct thing *thing);

#endif
