/*
 * store.h - a client of Redis from the inside: the servers it talks to and what they share.
 */
#ifndef SB_REDIS_STORE_H
#define SB_REDIS_STORE_H

#include "backend/redis/wire/link.h"
#include "backend/redis/pubsub/listeners.h"
#include "backend/redis/scripts/script.h"
#include "backend/redis/pubsub/subscriber.h"
#include "backend/redis/request/told.h"

struct sb_backlog;
struct sb_cluster;
struct sb_quorum;
struct sb_sentinels;

/* A server, with a connection for commands and one for subscriptions. */
struct sb_node {
    struct sb_node *next;
    simba_backend *store;
    struct sb_redis_place place; /* of a cluster's node */
    struct sb_link *commands;
    struct sb_subscriber *subscriber;
    struct sb_backlog *backlog;       /* what waits to be sent */
    unsigned parts;                   /* the three above */
    uint64_t sent;                    /* scripts called so far */
    uint64_t loaded[SB_SCRIPT_COUNT]; /* what `sent` was when the script's text was last sent */
    struct sb_quorum *quorum;         /* the requests that the next WAIT is for */
    unsigned outage;                  /* how many of the two connections are down */
    bool asked_about_eviction;
    bool stays; /* mark of a cluster's refresh */
};

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_redis_options options;
    struct sb_tls *tls;
    struct sb_listeners listeners;
    struct sb_node *nodes;          /* one, or the masters of a cluster */
    unsigned node_count;            /* with those that are being closed */
    struct sb_cluster *cluster;     /* NULL: none */
    struct sb_sentinels *sentinels; /* NULL: none */
    uint64_t seen;                  /* the largest token of any reply */
    struct sb_told told;
    bool closing;
    void (*closed)(void *argument);
    void *argument;
};

/* Adds the server that the URL leads to (`place` NULL), or a node of a cluster. NULL when memory is
 * short. */
struct sb_node *sb_node_add(simba_backend *store, const struct sb_redis_place *place);

/* Takes it out of the store's list and closes it; what is under way there is answered. */
void sb_node_remove(struct sb_node *node);

/* The server is the wrong one by now: finds it anew. */
void sb_node_drop(struct sb_node *node, const struct simba_error *error);

/* The sentinels name another master than before: goes there. */
void sb_node_follow_master(struct sb_node *node);

/* The node of a mutex; NULL when a cluster has none for it, and then *error says so. */
struct sb_node *sb_store_route(simba_backend *store, const char *mutex, struct simba_error *error);

/* Subscribes for the listener where its mutex is, unless that has been done. */
void sb_store_subscribe(simba_backend *store, struct sb_listener *listener);

/* Lets go what was taken for any node. */
void sb_store_flush(simba_backend *store);

/* The last step of a close, tried whenever something has closed. */
void sb_store_finish_close(simba_backend *store);

#endif
