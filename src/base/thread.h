/*
 * thread.h - what the library shares with the process that it runs in: threads, signals,
 * descriptors and forks.
 *
 * The library's threads have names, and all signals blocked, so that the application's signals stay
 * with its own threads.
 *
 * After a fork() threads, handles and connections of the parent are dead in the child. But the
 * child may open clients of its own, and for that finds what is global to the process as its parent
 * left it. So locks of the whole process are guarded: they are free in the child, and what they
 * protect is whole.
 */
#ifndef SB_BASE_THREAD_H
#define SB_BASE_THREAD_H

#include "base/shared.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- Threads --------------------------------------------------------------------------------- */

#define SB_THREAD_NAME_SIZE 16 /* what the kernel keeps of a thread's name, with the NUL */

/* Returns 0 or an errno. `name` fits into that size, and stays for as long as the thread may still
 * begin. */
int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument) SB_SHARED("thread_start");

/* Waits for a signal of the condition, with the lock held, or until that instant on simba_now_ms();
 * SIMBA_INFINITE: without a limit. Returns false, without a wait, when the instant has passed, and
 * true otherwise: then the caller looks again at what it waits for. The condition needs no
 * attributes. */
bool sb_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
    SB_SHARED("cond_wait");

/* ---- Signals --------------------------------------------------------------------------------- */

/* What is held back on this thread. */
struct sb_signal_hold {
    sigset_t held;   /* that were not blocked anyway */
    sigset_t before; /* blocked before */
    bool any;        /* is held */
};

/* Only for signals that the kernel sends to the thread whose system call fails: SIGPIPE,
 * SIGXFSZ. */
void sb_signal_hold(struct sb_signal_hold *hold, int number) SB_SHARED("signal_hold");
void sb_signal_hold_two(struct sb_signal_hold *hold, int first, int second);

/* Takes away what has come meanwhile. A signal that was blocked anyway stays: it may be the
 * application's. */
void sb_signal_let_go(const struct sb_signal_hold *hold) SB_SHARED("signal_let_go");

/* ---- Descriptors ----------------------------------------------------------------------------- */

/* What a loop of libuv opens, those that the first one leaves to the process included. */
#define SB_DESCRIPTORS_OF_LOOP 6

/* Returns 0 when `count` more can be opened now, or a negative errno. Another thread may still take
 * them. */
int sb_descriptors_check(int count) SB_SHARED("descriptors_check");

/* ---- Forks ----------------------------------------------------------------------------------- */

/* Arms the detection; call it before the first sb_fork_count. */
void sb_fork_watch(void);

/* How many copies (fork(), _Fork(), clone()) lie between the process that armed it and this one. A
 * different number than at a handle's creation means that the handle belongs to an ancestor. */
unsigned sb_fork_count(void);

/* A lock that is taken for every fork. Static, and never taken while another such lock is held. */
struct sb_fork_guard {
    pthread_mutex_t *lock;
    void (*in_child)(void); /* runs in the child, with the lock held; may be NULL */
    bool added;
    struct sb_fork_guard *next;
};

/* Guards from the first call on; call it before the lock is used. */
void sb_fork_guard(struct sb_fork_guard *guard);

#endif
