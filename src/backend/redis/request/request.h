/*
 * request.h - a client of Redis, and the stages of a request.
 *
 * The order in which a request passes the stages:
 *
 *      1. redis.c     takes the requests of a batch one by one; LIST goes to ops/, whose READs come
 *                     back to stage 2
 *      2. request.c   makes a call of a script; refuses an ACQUIRE while the sentinels do not
 *                     confirm the master
 *      3. nodes.c     routes it to the node of its mutex
 *      4. backlog.c   lets it wait for room on the node's connection, renewals first
 *      5. call.c      writes EVALSHA with keys and values
 *      6. quorum.c    makes an ACQUIRE or GUARD a member of the next WAIT
 *      7. call.c      reads the reply; request.c sends the call again where the script is missing
 *                     (5) or the slot has moved (5, at another node)
 *      8. waiting.c   an ACQUIRE that lost subscribes and waits
 *      9. quorum.c    holds a lease back until enough replicas have it; where too few have, an
 *                     ACQUIRE goes through 5 and 7 once more, as a RELEASE
 *     10. call.c      answers the request, once, and frees the call
 *
 * Calls between the folders of the store go down only; scripts/check-layers checks it:
 *
 *     redis.c
 *     ops/                  operations of more than one command: list, queue, inspect
 *     request/              the stages above
 *     pubsub/  topology/    which contender listens to what; which server a mutex is on
 *     keys.c                names of keys and channels
 *     wire/                 connections: bytes, not locks
 *     options.c  scripts/
 */
#ifndef SB_REDIS_REQUEST_H
#define SB_REDIS_REQUEST_H

#include "backend/redis/options.h"
#include "backend/redis/request/nodes.h"

#include <simba/backend.h>

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A client. */
struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_redis_options options;
    struct sb_wire_tls *tls;
    struct sb_redis_listeners listeners;
    struct sb_redis_nodes nodes;
    uint64_t largest_token; /* of any reply */
    void (*closed)(void *argument);
    void *argument;
};

/* A contender, or an observer (`id` NULL), begins or ends to listen. */
void sb_redis_waiting_listen(simba_backend *store, const char *mutex, const char *id, bool on);

/* Since when the contender of a request waits, by the server's clock; 0: it does not. */
int64_t sb_redis_waiting_since_us(const simba_backend *store, const struct simba_request *request);

/* An attempt has been won: its contender waits no more. */
void sb_redis_waiting_won(simba_backend *store, const struct simba_request *request);

/* An attempt has been lost: its contender, unless it has gone meanwhile, waits since `since_us`,
 * and listens. */
void sb_redis_waiting_lost(simba_backend *store, const struct simba_request *request,
                           int64_t since_us);

/* ---- Calls ----------------------------------------------------------------------------------- */

struct redisReply;

struct sb_redis_record {
    bool owned;
    char owner[SIMBA_ID_MAX + 1];
    int64_t left_ms;          /* of the lease */
    int64_t reserved_left_ms; /* ACQUIRE of a free mutex: reserved for another; 0: it is not */
    uint64_t revision;
    int64_t waiters; /* READ; -1: not told */
    int64_t held_ms; /* the same */
    /* By the server's clock. ACQUIRE that lost: since when it waits; QUEUE: now; 0: not told. */
    int64_t since_us;
    const struct redisReply *queue;    /* QUEUE: ids and scores, while the record is taken */
    const struct redisReply *property; /* of the hash, or nothing; while the record is taken */
    int64_t store_ms;                  /* GET_PROPERTY, SET_PROPERTY: the server's time */
    bool written;                      /* SET_PROPERTY */
    int64_t place;                     /* ACQUIRE that lost: in the queue, from 1; 0: not told */
    bool missed; /* RELEASE: the key was not the term that was named; FORGET, RAISE: not done */
    int64_t as_of_ms; /* what `left_ms` counts from, by our clock; 0: from the request */
};

/* False when it is no such reply of a script for `op`. `id` is whose request it was, NULL for
 * nobody's: no other owner's name is ever written like this one. */
bool sb_redis_record_read(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, const char *id, const struct sb_redis_options *options);

/* The same for the reply of a script that did what it is for: the token alone. `known` is the token
 * that was sent. */
bool sb_redis_record_done(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, uint64_t known, const struct simba_request *request);

/* Whether `id`, which may be NULL, owns. */
bool sb_redis_record_is_owned_by(const struct sb_redis_record *record, const char *id);

/* Takes what became of a request: a record, or an error (then `record` is NULL). */
typedef void sb_redis_call_take(simba_backend *store, struct simba_request *request,
                                const struct sb_redis_record *record,
                                const struct simba_error *error);

struct sb_redis_call {
    struct sb_redis_command command;      /* first: the command is the call */
    struct sb_redis_backlog_entry entry;  /* while it waits for its turn */
    struct sb_redis_quorum_member member; /* while replicas are waited for */
    simba_backend *store;
    struct simba_request *request;
    sb_redis_call_take *take;
    struct sb_redis_node *node;
    enum simba_op op;               /* the request's, or RELEASE while its lease is released */
    uint16_t attempts;              /* before this one */
    bool needs_text;                /* the server did not know the script */
    bool asking;                    /* the slot is on its way to the node */
    bool gives_back;                /* an ACQUIRE whose quorum has refused it */
    int64_t made_ms;                /* when the request was */
    uint64_t revision;              /* the request's, or that of a lease to give back */
    uint64_t sent_as;               /* which call of a script on its node it was */
    struct sb_redis_record *record; /* of a lease that is held back; NULL where none can be */
};

/* Whether it makes or keeps a lease that replicas must acknowledge. */
bool sb_redis_call_needs_quorum(const struct sb_redis_call *call);

/* Calls the script on the call's node. SIMBA_OK: `answered` will be called. Otherwise it will not,
 * and *error says why. */
int sb_redis_call_send(struct sb_redis_call *call, struct simba_error *error);

/* Sends it again, to this node: at once, when the node can be connected to, or not at all, and then
 * the request fails. */
void sb_redis_call_send_again(struct sb_redis_call *call, struct sb_redis_node *node);

/* Answers the request, with a record or an error or, for LIST, neither; frees the call. */
void sb_redis_call_end(struct sb_redis_call *call, const struct sb_redis_record *record,
                       const struct simba_error *error);

/* The same when the request was not carried out. */
void sb_redis_call_fail(struct sb_redis_call *call, const struct simba_error *error);

/* The same when it may or may not have been carried out. */
void sb_redis_call_lose(struct sb_redis_call *call, const struct simba_error *why);

/* ---- Requests -------------------------------------------------------------------------------- */

/* Answers a request by host->reply. */
sb_redis_call_take sb_redis_request_reply;

/* Begins to carry out a request, any but LIST; `take` is called exactly once, perhaps at
 * once. */
void sb_redis_request_start(simba_backend *store, struct simba_request *request,
                            sb_redis_call_take *take);

/* Waits until it is a LIST's turn on a node: then `take` gets neither a record nor an error. */
void sb_redis_request_await_turn(struct sb_redis_node *node, simba_backend *store,
                                 struct simba_request *request, sb_redis_call_take *take);

/* There is room on a node's connection: sends the requests that wait for that. */
void sb_redis_request_send_waiting(void *store, struct sb_redis_node *node);

#endif
