/*
 * nodes.h - a client of Redis from the inside: the servers it talks to and what they share.
 */
#ifndef SB_REDIS_NODES_H
#define SB_REDIS_NODES_H

#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/pubsub/listeners.h"
#include "backend/redis/scripts/script.h"
#include "backend/redis/pubsub/subscriber.h"
#include "backend/redis/request/yield.h"

struct sb_redis_backlog;
struct sb_redis_cluster;
struct sb_redis_quorum;
struct sb_redis_sentinels;

/* A server, with a connection for commands and one for subscriptions. */
struct sb_redis_node {
    struct sb_redis_node *next;
    simba_backend *store;
    struct sb_redis_place place; /* of a cluster's node */
    struct sb_redis_reconnecting *commands;
    struct sb_redis_subscriber *subscriber;
    struct sb_redis_backlog *backlog; /* what waits to be sent */
    unsigned parts;                   /* the three above */
    uint64_t sent;                    /* scripts called so far */
    uint64_t
        loaded[SB_REDIS_SCRIPT_COUNT]; /* what `sent` was when the script's text was last sent */
    struct sb_redis_quorum *quorum;    /* the requests that the next WAIT is for */
    unsigned outage;                   /* how many of the two connections are down */
    bool asked_about_eviction;
    bool stays; /* mark of a cluster's refresh */
};

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_redis_options options;
    struct sb_redis_tls *tls;
    struct sb_redis_listeners listeners;
    struct sb_redis_node *nodes;          /* one, or the masters of a cluster */
    unsigned node_count;                  /* with those that are being closed */
    struct sb_redis_cluster *cluster;     /* NULL: none */
    struct sb_redis_sentinels *sentinels; /* NULL: none */
    uint64_t seen;                        /* the largest token of any reply */
    struct sb_redis_yields told;
    bool closing;
    void (*closed)(void *argument);
    void *argument;
};

/* Adds the server that the URL leads to (`place` NULL), or a node of a cluster. NULL when memory is
 * short. */
struct sb_redis_node *sb_redis_node_add(simba_backend *store, const struct sb_redis_place *place);

/* Takes it out of the store's list and closes it; what is under way there is answered. */
void sb_redis_node_remove(struct sb_redis_node *node);

/* The server is the wrong one by now: finds it anew. */
void sb_redis_node_drop(struct sb_redis_node *node, const struct simba_error *error);

/* The sentinels name another master than before: goes there. */
void sb_redis_node_follow_master(struct sb_redis_node *node);

/* The node of a mutex; NULL when a cluster has none for it, and then *error says so. */
struct sb_redis_node *sb_redis_store_route(simba_backend *store, const char *mutex,
                                           struct simba_error *error);

/* Subscribes for the listener where its mutex is, unless that has been done. */
void sb_redis_store_subscribe(simba_backend *store, struct sb_redis_listener *listener);

/* Lets go what was taken for any node. */
void sb_redis_store_flush(simba_backend *store);

/* The last step of a close, tried whenever something has closed. */
void sb_redis_store_finish_close(simba_backend *store);

#endif
