/*
 * buffer.h - bytes on their way, in memory that grows.
 */
#ifndef SB_WIRE_BUFFER_H
#define SB_WIRE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Empty when it is all zeros. */
struct sb_wire_buffer {
    char *data;
    size_t length;
    size_t capacity;
};

void sb_wire_buffer_free(struct sb_wire_buffer *buffer);

/* Makes room for more bytes; false when memory is short. */
bool sb_wire_buffer_reserve(struct sb_wire_buffer *buffer, size_t more);

/* The same for a buffer that is one of many and that is filled once: it takes no more than that. */
bool sb_wire_buffer_fit(struct sb_wire_buffer *buffer, size_t more);

/* Adds bytes; false when memory is short, and then nothing was added. */
bool sb_wire_buffer_add(struct sb_wire_buffer *buffer, const void *bytes, size_t length);

#endif
