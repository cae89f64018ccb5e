/*
 * store.h - a client of Redis: what the stages of a request share.
 *
 * The order in which a request passes the stages:
 *
 *      1. redis.c     takes the requests of a batch one by one; LIST and QUEUE go to ops/, whose
 *                     READs come back to stage 2
 *      2. request.c   makes a call of a script; refuses an ACQUIRE while the sentinels do not
 *                     confirm the master
 *      3. nodes.c     routes it to the node of its mutex
 *      4. waiting.c   holds an ACQUIRE back for a moment whose contender has just woken a waiter
 *      5. backlog.c   lets it wait for room on the node's connection, renewals first
 *      6. call.c      writes EVALSHA with keys and values
 *      7. quorum.c    makes an ACQUIRE or GUARD a member of the next WAIT
 *      8. call.c      reads the reply; request.c sends the call again where the script is missing
 *                     (6) or the slot has moved (6, at another node)
 *      9. waiting.c   an ACQUIRE that lost subscribes and waits
 *     10. quorum.c    holds a lease back until enough replicas have it; where too few have, an
 *                     ACQUIRE goes through 6 and 8 once more, as a RELEASE
 *     11. call.c      answers the request, once, and frees the call
 *
 * Calls between the folders of the store go down only; scripts/check-layers checks it:
 *
 *     redis.c
 *     ops/                  operations of more than one command: list, queue, eviction
 *     request/              the stages above
 *     pubsub/  topology/    which contender listens to what; which server a mutex is on
 *     keys.c                names of keys and channels
 *     wire/                 connections: bytes, not locks
 *     options.c failure.c scripts/
 */
#ifndef SB_REDIS_STORE_H
#define SB_REDIS_STORE_H

#include "backend/redis/request/nodes.h"
#include "backend/redis/request/waiting.h"

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_redis_options options;
    struct sb_redis_tls *tls;
    struct sb_redis_listeners listeners;
    struct sb_redis_nodes nodes;
    struct sb_redis_yields yields;
    uint64_t largest_token; /* of any reply */
    void (*closed)(void *argument);
    void *argument;
};

#endif
