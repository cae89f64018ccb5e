/*
 * resp.c - the protocol of Redis: commands become bytes, bytes become replies. Owns the memory of
 * the bytes on their way to the server, and what a reply may cost; must not know what is said.
 *
 * hiredis allocates an array as soon as its length is announced. So the arrays of a reply are
 * counted before they are made, all levels of it together. And it looks for the end of a line from
 * its beginning each time that bytes have come. So a line must end soon; the length that a string
 * announces before its bytes is a line, too.
 */
#include "backend/redis/wire/resp.h"

#include "base/alloc.h"
#include "base/check.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define FIRST_CAPACITY 1024
#define HEADER_MAX 24                         /* '*' or '$', the digits, CR, LF */
#define LENGTH_MAX ((size_t)16 * 1024 * 1024) /* bytes of one reply */
#define LINE_MAX_BYTES ((size_t)64 * 1024)    /* of one line: an error, a state, a number */
#define PARTS_MAX ((size_t)256 * 1024)        /* elements of all its arrays */

/* ---- Commands -------------------------------------------------------------------------------- */

void sb_redis_buffer_free(struct sb_redis_buffer *buffer)
{
    sb_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

static bool reserve(struct sb_redis_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    char *data;

    SB_CHECK(buffer->length <= buffer->capacity, "a buffer holds what is in it");
    if (more <= buffer->capacity - buffer->length)
        return true;
    while (capacity - buffer->length < more) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    data = sb_realloc(buffer->data, capacity);
    if (data == NULL)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool sb_redis_buffer_add(struct sb_redis_buffer *buffer, const void *bytes, size_t length)
{
    if (!reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return true;
}

struct sb_redis_argument sb_redis_argument_text(const char *text)
{
    return (struct sb_redis_argument){text, strlen(text)};
}

/* Writes a number so that it ends there; returns where it begins. */
static char *write_digits(char *end, uint64_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

struct sb_redis_argument sb_redis_argument_number(int64_t number, struct sb_redis_digits *digits)
{
    char *end = digits->text + sizeof digits->text;
    char *first = write_digits(end, number < 0 ? -(uint64_t)number : (uint64_t)number);

    if (number < 0)
        *--first = '-';
    return (struct sb_redis_argument){first, (size_t)(end - first)};
}

/* The room has been reserved. */
static void add_header(struct sb_redis_buffer *buffer, char type, size_t number)
{
    char digits[HEADER_MAX];
    char *first = digits + sizeof digits;

    *--first = '\n';
    *--first = '\r';
    first = write_digits(first, number);
    *--first = type;
    memcpy(buffer->data + buffer->length, first, (size_t)(digits + sizeof digits - first));
    buffer->length += (size_t)(digits + sizeof digits - first);
}

bool sb_redis_buffer_add_command(struct sb_redis_buffer *buffer,
                                 const struct sb_redis_argument *arguments, size_t count)
{
    size_t size = HEADER_MAX;

    for (size_t i = 0; i < count; i++)
        size += HEADER_MAX + arguments[i].length + 2;
    if (!reserve(buffer, size))
        return false;
    add_header(buffer, '*', count);
    for (size_t i = 0; i < count; i++) {
        add_header(buffer, '$', arguments[i].length);
        memcpy(buffer->data + buffer->length, arguments[i].bytes, arguments[i].length);
        buffer->length += arguments[i].length;
        memcpy(buffer->data + buffer->length, "\r\n", 2);
        buffer->length += 2;
    }
    return true;
}

/* ---- Replies --------------------------------------------------------------------------------- */

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

    SB_CHECK(r->parts <= PARTS_MAX, "the parts of a reply are bounded");
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
