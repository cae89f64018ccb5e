/*
 * loop_owner.h - which thread runs the loop.
 *
 * Only the thread that owns the loop may touch it. Usually that is the *loop's thread*, which was
 * started with it. A thread of the application that waits for something the loop brings about can
 * borrow the loop and run it itself: a *borrower*. That spares the two changes of threads that each
 * request costs otherwise.
 *
 *     loop's thread:  take -- work -- wait (nobody owns the loop; events wake it) -- take -- ...
 *     borrower:       join -- work and wait for events, as the owner -- leave
 *
 * There is at most one borrower, and only where a single thread waits: several are served better by
 * the loop's thread. A borrower that leaves does not wake the loop's thread, which would cost a
 * change of threads for each call. The loop's thread checks by itself after CHECK_MS whether the
 * loop is used, and takes it if not. So events can be late by twice that time after a borrower has
 * left, and an idle client does not tick.
 *
 * Must not know what is run.
 */
#ifndef SB_RUNTIME_LOOP_OWNER_H
#define SB_RUNTIME_LOOP_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct sb_loop_owner {
    int wake_fd;                  /* a timer that wakes the loop's thread while it does not own */
    int events_fd;                /* the loop has something to do */
    int watch_fd;                 /* an epoll of both: what the loop's thread sleeps on */
    bool sees_events;             /* events wake the loop's thread, not only wake_fd */
    _Atomic(const void *) holder; /* the thread that owns the loop, or NULL */
    _Atomic unsigned uses;        /* grows while there is a borrower */
    pthread_mutex_t lock;
    pthread_cond_t freed; /* the loop's thread has given it up for a borrower */
    unsigned waiting;     /* threads between join and leave */
    bool is_borrowed;     /* one of them owns the loop, or is about to */
    bool urgent;          /* the loop's thread is to take it at once */
    unsigned seen;        /* the uses that the loop's thread knows of */
    enum { WORKING, WATCHING, CHECKING, SLEEPING } thread; /* what the loop's thread does */
};

/* `events_fd` is readable whenever there is something to do; it stays the caller's. Returns a
 * negative errno where there is no descriptor left. */
int sb_loop_owner_init(struct sb_loop_owner *owner, int events_fd);
void sb_loop_owner_destroy(struct sb_loop_owner *owner);

/* Whether the calling thread owns the loop. */
bool sb_loop_owner_is_me(const struct sb_loop_owner *owner);

/* Brackets the wait of a thread. True: it owns the loop as the borrower. False: the loop's thread
 * or a borrower runs the loop for it. */
bool sb_loop_owner_join(struct sb_loop_owner *owner);
void sb_loop_owner_leave(struct sb_loop_owner *owner, bool is_borrower);

/* A borrower begins a round; and it lets the loop's thread sleep, which events would wake as
 * well. */
void sb_loop_owner_note_use(struct sb_loop_owner *owner);
void sb_loop_owner_let_sleep(struct sb_loop_owner *owner);

/* There is something to do that should not wait until the loop's thread checks. From any thread. */
void sb_loop_owner_wake(struct sb_loop_owner *owner);

/* The loop's thread takes the loop when it can; and gives it up until there is something to do, the
 * time is up (-1: never) or a borrower wants it. */
void sb_loop_owner_take(struct sb_loop_owner *owner);
void sb_loop_owner_wait(struct sb_loop_owner *owner, int timeout_ms);

#endif
