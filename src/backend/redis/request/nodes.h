/*
 * nodes.h - the servers of a client: the one of the URL, the master that sentinels name, or the
 * masters of a cluster (nodes.c). Each has a connection for commands, one for subscriptions, the
 * requests that wait to be sent (backlog.c), and the leases that wait for replicas (quorum.c).
 */
#ifndef SB_REDIS_NODES_H
#define SB_REDIS_NODES_H

#include "backend/redis/pubsub/subscriptions.h"
#include "backend/redis/scripts/script.h"
#include "backend/redis/topology/cluster.h"
#include "backend/redis/topology/sentinels.h"
#include "backend/redis/wire/reconnecting.h"

#include <simba/backend.h>

/* ---- Requests that wait to be sent ----------------------------------------------------------- */

/* A server that gets more requests than it can answer in time answers none of them in time. So the
 * number of requests under way is limited. The others wait here: they have certainly not been
 * carried out, and renewals overtake requests that may be late without harm. */

struct sb_redis_backlog;
struct uv_loop_s;

/* A request that waits. Embedded by the request, so that waiting needs no memory and cannot fail.
 * All zeros but `expired` while it does not wait. */
struct sb_redis_backlog_entry {
    struct sb_redis_backlog_entry *next;
    struct sb_redis_backlog_entry *child;
    int64_t deadline_ms; /* on simba_now_ms() */
    /* Its time is over, or the backlog is closed: it waits no more and has not been taken. */
    void (*expired)(struct sb_redis_backlog_entry *entry, const struct simba_error *error);
};

/* Creates it, empty. closed(user) is called when it is gone. NULL when memory is short. */
struct sb_redis_backlog *sb_redis_backlog_create(struct uv_loop_s *loop, void (*closed)(void *user),
                                                 void *user);

/* Whether nothing can be taken. */
bool sb_redis_backlog_is_empty(const struct sb_redis_backlog *backlog);

/* Adds a request for `op`, which expires at its deadline unless it has been taken by then. */
void sb_redis_backlog_add(struct sb_redis_backlog *backlog, struct sb_redis_backlog_entry *entry,
                          enum simba_op op, int64_t deadline_ms);

/* Takes the next one: guards first, then releases, among equals the earliest deadline. NULL: there
 * is none. */
struct sb_redis_backlog_entry *sb_redis_backlog_take(struct sb_redis_backlog *backlog);

/* Destroys it; what waits expires at once. */
void sb_redis_backlog_close(struct sb_redis_backlog *backlog);

/* ---- Leases that wait for replicas ----------------------------------------------------------- */

/* The option wait-replicas. The acquires and guards of a batch share one WAIT behind them, because
 * WAIT speaks of all that its connection has written before. They are the members of one quorum:
 *
 *     prepare, send, join      for each request of the batch
 *     ask                      sends the WAIT behind them
 *     hold                     a request has its reply; `settled` is called when the WAIT has one
 *     leave                    the request ends, or is sent again */

struct sb_redis_quorum;

enum sb_redis_verdict {
    SB_REDIS_VERDICT_OPEN,    /* the WAIT has no reply yet */
    SB_REDIS_VERDICT_ENOUGH,  /* enough replicas have acknowledged */
    SB_REDIS_VERDICT_REFUSED, /* too few have */
    SB_REDIS_VERDICT_UNKNOWN  /* the reply is lost */
};

/* A request's part in it. All zeros but `settled` where it has none. */
struct sb_redis_quorum_member {
    struct sb_redis_quorum *quorum; /* NULL: none */
    struct sb_redis_quorum_member *next;
    /* Called once after hold, perhaps at once. */
    void (*settled)(struct sb_redis_quorum_member *member, enum sb_redis_verdict verdict);
};

/* Before a request is sent: makes sure that *open, which the next WAIT is for, is there. False when
 * memory is short. */
bool sb_redis_quorum_prepare(struct sb_redis_quorum **open, const struct sb_redis_options *options,
                             const struct sb_redis_command *command);

/* The request with this command has been sent: it belongs to the next WAIT. */
void sb_redis_quorum_join(struct sb_redis_quorum *open, struct sb_redis_quorum_member *member,
                          const struct sb_redis_command *command);

/* Sends the WAIT for those that have joined, if any, and empties *open. */
void sb_redis_quorum_ask(struct sb_redis_quorum **open, struct sb_redis_reconnecting *commands);

/* The server is no longer used: the outcome for those that have joined stays unknown. Empties
 * *open. */
void sb_redis_quorum_abandon(struct sb_redis_quorum **open);

/* The request has won its lease: `settled` tells whether it counts. */
void sb_redis_quorum_hold(struct sb_redis_quorum_member *member);

/* Ends the membership, if there is one. Not while it is held. */
void sb_redis_quorum_leave(struct sb_redis_quorum_member *member);

/* Why the quorum did not come about. Valid until leave. */
const struct simba_error *sb_redis_quorum_reason(const struct sb_redis_quorum_member *member);

/* ---- Nodes ----------------------------------------------------------------------------------- */

struct sb_redis_nodes;

struct sb_redis_node {
    struct sb_redis_node *next;
    struct sb_redis_nodes *nodes;
    struct sb_wire_place place; /* of a cluster's node */
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
    void (*closed)(void *user); /* after sb_redis_nodes_close: all is gone */
};

struct sb_redis_nodes {
    const struct simba_backend_host *host;
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
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

/* Frees nodes whose opening failed. */
void sb_redis_nodes_free(struct sb_redis_nodes *nodes);

/* Closes all nodes; requests under way are answered. */
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
