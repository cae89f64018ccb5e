/*
 * resp.h - the protocol of Redis: commands become bytes, bytes become replies, and error replies
 * become errors of the library. Replies are read within bounds: a server must not be able to make a
 * client allocate what it likes.
 */
#ifndef SB_REDIS_RESP_H
#define SB_REDIS_RESP_H

#include "backend/redis/options.h"
#include "backend/wire/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One argument of a command. */
struct sb_redis_argument {
    const char *bytes;
    size_t length;
};

struct sb_redis_argument sb_redis_argument_text(const char *text);

/* Room for the digits of a number that stands as an argument. */
struct sb_redis_digits {
    char text[24];
};
struct sb_redis_argument sb_redis_argument_number(int64_t number, struct sb_redis_digits *digits);

/* Adds a command as an array of strings; false when memory is short, and then nothing was added. */
bool sb_redis_buffer_add_command(struct sb_wire_buffer *buffer,
                                 const struct sb_redis_argument *arguments, size_t count);

struct redisReply;
struct sb_redis_reader;

enum sb_redis_reader_verdict {
    SB_REDIS_READER_REPLY,    /* there is one, the caller's to give to freeReplyObject */
    SB_REDIS_READER_MORE,     /* more bytes are needed */
    SB_REDIS_READER_NONSENSE, /* that is no reply, or one of too many parts */
    SB_REDIS_READER_TOO_LONG
};

/* NULL when memory is short. */
struct sb_redis_reader *sb_redis_reader_create(void);
void sb_redis_reader_free(struct sb_redis_reader *reader);

/* Takes bytes in; false when memory is short. */
bool sb_redis_reader_feed(struct sb_redis_reader *reader, const char *bytes, size_t length);

/* Whether nothing has come of a reply that is not complete. */
bool sb_redis_reader_is_empty(const struct sb_redis_reader *reader);

enum sb_redis_reader_verdict sb_redis_reader_next(struct sb_redis_reader *reader,
                                                  struct redisReply **ret_reply);

/* ---- Error replies --------------------------------------------------------------------------- */

/* Fills in *error with a sentence for the text of an error reply, and returns its code. The command
 * was not carried out. */
int sb_redis_fail(const struct sb_wire_place *place, const char *text, struct simba_error *error);

/* The same for the reply to a command with a password in it, which servers and proxies may repeat:
 * quotes nothing of the text but its first word. */
int sb_redis_fail_quietly(const struct sb_wire_place *place, const char *text,
                          struct simba_error *error);

/* The word that an error reply opens with is `word`. Looks through what a script's error is wrapped
 * in. */
bool sb_redis_failed_with(const char *text, const char *word);

/* A node of a cluster names another one. */
bool sb_redis_is_redirection(const char *text);

#endif
