/*
 * buffer.c - memory that doubles when it is full.
 */
#include "backend/wire/buffer.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stdint.h>
#include <string.h>

#define FIRST_CAPACITY 1024

void sb_wire_buffer_free(struct sb_wire_buffer *buffer)
{
    sb_free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

bool sb_wire_buffer_reserve(struct sb_wire_buffer *buffer, size_t more)
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

bool sb_wire_buffer_fit(struct sb_wire_buffer *buffer, size_t more)
{
    if (buffer->data != NULL || more == 0)
        return sb_wire_buffer_reserve(buffer, more);
    buffer->data = sb_alloc(more);
    buffer->capacity = buffer->data != NULL ? more : 0;
    return buffer->data != NULL;
}

bool sb_wire_buffer_add(struct sb_wire_buffer *buffer, const void *bytes, size_t length)
{
    if (!sb_wire_buffer_reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    return true;
}
