/*
 * nodes.h - the servers of a client: the one of the URL, the master that sentinels name, or the
 * masters of a cluster. Each has a connection for commands, one for subscriptions, and the requests
 * that wait for their turn.
 */
#ifndef SB_REDIS_NODES_H
#define SB_REDIS_NODES_H

#include "backend/redis/pubsub/subscriptions.h"
#include "backend/redis/request/backlog.h"
#include "backend/redis/request/quorum.h"
#include "backend/redis/scripts/script.h"
#include "backend/redis/topology/cluster.h"
#include "backend/redis/topology/sentinels.h"

struct sb_redis_nodes;

struct sb_redis_node {
    struct sb_redis_node *next;
    struct sb_redis_nodes *nodes;
    struct sb_redis_place place; /* of a cluster's node */
    struct sb_redis_reconnecting *commands;
    struct sb_redis_subscriber *subscriber;
    struct sb_redis_backlog *backlog;       /* the calls that wait to be sent */
    struct sb_redis_quorum *quorum;         /* that the next WAIT is for; NULL: none */
    struct sb_redis_loaded_scripts scripts; /* that the server knows */
    unsigned parts;                         /* commands, subscriber, backlog: not closed yet */
    unsigned outage;                        /* how many of the two connections are down */
    unsigned slots;                         /* of the cluster: that it serves */
    bool was_ready;
};

struct sb_redis_nodes_events {
    /* The connection for commands is up; `first`: for the first time. */
    void (*ready)(void *user, struct sb_redis_node *node, bool first);
    /* Calls that wait in the backlog can be sent, or are refused at once. */
    void (*room)(void *user, struct sb_redis_node *node);
    /* A release has told a contender to try, whose listener may only linger. The table of listeners
     * must not change meanwhile. */
    void (*released)(void *user, struct sb_redis_listener *listener);
    void (*closed)(void *user); /* after sb_redis_nodes_close: all is gone */
};

struct sb_redis_nodes {
    const struct simba_backend_host *host;
    const struct sb_redis_options *options;
    const struct sb_redis_tls *tls;
    struct sb_redis_listeners *listeners;
    const struct sb_redis_nodes_events *events;
    void *user;

    struct sb_redis_node *first;
    unsigned count;                       /* with those that are being closed */
    struct sb_redis_cluster *cluster;     /* NULL: none */
    struct sb_redis_sentinels *sentinels; /* NULL: none */
    bool closing;
};

/* Blocks: finds the servers, and asks whether they can be used before anything is put on the loop.
 * The first six fields are set, the others zero. On failure sb_redis_nodes_free is due. */
int sb_redis_nodes_open(struct sb_redis_nodes *nodes, struct simba_error *error);

/* Frees what was not opened. */
void sb_redis_nodes_free(struct sb_redis_nodes *nodes);

/* Takes all down; what is under way is answered. */
void sb_redis_nodes_close(struct sb_redis_nodes *nodes);

/* The node of a mutex; NULL when a cluster has none for it, and then *error (which may be NULL)
 * says so. */
struct sb_redis_node *sb_redis_nodes_route(const struct sb_redis_nodes *nodes, const char *mutex,
                                           struct simba_error *error);

/* Subscribes for the listener where its mutex is, unless that has been done. */
void sb_redis_nodes_subscribe(const struct sb_redis_nodes *nodes,
                              struct sb_redis_listener *listener);

/* A server did not answer, or there is none for a slot: it may have been replaced. */
void sb_redis_nodes_suspect(const struct sb_redis_nodes *nodes);

/* The server is the wrong one by now: finds it anew. */
void sb_redis_node_drop(struct sb_redis_node *node, const struct simba_error *error);

/* Sends the WAIT for the calls that need one, and then everything that was written. */
void sb_redis_node_flush(struct sb_redis_node *node);
void sb_redis_nodes_flush(const struct sb_redis_nodes *nodes);

#endif
