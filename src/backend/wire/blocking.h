/*
 * blocking.h - a function on a short-lived thread of its own (libuv's thread pool would keep four
 * threads), for what may block on the way to a server.
 */
#ifndef SB_WIRE_BLOCKING_H
#define SB_WIRE_BLOCKING_H

#include <simba/backend.h>

#include <pthread.h>

/* Embedded by its owner; stays where it is until `finished` is called. */
struct sb_wire_blocking {
    const struct simba_backend_host *host;
    void (*run)(void *user);      /* on the thread */
    void (*finished)(void *user); /* on the loop, when the thread has ended */
    void *user;
    struct simba_task task;
    pthread_t thread;
};

/* Returns 0, or an errno; then nothing runs. Loop thread only. */
int sb_wire_blocking_start(struct sb_wire_blocking *call);

#endif
