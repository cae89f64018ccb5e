/*
 * subscriber.h - the subscriptions at one server.
 *
 * Its connection is made for the first one. After each (re)connection it subscribes to all channels
 * again and then tells all listeners once to look, because messages may have been missed.
 */
#ifndef SB_REDIS_SUBSCRIBER_H
#define SB_REDIS_SUBSCRIBER_H

#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/pubsub/listeners.h"

struct sb_redis_subscriber;

struct sb_redis_subscriber_events {
    void (*closed)(void *user); /* it is gone */
    /* A release has told a contender to try, whose listener may only linger. The table of listeners
     * must not change. */
    void (*released)(void *user, struct sb_redis_listener *listener);
};

/* `config` says how the server is reached; its events are the subscriber's own, and its user is
 * told the others. NULL when memory is short. */
struct sb_redis_subscriber *
sb_redis_subscriber_create(const struct sb_redis_reconnecting_config *config,
                           struct sb_redis_listeners *listeners,
                           const struct sb_redis_subscriber_events *events);

/* Subscribes for a listener that is nowhere yet, and tells it to look when that is done. */
void sb_redis_subscriber_add(struct sb_redis_subscriber *subscriber,
                             struct sb_redis_listener *listener);

/* Unsubscribes for a listener that is at this subscriber. */
void sb_redis_subscriber_remove(struct sb_redis_subscriber *subscriber,
                                struct sb_redis_listener *listener);

/* A contender has gone, but perhaps comes back soon: keeps its subscription for a while. True: the
 * listener stays in the table until then, and is not the caller's to remove. Not at nodes of a
 * cluster, which may be removed. */
bool sb_redis_subscriber_linger(struct sb_redis_subscriber *subscriber,
                                struct sb_redis_listener *listener);

/* The contender of a listener that lingers is back, and has been counted. */
void sb_redis_subscriber_resume(struct sb_redis_subscriber *subscriber,
                                struct sb_redis_listener *listener);

/* Finds its server anew. */
void sb_redis_subscriber_drop(struct sb_redis_subscriber *subscriber,
                              const struct simba_error *error);

/* Ends a pause: the place of the server may be known by now. */
void sb_redis_subscriber_retry(struct sb_redis_subscriber *subscriber);

/* Destroys it; at once, when it never had a listener. */
void sb_redis_subscriber_close(struct sb_redis_subscriber *subscriber);

#endif
