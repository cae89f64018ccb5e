/*
 * ops.h - operations that need more than one command, or none of the scripts.
 */
#ifndef SB_REDIS_OPS_H
#define SB_REDIS_OPS_H

#include "backend/redis/request/store.h"

/* LIST: all mutexes of all servers. Answers the request by host->reply. */
void sb_redis_list_start(simba_backend *store, struct simba_request *request);

/* QUEUE: who waits for a mutex. Answers the request by host->reply. */
void sb_redis_queue_start(simba_backend *store, struct simba_request *request);

/* Asks whether the server evicts keys when its memory is short, and warns where it does. */
void sb_redis_eviction_check(simba_backend *store, struct sb_redis_node *node);

#endif
