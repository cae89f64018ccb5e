/*
 * blocking.h - runs one function that may block on a short-lived thread of its own.
 *
 * libuv's thread pool would do the same with four threads that stay.
 */
#ifndef SB_REDIS_BLOCKING_H
#define SB_REDIS_BLOCKING_H

#include <simba/backend.h>

#include <pthread.h>

/* Embedded by whoever sends it out; stays where it is until `back` is called. */
struct sb_redis_blocking {
    const struct simba_backend_host *host;
    void (*run)(void *user);      /* on the thread */
    void (*finished)(void *user); /* on the loop, when the thread has ended */
    void *user;
    struct simba_task task;
    pthread_t thread;
};

/* Returns 0, or an errno; then nothing runs. Loop thread only. */
int sb_redis_blocking_start(struct sb_redis_blocking *scout);

#endif
