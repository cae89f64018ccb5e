/*
 * discover.h - which server is the one to talk to. Blocks; from any thread.
 */
#ifndef SB_REDIS_DISCOVER_H
#define SB_REDIS_DISCOVER_H

#include "backend/redis/endpoint.h"
#include "backend/redis/tls.h"

#include <stdatomic.h>

/* The server of the URL or, with sentinels, the master that they name now. *sentinel is the place among the
 * URL's of the one that answered last, which is asked first; with `skip` others are, because what was
 * found before was of no use. */
int sb_redis_find_master(const struct sb_redis_options *options, const struct sb_tls *tls,
                         atomic_size_t *sentinel, size_t skip, struct sb_endpoint *ret_endpoint,
                         struct simba_error *error);

/* Whether the above may take long. */
bool sb_redis_find_blocks(const struct sb_redis_options *options);

/* Whether the server can be used now: connects, authenticates, asks it. */
int sb_redis_check(const struct sb_redis_options *options, const struct sb_tls *tls,
                   const struct sb_endpoint *endpoint, struct simba_error *error);

#endif
