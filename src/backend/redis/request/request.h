/*
 * request.h - carries requests out: one script each.
 */
#ifndef SB_REDIS_REQUEST_H
#define SB_REDIS_REQUEST_H

#include "backend/redis/request/call.h"

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
