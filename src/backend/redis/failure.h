/*
 * failure.h - what the error replies of a server mean to the library.
 */
#ifndef SB_REDIS_FAILURE_H
#define SB_REDIS_FAILURE_H

#include "backend/redis/options.h"

/* Fills in *error with a sentence for the text of an error reply, and returns its code. The command
 * was not carried out. */
int sb_redis_fail(const struct sb_redis_place *place, const char *text, struct simba_error *error);

/* The same for the reply to a command with a password in it, which servers and proxies may repeat:
 * quotes nothing of the text but its first word. */
int sb_redis_fail_quietly(const struct sb_redis_place *place, const char *text,
                          struct simba_error *error);

/* The word that an error reply opens with is `word`. Looks through what a script's error is wrapped
 * in. */
bool sb_redis_failed_with(const char *text, const char *word);

/* A node of a cluster names another one. */
bool sb_redis_is_redirection(const char *text);

#endif
