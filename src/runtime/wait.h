/*
 * wait.h - a thread of the application waits for something that happens on the loop.
 */
#ifndef SB_RUNTIME_WAIT_H
#define SB_RUNTIME_WAIT_H

#include "runtime/loop.h"

#include <pthread.h>

/* Whatever makes `done` true happens on the loop and signals `changed`, or calls sb_loop_wake
 * too. */
struct sb_wait {
    pthread_mutex_t *lock;   /* held while `done` is asked */
    pthread_cond_t *changed; /* on CLOCK_MONOTONIC */
    bool (*done)(void *argument);
    void *argument;
    int64_t until_ms; /* or SIMBA_INFINITE */
    int64_t check_ms; /* 0; or how often `done` is asked, because no signal tells of it */
};

void sb_wait_init_cond(pthread_cond_t *changed);

/* With wait->lock held. Returns whether it is done, with the lock held again. Meanwhile the thread
 * may turn the loop, and cannot be cancelled. */
bool sb_wait(struct sb_loop *loop, const struct sb_wait *wait);

#endif
