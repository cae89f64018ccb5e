/*
 * subscriptions.h - which contenders and observers of this client listen (listeners.c), and the
 * subscriptions at one server (subscriber.c).
 *
 * The connection for subscriptions is made for the first one. After each (re)connection it
 * subscribes to all channels again and then tells all listeners once to look, because messages may
 * have been missed.
 */
#ifndef SB_REDIS_SUBSCRIPTIONS_H
#define SB_REDIS_SUBSCRIPTIONS_H

#include "backend/redis/keys.h"
#include "backend/redis/wire/reconnecting.h"
#include "base/hash.h"

#include <simba/backend.h>

/* ---- Listeners, by the name of the channel --------------------------------------------------- */

struct sb_redis_subscriber;

/* A contender, or all observers of a mutex. */
struct sb_redis_listener {
    struct sb_hash_node node;
    struct sb_redis_subscriber *at; /* where the channel is subscribed to; NULL: nowhere yet */
    uint64_t ticket; /* of the subscription at `at`, 0 while it has not been asked for */
    /* A contender: since when it waits, by the server's clock; 0: it does not. */
    int64_t waits_since_us;
    unsigned count;  /* observers that share it */
    uint16_t length; /* of the channel */
    uint8_t mutex_length;
    bool wanted;    /* it should be subscribed to */
    char channel[]; /* without a NUL */
};

struct sb_redis_listeners {
    const struct simba_backend_host *host;
    struct sb_hash_table table; /* by the channel */
    size_t waiting;             /* contenders that wait */
};

int sb_redis_listeners_init(struct sb_redis_listeners *listeners,
                            const struct simba_backend_host *host);

/* Frees all that is left. */
void sb_redis_listeners_free(struct sb_redis_listeners *listeners);

bool sb_redis_listener_is_observer(const struct sb_redis_listener *listener);
void sb_redis_listener_mutex(const struct sb_redis_listener *listener,
                             char ret_mutex[SIMBA_MUTEX_MAX + 1]);

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

/* Tells the host what a contender has heard of; of an observer, that the mutex has changed. */
void sb_redis_listener_tell(const struct sb_redis_listeners *listeners,
                            const struct sb_redis_listener *listener, enum simba_notice what);

/* ---- The subscriptions at one server --------------------------------------------------------- */

/* `config` says how the server is reached; its events are the subscriber's own.
 * closed(config->user) is called when it is gone. NULL when memory is short. */
struct sb_redis_subscriber *
sb_redis_subscriber_create(const struct sb_redis_reconnecting_config *config,
                           struct sb_redis_listeners *listeners, void (*closed)(void *user));

/* Subscribes for a listener that is nowhere yet, and tells it to look when that is done. */
void sb_redis_subscriber_add(struct sb_redis_subscriber *subscriber,
                             struct sb_redis_listener *listener);

/* Unsubscribes for a listener that is at this subscriber. */
void sb_redis_subscriber_remove(struct sb_redis_subscriber *subscriber,
                                struct sb_redis_listener *listener);

/* Finds its server anew. */
void sb_redis_subscriber_drop(struct sb_redis_subscriber *subscriber,
                              const struct simba_error *error);

/* Ends a pause: the place of the server may be known by now. */
void sb_redis_subscriber_retry(struct sb_redis_subscriber *subscriber);

/* Destroys it; at once, when it never had a listener. */
void sb_redis_subscriber_close(struct sb_redis_subscriber *subscriber);

#endif
