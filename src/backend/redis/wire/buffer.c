/*
 * buffer.c - bytes on their way to the server. Owns their memory; must not know what they mean to say.
 */
#include "backend/redis/wire/buffer.h"

#include "base/alloc.h"

#include <string.h>

#define FIRST_CAPACITY 1024
#define HEADER_MAX 24 /* '*' or '$', the digits, CR, LF */

void sb_redis_buffer_free(struct sb_redis_buffer *buffer)
{
    sb_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

static bool reserve(struct sb_redis_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    char *data;

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
