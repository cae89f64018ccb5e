/*
 * ops.h - operations that need more than one command, or none of the scripts.
 */
#ifndef SB_REDIS_OPS_H
#define SB_REDIS_OPS_H

#include "backend/redis/request/request.h"

/* LIST: all mutexes of all servers. Answers the request by host->reply. */
void sb_redis_list_start(simba_backend *store, struct simba_request *request);

/* QUEUE: who waits for a mutex. Answers the request by host->reply. */
void sb_redis_queue_start(simba_backend *store, struct simba_request *request);

#endif
