/*
 * ops.h - the operations that tell of more than one contender: LIST and QUEUE.
 */
#ifndef SB_REDIS_OPS_H
#define SB_REDIS_OPS_H

#include "backend/redis/request/request.h"

/* LIST: carries out the request and answers it. */
void sb_redis_list_start(simba_backend *store, struct simba_request *request);

/* QUEUE: answers the request, which has passed the stages of all requests. */
sb_redis_call_take sb_redis_queue_take;

#endif
