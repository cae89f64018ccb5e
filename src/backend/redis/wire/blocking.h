/*
 * blocking.h - what may block: a function on a short-lived thread of its own (libuv's thread pool
 * would do the same with four threads that stay), and one question to one server on a connection of
 * its own.
 *
 * The question runs a loop of its own, so that it can be used where the client's loop cannot go on:
 * while a client is being opened, and on such a thread.
 */
#ifndef SB_REDIS_BLOCKING_H
#define SB_REDIS_BLOCKING_H

#include "backend/redis/wire/connection.h"

#include <pthread.h>
#include <simba/backend.h>

/* Embedded by its owner; stays where it is until `finished` is called. */
struct sb_redis_blocking {
    const struct simba_backend_host *host;
    void (*run)(void *user);      /* on the thread */
    void (*finished)(void *user); /* on the loop, when the thread has ended */
    void *user;
    struct simba_task task;
    pthread_t thread;
};

/* Returns 0, or an errno; then nothing runs. Loop thread only. */
int sb_redis_blocking_start(struct sb_redis_blocking *call);

struct sb_redis_ask_config {
    const struct sb_redis_options *options;
    const struct sb_redis_tls *tls;
    const struct sb_redis_credentials *credentials;
    int64_t database;
    int64_t connect_timeout_ms; /* 0: that of the options */
    bool master_only;
};

/* Of a connection whose commands tell all that is to be known. */
extern const struct sb_redis_connection_events sb_redis_ask_events;

/* Takes the reply, which is no error reply; its result is that of sb_redis_ask. */
typedef int sb_redis_ask_take(void *user, const struct redisReply *reply,
                              struct simba_error *error);

/* Blocks, at most for the connect-timeout and the command-timeout. `take` may be NULL: any reply
 * will do. */
int sb_redis_ask(const struct sb_redis_ask_config *config, const struct sb_redis_endpoint *endpoint,
                 const struct sb_redis_argument *arguments, size_t count, sb_redis_ask_take *take,
                 void *user, struct simba_error *error);

#endif
