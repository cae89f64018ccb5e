/*
 * reader.c - hiredis' reader with limits of our own. Owns what a reply may cost.
 *
 * hiredis allocates an array as soon as its length is announced. So the arrays of a reply are counted
 * before they are made, all levels of it together. And it looks for the end of a line from its beginning each time that
 * bytes have come. So a line must end soon; what a text announces before its bytes is a line, too.
 */
#include "backend/redis/wire/reader.h"

#include "base/alloc.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define LENGTH_MAX ((size_t)16 * 1024 * 1024) /* bytes of one reply */
#define LINE_MAX_BYTES ((size_t)64 * 1024)    /* of one line: an error, a state, a number */
#define PARTS_MAX ((size_t)256 * 1024)        /* elements of all its arrays */

/* What hiredis counts elements in. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

struct sb_redis_reader {
    redisReader *reader;
    redisReplyObjectFunctions functions;
    void *(*create_array)(const redisReadTask *task, element_count count); /* hiredis' own */
    size_t parts; /* announced so far, of the reply that is being read */
};

static void *create_array(const redisReadTask *task, element_count count)
{
    struct sb_redis_reader *r = task->privdata;

    if ((size_t)count > PARTS_MAX - r->parts)
        return NULL;
    r->parts += (size_t)count;
    return r->create_array(task, count);
}

struct sb_redis_reader *sb_redis_reader_create(void)
{
    struct sb_redis_reader *r = sb_alloc_zero(sizeof *r);

    if (r == NULL)
        return NULL;
    r->reader = redisReaderCreate();
    if (r->reader == NULL) {
        sb_free(r);
        return NULL;
    }
    r->functions = *r->reader->fn;
    r->create_array = r->functions.createArray;
    r->functions.createArray = create_array;
    r->reader->fn = &r->functions;
    r->reader->privdata = r;
    return r;
}

void sb_redis_reader_free(struct sb_redis_reader *r)
{
    if (r == NULL)
        return;
    redisReaderFree(r->reader);
    sb_free(r);
}

bool sb_redis_reader_feed(struct sb_redis_reader *r, const char *bytes, size_t length)
{
    return redisReaderFeed(r->reader, bytes, length) == REDIS_OK;
}

/* What has not been taken in begins with a line. */
static bool is_too_long(const redisReader *reader)
{
    size_t left = reader->len - reader->pos;

    return left > LENGTH_MAX || (left > LINE_MAX_BYTES &&
                                 memchr(reader->buf + reader->pos, '\n', LINE_MAX_BYTES) == NULL);
}

bool sb_redis_reader_is_empty(const struct sb_redis_reader *r)
{
    return r->parts == 0 && r->reader->len == r->reader->pos;
}

enum sb_redis_reader_verdict sb_redis_reader_next(struct sb_redis_reader *r, redisReply **ret_reply)
{
    void *reply = NULL;

    if (redisReaderGetReply(r->reader, &reply) != REDIS_OK)
        return SB_REDIS_READER_NONSENSE;
    if (reply == NULL)
        return is_too_long(r->reader) ? SB_REDIS_READER_TOO_LONG : SB_REDIS_READER_MORE;
    r->parts = 0;
    *ret_reply = reply;
    return SB_REDIS_READER_REPLY;
}
