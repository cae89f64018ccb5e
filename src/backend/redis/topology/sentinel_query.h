/*
 * sentinel_query.h - asks one sentinel for its id, for the other sentinels that it knows, and for
 * the master; asks all of them once.
 *
 * All of it is asked at once on one connection, so that the parts belong together: what an address
 * leads to may change between two connections.
 */
#ifndef SB_REDIS_SENTINEL_QUERY_H
#define SB_REDIS_SENTINEL_QUERY_H

#include "backend/redis/topology/votes.h"
#include "backend/redis/wire/connection.h"
#include "backend/redis/wire/endpoint.h"
#include "backend/redis/wire/tls.h"

#define SB_REDIS_SENTINEL_QUERY_STEPS 3

struct sb_redis_sentinel_query;

/* Takes a command, as sb_redis_reconnecting_send and sb_redis_connection_send do. */
typedef int sb_redis_sentinel_query_send(void *via, struct sb_redis_command *command,
                                         const struct sb_redis_argument *arguments, size_t count,
                                         struct simba_error *error);

struct sb_redis_sentinel_query_step {
    struct sb_redis_command command; /* first */
    struct sb_redis_sentinel_query *query;
};

/* Embedded by the asker; stays where it is until `answered` is called. */
struct sb_redis_sentinel_query {
    const struct sb_redis_options *options;
    void (*answered)(struct sb_redis_sentinel_query *query);
    void *user;

    struct sb_redis_sentinel_query_step steps[SB_REDIS_SENTINEL_QUERY_STEPS];
    size_t open;      /* steps without a reply */
    int64_t asked_ms; /* before it was sent */
    int code; /* SIMBA_OK: `answer` is what the sentinel said; otherwise `error` says why not */
    struct simba_error error;
    struct sb_redis_sentinel_answer answer;
};

/* SIMBA_OK: `answered` will be called once, not from within. Otherwise it will not, and *error says
 * why. */
int sb_redis_sentinel_query_start(struct sb_redis_sentinel_query *query,
                                  sb_redis_sentinel_query_send *send, void *via,
                                  int64_t deadline_ms, struct simba_error *error);

/* Asks all sentinels of the URL at once, and those that they tell of where these are needed, until
 * enough of them name the same master. Fills in what they said. */
int sb_redis_sentinel_query_all(const struct sb_redis_options *options,
                                const struct sb_redis_tls *tls, struct sb_redis_votes *ret_votes,
                                struct simba_error *error);

#endif
