/*
 * discover.h - which server is the one to talk to. Blocks; from any thread.
 */
#ifndef SB_REDIS_DISCOVER_H
#define SB_REDIS_DISCOVER_H

#include "backend/redis/wire/endpoint.h"
#include "backend/redis/wire/tls.h"
#include "backend/redis/topology/votes.h"

/* Asks all sentinels of the URL at once, and those that they tell of where these are needed, until enough of them
 * name the same master. Fills in what they said. */
int sb_redis_ask_sentinels(const struct sb_redis_options *options, const struct sb_redis_tls *tls,
                           struct sb_redis_votes *ret_votes, struct simba_error *error);

#endif
