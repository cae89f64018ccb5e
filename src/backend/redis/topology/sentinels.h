/*
 * sentinels.h - keeps asking all sentinels of a master which server that is.
 *
 * Each is asked every quarter of a ttl (100 ms to 1 s), and at once when one of them announces a
 * fail-over. votes.h counts what they say. The first queries are those of sentinel_query.h, made
 * before: a client that lives for a moment asks once only. All on the loop.
 */
#ifndef SB_REDIS_SENTINELS_H
#define SB_REDIS_SENTINELS_H

#include "backend/redis/wire/tls.h"
#include "backend/redis/topology/votes.h"

struct sb_redis_sentinels;

struct sb_redis_sentinels_events {
    void (*moved)(void *user);  /* another master than before is the one to use */
    void (*closed)(void *user); /* after sb_redis_sentinels_close; it is gone */
};

/* Creates it, with nothing on the loop. `votes` is copied and has a master. NULL when memory is
 * short. */
struct sb_redis_sentinels *sb_redis_sentinels_create(const struct simba_backend_host *host,
                                                     const struct sb_redis_options *options,
                                                     const struct sb_redis_tls *tls,
                                                     const struct sb_redis_votes *votes,
                                                     const struct sb_redis_sentinels_events *events,
                                                     void *user);

/* Frees one that was not started. */
void sb_redis_sentinels_free(struct sb_redis_sentinels *sentinels);

void sb_redis_sentinels_start(struct sb_redis_sentinels *sentinels);

/* The master to use. */
const struct sb_redis_place *sb_redis_sentinels_master(const struct sb_redis_sentinels *sentinels);

/* SIMBA_OK when the master has been confirmed within `age_ms`; otherwise *error says what is
 * missing. */
int sb_redis_sentinels_check(const struct sb_redis_sentinels *sentinels, int64_t age_ms,
                             struct simba_error *error);

/* The instant that a lease on this server may count from, which was asked for at `made_ms`: that,
 * or when the server was last confirmed, where that is earlier. 0: it is not the master. */
int64_t sb_redis_sentinels_as_of(const struct sb_redis_sentinels *sentinels,
                                 const struct sb_redis_place *place, int64_t made_ms);

/* Destroys it. */
void sb_redis_sentinels_close(struct sb_redis_sentinels *sentinels);

#endif
