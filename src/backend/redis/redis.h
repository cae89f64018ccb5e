/*
 * redis.h - the backend for Redis and Valkey: one server, sentinels or a cluster.
 */
#ifndef SB_REDIS_REDIS_H
#define SB_REDIS_REDIS_H

#include "backend/module.h"

extern const struct sb_module sb_redis_module SB_SHARED("redis_module");

#endif
