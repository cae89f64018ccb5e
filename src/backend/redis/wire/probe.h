/*
 * probe.h - one question to one server on a connection of its own, waited for.
 *
 * It runs a loop of its own, so that it can be used where the client's loop cannot go on: while a client
 * is being opened, and on a scout's thread.
 */
#ifndef SB_REDIS_PROBE_H
#define SB_REDIS_PROBE_H

#include "backend/redis/wire/connection.h"

struct sb_redis_ask_config {
    const struct sb_redis_options *options;
    const struct sb_redis_tls *tls;
    const struct sb_redis_credentials *credentials;
    int64_t database;
    int64_t connect_timeout_ms; /* 0: that of the options */
    bool master_only;
};

/* Of a connection whose commands tell all that is to be known. */
extern const struct sb_redis_connection_events sb_redis_ask_events;

/* Takes the reply, which is no error reply; the result is that of the probe. */
typedef int sb_redis_ask_take(void *user, const struct redisReply *reply,
                              struct simba_error *error);

/* Blocks, at most for the connect-timeout and the command-timeout. `take` may be NULL: any reply will do. */
int sb_redis_ask(const struct sb_redis_ask_config *config, const struct sb_redis_endpoint *endpoint,
                 const struct sb_redis_argument *arguments, size_t count, sb_redis_ask_take *take,
                 void *user, struct simba_error *error);

#endif
