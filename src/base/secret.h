/*
 * secret.h - a password that a store keeps for its next connection.
 *
 * Where the URL names a file, the file is read again for every connection, so that a password that
 * was changed there is used without a restart. Never changes once it is taken: any thread may ask.
 */
#ifndef SB_BASE_SECRET_H
#define SB_BASE_SECRET_H

#include "base/shared.h"

#include <simba/backend.h>

#define SB_SECRET_MAX 1024 /* bytes */

struct sb_secret {
    char *text; /* when the URL was read; NULL: there is none */
    char *path; /* the whole name of its file; NULL: there is none, or it cannot be read again */
};

/* Takes the password of a URL that was resolved, or of one of its parameters, such as
 * "sentinel-password". On failure `secret` holds nothing. */
int sb_secret_take(struct sb_secret *secret, simba_url *url, const char *name,
                   struct simba_error *error) SB_SHARED("secret_take");

/* The password as it stands in its file now; *ret_text is NULL where there is none, and else valid
 * as long as the secret and the buffer are. The caller clears the buffer afterwards. If the file
 * can no longer be read (the process may have dropped the right), *ret_text is the password as it
 * was first read, and the code and the error say why. The caller goes on with that password, and
 * reports the error if the server refuses it. */
int sb_secret_now(const struct sb_secret *secret, char buffer[SB_SECRET_MAX + 2],
                  const char **ret_text, struct simba_error *error) SB_SHARED("secret_now");

void sb_secret_clear(struct sb_secret *secret) SB_SHARED("secret_clear");

#endif
