/*
 * redis.h - the backend for Redis and Valkey: one server, sentinels or a cluster.
 */
#ifndef SB_REDIS_REDIS_H
#define SB_REDIS_REDIS_H

#include <simba/backend.h>

extern const struct simba_backend_ops sb_redis_ops;

#endif
