/*
 * login.h - how a connection is let in: its password and certificate, and the greeting, which is
 * said first on every connection: who we are, which database, what the server is.
 *
 * Files are read again for each connection, so that what was replaced there is used without a
 * restart. Where a file cannot be read any more (its process may have given up the right to, or it
 * is being written) what was read when the client was opened is used, and the reason is told when
 * the server refuses it.
 */
#ifndef SB_REDIS_LOGIN_H
#define SB_REDIS_LOGIN_H

#include "backend/redis/options.h"
#include "backend/redis/wire/resp.h"
#include "backend/redis/wire/tls.h"

struct sb_redis_login {
    const char *user;               /* NULL: none */
    const char *password;           /* NULL: none */
    const struct sb_redis_tls *tls; /* NULL: plain */
    struct sb_redis_tls *own_tls;   /* NULL: `tls` is the client's */
    bool to_sentinel;               /* the password is that of sentinels */
    struct simba_error unread;      /* why a file could not be read again; SIMBA_OK: all could */
    char text[SB_SECRET_MAX + 2];
};

/* Whether something has to be read from a file, which may block. */
bool sb_redis_login_has_files(const struct sb_redis_options *options,
                              const struct sb_redis_credentials *credentials);

/* Reads it. `tls` is what the client was opened with, and outlives the login. NULL when memory is
 * short. From any thread. */
struct sb_redis_login *sb_redis_login_create(const struct sb_redis_options *options,
                                             const struct sb_redis_credentials *credentials,
                                             const struct sb_redis_tls *tls);

void sb_redis_login_free(struct sb_redis_login *login);

#define SB_REDIS_GREETING_MAX 4

struct redisReply;

/* What is said. */
struct sb_redis_greeting_config {
    const struct sb_redis_login *login;
    const char *client_name;
    int64_t database;
    bool master_only; /* asks for the server's role, and refuses a replica */
};

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
    bool to_sentinel;
};

/* Writes all steps at once; false when memory is short. */
bool sb_redis_greeting_write(struct sb_redis_greeting *greeting,
                             const struct sb_redis_greeting_config *config,
                             struct sb_redis_buffer *target);

/* Takes the next reply: SIMBA_OK, with *ret_done behind the last one, or why the server is of no
 * use. */
int sb_redis_greeting_take(struct sb_redis_greeting *greeting, const struct sb_redis_place *place,
                           const struct redisReply *reply, bool *ret_done,
                           struct simba_error *error);

#endif
