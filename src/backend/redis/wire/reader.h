/*
 * reader.h - replies out of the bytes of a stream, within bounds: a server, or whoever answers in its
 * place, must not be able to make a client allocate what it likes.
 */
#ifndef SB_REDIS_READER_H
#define SB_REDIS_READER_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
