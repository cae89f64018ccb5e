/*
 * greeting.h - what is said first on every connection: who we are, which database, what the server is.
 */
#ifndef SB_REDIS_GREETING_H
#define SB_REDIS_GREETING_H

#include "backend/redis/wire/buffer.h"
#include "backend/redis/wire/connection.h"

#define SB_REDIS_GREETING_MAX 4

enum sb_redis_greeting_step {
    SB_REDIS_GREETING_AUTH,
    SB_REDIS_GREETING_SELECT,
    SB_REDIS_GREETING_NAME,
    SB_REDIS_GREETING_ROLE
};

/* The steps whose replies are to come. */
struct sb_redis_greeting {
    enum sb_redis_greeting_step steps[SB_REDIS_GREETING_MAX];
    size_t count;
    size_t taken;
};

/* Writes all steps at once; false when memory is short. */
bool sb_redis_greeting_write(struct sb_redis_greeting *greeting,
                             const struct sb_redis_connection_config *config,
                             struct sb_redis_buffer *target);

/* Takes the next reply: SIMBA_OK, with *ret_done behind the last one, or why the server is of no use. */
int sb_redis_greeting_take(struct sb_redis_greeting *greeting, const struct sb_redis_place *place,
                           const struct redisReply *reply, bool *ret_done,
                           struct simba_error *error);

#endif
