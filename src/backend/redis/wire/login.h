/*
 * login.h - what a connection shows to be let in: a password, and a certificate with its key.
 *
 * Files are read again for each connection, so that what was replaced there is used without a restart. Where one cannot
 * be read any more (its process may have given up the right to, or it is being written) what was read when the client
 * was opened is used, and the reason is told when the server refuses it.
 */
#ifndef SB_REDIS_LOGIN_H
#define SB_REDIS_LOGIN_H

#include "backend/redis/options.h"
#include "backend/redis/wire/tls.h"

struct sb_redis_login {
    const char *user;               /* NULL: none */
    const char *password;           /* NULL: none */
    const struct sb_redis_tls *tls; /* NULL: plain */
    struct sb_redis_tls *own_tls;   /* NULL: `tls` is the client's */
    struct simba_error unread;      /* why a file could not be read again; SIMBA_OK: all could */
    char text[SB_SECRET_MAX + 2];
};

/* Whether something has to be read from a file, which may block. */
bool sb_redis_login_has_files(const struct sb_redis_options *options,
                              const struct sb_redis_credentials *credentials);

/* Reads it. `tls` is what the client was opened with, and outlives the login. NULL when memory is short. From any
 * thread. */
struct sb_redis_login *sb_redis_login_create(const struct sb_redis_options *options,
                                             const struct sb_redis_credentials *credentials,
                                             const struct sb_redis_tls *tls);

void sb_redis_login_free(struct sb_redis_login *login);

#endif
