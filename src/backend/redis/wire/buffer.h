/*
 * buffer.h - bytes on their way to the server, and the form of a command in them.
 */
#ifndef SB_REDIS_BUFFER_H
#define SB_REDIS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Empty when it is all zeros. */
struct sb_redis_buffer {
    char *data;
    size_t length;
    size_t capacity;
};

void sb_redis_buffer_free(struct sb_redis_buffer *buffer);

/* Adds bytes; false when memory is short, and then nothing was added. */
bool sb_redis_buffer_add(struct sb_redis_buffer *buffer, const void *bytes, size_t length);

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
bool sb_redis_buffer_add_command(struct sb_redis_buffer *buffer,
                                 const struct sb_redis_argument *arguments, size_t count);

#endif
