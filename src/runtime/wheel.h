/*
 * wheel.h - who turns the loop.
 *
 * Only the thread that has the wheel may touch the loop. It has a *keeper*, the loop's own thread. A
 * thread of the application that waits for something the loop brings about can take it as a *guest* and
 * turn the loop itself. That spares the two changes of threads that each request costs otherwise.
 *
 *     keeper:  take -- work -- watch (nobody has the wheel; events wake the keeper) -- take -- ...
 *     guest:   join -- work and wait for events, with the wheel -- leave
 *
 * There is at most one guest, and only where a single thread waits: several are served better by the keeper.
 * A guest that leaves does not wake the keeper, which would cost a change of threads for each call. The
 * keeper looks by itself after LOOK_MS whether the wheel lies idle, and takes it then. So events can be late
 * by twice that time after a guest has left, and an idle client does not tick.
 *
 * Must not know what is turned.
 */
#ifndef SB_RUNTIME_WHEEL_H
#define SB_RUNTIME_WHEEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct sb_wheel {
    int bell_fd;                  /* calls the keeper while it does not have the wheel */
    int events_fd;                /* what is turned has something to do */
    int watch_fd;                 /* an epoll of both: what the keeper sleeps on */
    bool sees_events;             /* events wake the keeper, not only the bell */
    _Atomic(const void *) holder; /* the thread that has it, or NULL */
    _Atomic unsigned uses;        /* grows while there is a guest */
    pthread_mutex_t lock;
    pthread_cond_t freed; /* the keeper has laid it down for a guest */
    unsigned waiting;     /* threads between join and leave */
    bool guest;           /* one of them has the wheel, or is about to */
    bool urgent;          /* the keeper is to take it without a second look */
    unsigned seen;        /* the uses that the keeper knows of */
    enum { WORKING, WATCHING, LOOKING, SLEEPING } keeper;
};

/* `events_fd` is readable whenever there is something to do; it stays the caller's. Returns a negative errno where
 * there is no descriptor left. */
int sb_wheel_init(struct sb_wheel *wheel, int events_fd);
void sb_wheel_destroy(struct sb_wheel *wheel);

/* Whether the calling thread has the wheel. */
bool sb_wheel_is_mine(const struct sb_wheel *wheel);

/* Brackets the wait of a thread. True: it has the wheel as a guest. False: the keeper or a guest turns the
 * loop for it. */
bool sb_wheel_join(struct sb_wheel *wheel);
void sb_wheel_leave(struct sb_wheel *wheel, bool guest);

/* A guest begins a round; and it sends the keeper away, which events would wake as well. */
void sb_wheel_use(struct sb_wheel *wheel);
void sb_wheel_dismiss(struct sb_wheel *wheel);

/* There is something to do that should not wait until the keeper looks. From any thread. */
void sb_wheel_hurry(struct sb_wheel *wheel);

/* The keeper takes the wheel when it can; and lays it down until there is something to do, the time is up
 * (-1: never) or a guest wants it. */
void sb_wheel_take(struct sb_wheel *wheel);
void sb_wheel_watch(struct sb_wheel *wheel, int timeout_ms);

#endif
