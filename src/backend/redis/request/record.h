/*
 * record.h - what the reply of a script tells about a mutex.
 */
#ifndef SB_REDIS_RECORD_H
#define SB_REDIS_RECORD_H

#include "backend/redis/options.h"

struct redisReply;

struct sb_redis_record {
    bool owned;
    char owner[SIMBA_ID_MAX + 1];
    int64_t left_ms;
    uint64_t revision;
    int64_t waiters;  /* READ; -1: not told */
    int64_t since_us; /* ACQUIRE that lost: since when it waits (server's clock); 0: not told */
    int64_t place;    /* ACQUIRE that lost: in the queue, from 1; 0: not told */
    bool woke;        /* RELEASE: it has woken a waiter */
    int64_t as_of_ms; /* what `left_ms` counts from, by our clock; 0: from the request */
};

/* False when it is no such reply of a script for `op`. `id` is whose request it was, NULL for
 * nobody's: no other owner's name is ever written like this one. */
bool sb_redis_record_read(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, const char *id, const struct sb_redis_options *options);

/* The same for the reply of a script that did what it is for: the token alone, and behind that of a
 * release the waiter that it has woken. `known` is the token that was sent. */
bool sb_redis_record_done(struct sb_redis_record *record, const struct redisReply *reply,
                          enum simba_op op, uint64_t known, const struct simba_request *request);

/* Whether `id`, which may be NULL, owns. */
bool sb_redis_record_is_owned_by(const struct sb_redis_record *record, const char *id);

#endif
