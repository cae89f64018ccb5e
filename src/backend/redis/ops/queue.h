/*
 * queue.h - carries out QUEUE: who waits for a mutex.
 */
#ifndef SB_REDIS_QUEUE_H
#define SB_REDIS_QUEUE_H

#include "backend/redis/request/nodes.h"

/* Answers the request by host->reply. */
void sb_redis_queue_start(simba_backend *store, struct simba_request *request);

#endif
