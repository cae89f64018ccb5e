/*
 * listeners.h - which contenders and observers of this client listen, by the name of the channel.
 */
#ifndef SB_REDIS_LISTENERS_H
#define SB_REDIS_LISTENERS_H

#include "backend/redis/keys.h"

#include <simba/backend.h>

struct sb_redis_subscriber;

/* A contender, or all observers of a mutex. */
struct sb_redis_listener {
    struct sb_redis_listener *next;
    struct sb_redis_subscriber *at; /* where the channel is subscribed to; NULL: nowhere yet */
    uint64_t ticket; /* of the subscription at `at`, 0 while it has not been asked for */
    /* A contender: since when it waits, by the server's clock; 0: it does not. */
    int64_t waits_since_us;
    unsigned count;  /* observers that share it */
    uint16_t length; /* of the channel */
    uint8_t mutex_length;
    bool wanted;    /* it should be subscribed to */
    bool lingers;   /* its contender has gone; the subscription is kept for a while, and counts */
    bool leaves;    /* it is being taken out of the wait queue */
    char channel[]; /* without a NUL */
};

struct sb_redis_listeners {
    const struct simba_backend_host *host;
    struct sb_redis_listener **buckets;
    size_t size; /* a power of two */
    size_t count;
    size_t waiting; /* contenders that wait */
};

int sb_redis_listeners_init(struct sb_redis_listeners *listeners,
                            const struct simba_backend_host *host);

/* Frees all that is left. */
void sb_redis_listeners_free(struct sb_redis_listeners *listeners);

bool sb_redis_listener_is_observer(const struct sb_redis_listener *listener);
void sb_redis_listener_mutex(const struct sb_redis_listener *listener,
                             char ret_mutex[SIMBA_MUTEX_MAX + 1]);

/* Of a contender. */
void sb_redis_listener_id(const struct sb_redis_listener *listener, char ret_id[SIMBA_ID_MAX + 1]);

/* The listener of a contender or (`id` NULL) of the observers, NULL where there is none. */
struct sb_redis_listener *sb_redis_listeners_find(const struct sb_redis_listeners *listeners,
                                                  const char *mutex, const char *id);

/* Adds it or counts one more; NULL when memory is short. */
struct sb_redis_listener *sb_redis_listeners_add(struct sb_redis_listeners *listeners,
                                                 const char *mutex, const char *id);

/* Counts one less. True when that was the last one: then it is out of the table and the caller's to
 * free with sb_free. */
bool sb_redis_listeners_remove(struct sb_redis_listeners *listeners,
                               struct sb_redis_listener *listener);

/* A contender has lost an attempt and waits, unless it waits already; or it waits no more. */
void sb_redis_listeners_begin_wait(struct sb_redis_listeners *listeners,
                                   struct sb_redis_listener *listener, int64_t since_us);
void sb_redis_listeners_end_wait(struct sb_redis_listeners *listeners,
                                 struct sb_redis_listener *listener);

/* Whether another listener has the same channel: a mutex and an id can be named so that two
 * channels are one. */
bool sb_redis_listeners_share(const struct sb_redis_listeners *listeners,
                              const struct sb_redis_listener *listener);

/* Calls visit(argument, listener) for each. The table must not change meanwhile. */
void sb_redis_listeners_each(const struct sb_redis_listeners *listeners,
                             void (*visit)(void *argument, struct sb_redis_listener *listener),
                             void *argument);

/* The next listener of a channel behind `after` (NULL: the first one). */
struct sb_redis_listener *sb_redis_listeners_next(const struct sb_redis_listeners *listeners,
                                                  const struct sb_redis_listener *after,
                                                  const char *channel, size_t length);

/* Tells the host that the mutex was released, or has changed. */
void sb_redis_listener_wake(const struct sb_redis_listeners *listeners,
                            const struct sb_redis_listener *listener);

#endif
