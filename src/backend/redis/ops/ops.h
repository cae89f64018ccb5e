/*
 * ops.h - the operations that are not about one contender: LIST, QUEUE, INSPECT and the
 * properties.
 */
#ifndef SB_REDIS_OPS_H
#define SB_REDIS_OPS_H

#include "backend/redis/request/request.h"

/* LIST: carries out the request and answers it. */
void sb_redis_list_start(simba_backend *store, struct simba_request *request);

/* QUEUE: answers the request, which has passed the stages of all requests. */
sb_redis_call_take sb_redis_queue_take;

/* GET_PROPERTY, SET_PROPERTY: the same. */
sb_redis_call_take sb_redis_property_take;

/* INSPECT: carries out the request and answers it. */
void sb_redis_inspect_start(simba_backend *store, struct simba_request *request);

/* Whether a server evicts keys when its memory is short, by what it says in INFO. Every lease has
 * an expiry, so each policy but noeviction may evict a lease that an owner believes in. */
#define SB_REDIS_FIELD_MAX 64
bool sb_redis_info_evicts(const char *info, char ret_policy[SB_REDIS_FIELD_MAX]);

#endif
