/*
 * endpoint.h - from the name of a host to addresses that a socket can be connected to.
 */
#ifndef SB_REDIS_ENDPOINT_H
#define SB_REDIS_ENDPOINT_H

#include "backend/redis/options.h"

#include <sys/socket.h>

#define SB_REDIS_ENDPOINT_ADDRESSES_MAX 8

struct sb_redis_endpoint {
    struct sb_redis_place place;
    struct sockaddr_storage addresses[SB_REDIS_ENDPOINT_ADDRESSES_MAX]; /* to be tried in turn */
    size_t address_count;
};

/* Whether the name has to be looked up, which may take long. */
bool sb_redis_endpoint_must_be_looked_up(const struct sb_redis_place *place);

/* Blocks where the name has to be looked up. From any thread. */
int sb_redis_endpoint_resolve(const struct sb_redis_place *place,
                              struct sb_redis_endpoint *ret_endpoint, struct simba_error *error);

#endif
