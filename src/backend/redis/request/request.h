/*
 * request.h - carries requests out: one script each.
 */
#ifndef SB_REDIS_REQUEST_H
#define SB_REDIS_REQUEST_H

#include "backend/redis/request/nodes.h"

struct redisReply;

/* What a script's reply tells. */
struct sb_redis_record {
    bool owned;
    char owner[SIMBA_ID_MAX + 1];
    int64_t left_ms;
    uint64_t revision;
    int64_t waiters;  /* READ; -1: not told */
    int64_t since_us; /* ACQUIRE that lost: since when it waits (server's clock); 0: not told */
    int64_t place;    /* ACQUIRE that lost: in the queue, from 1; 0: not told */
    int64_t as_of_ms; /* what `left_ms` counts from, by our clock; 0: from the request */
};

/* False when it is no such reply of a script for `op`. `id` is whose request it was, NULL for nobody's: no other owner's name
 * is ever written like this one. */
bool sb_redis_record_read(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, const char *id, const struct sb_redis_options *options);

/* The same for the reply of a script that did what it is for: the token alone. `known` is the one that was sent. */
bool sb_redis_record_done(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, uint64_t known, const struct simba_request *request);

/* Takes what became of a request: a record, or an error (then `record` is NULL). */
typedef void sb_redis_request_take(simba_backend *store, struct simba_request *request,
                                   const struct sb_redis_record *record,
                                   const struct simba_error *error);

/* Tells the host. */
sb_redis_request_take sb_redis_request_reply;

/* Begins to carry out a request, any but LIST; `take` is called exactly once, perhaps at once. */
void sb_redis_request_start(simba_backend *store, struct simba_request *request,
                            sb_redis_request_take *take);

/* The same for a request that must not come behind those that are started later: where it would have to be sent again
 * it fails. */
void sb_redis_request_start_once(simba_backend *store, struct simba_request *request,
                                 sb_redis_request_take *take);

/* Waits until it is a LIST's turn on a node: then `take` gets neither a record nor an error. */
void sb_redis_request_await_turn(struct sb_redis_node *node, struct simba_request *request,
                                 sb_redis_request_take *take);

/* Lets the next command into a slot that is on its way to the node. */
int sb_redis_request_send_asking(struct sb_redis_node *node, int64_t deadline_ms,
                                 struct simba_error *error);

/* To be called when there is room on a node's connection: sends what waits for that. */
void sb_redis_request_go_on(struct sb_redis_node *node);

/* To be called when a batch has been started: asks for the acknowledgements that were demanded, and lets
 * everything go. */
void sb_redis_request_batch_end(simba_backend *store);

#endif
