/*
 * request.h - carries requests out: one call of a script each (call.c), sent in its turn and
 * answered (request.c).
 */
#ifndef SB_REDIS_REQUEST_H
#define SB_REDIS_REQUEST_H

#include "backend/redis/options.h"
#include "backend/redis/request/store.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

struct redisReply;

struct sb_redis_record {
    bool owned;
    char owner[SIMBA_ID_MAX + 1];
    int64_t left_ms;
    uint64_t revision;
    int64_t waiters;  /* READ; -1: not told */
    int64_t since_us; /* ACQUIRE that lost: since when it waits (server's clock); 0: not told */
    int64_t place;    /* ACQUIRE that lost: in the queue, from 1; 0: not told */
    bool woke;        /* RELEASE: it has woken a waiter */
    bool missed;      /* RELEASE: the key was not the term that was named */
    int64_t as_of_ms; /* what `left_ms` counts from, by our clock; 0: from the request */
};

/* False when it is no such reply of a script for `op`. `id` is whose request it was, NULL for
 * nobody's: no other owner's name is ever written like this one. */
bool sb_redis_record_read(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, const char *id, const struct sb_redis_options *options);

/* The same for the reply of a script that did what it is for: the token alone, and behind that of a
 * release the waiter that it has woken. `known` is the token that was sent. */
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
    enum simba_op op;               /* the request's, or RELEASE while its lease is given back */
    uint16_t attempts;              /* before this one */
    bool once;                      /* it is not sent again */
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

/* Lets the next command into a slot that is on its way to the node. */
int sb_redis_call_send_asking(struct sb_redis_node *node, int64_t deadline_ms,
                              struct simba_error *error);

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

/* Begins to carry out a request, any but LIST and QUEUE; `take` is called exactly once, perhaps at
 * once. */
void sb_redis_request_start(simba_backend *store, struct simba_request *request,
                            sb_redis_call_take *take);

/* Waits until it is a LIST's turn on a node: then `take` gets neither a record nor an error. */
void sb_redis_request_await_turn(struct sb_redis_node *node, simba_backend *store,
                                 struct simba_request *request, sb_redis_call_take *take);

/* The contender of a listener that lingers may be in the queue on the server, and may have been
 * told to try: it leaves, and where the mutex is free the next waiter is told. Nothing happens
 * while it is leaving already: it leaves at most once in a round trip. */
void sb_redis_request_leave_queue(simba_backend *store, struct sb_redis_listener *listener);

/* There is room on a node's connection: sends what waits for that. */
void sb_redis_request_go_on(struct sb_redis_node *node);

#endif
