/*
 * eviction.h - a warning about servers that throw leases away when their memory is short.
 */
#ifndef SB_REDIS_EVICTION_H
#define SB_REDIS_EVICTION_H

#include "backend/redis/request/nodes.h"

/* Asks the server, once for each node, and says so in the log when it may evict. The right to ask (INFO) is
 * not needed: without it nothing is said. */
void sb_redis_eviction_check(struct sb_redis_node *node);

#endif
