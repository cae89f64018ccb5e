/*
 * writer.h - writes to a socket of the loop without raising SIGPIPE, which libuv's own writes do: a
 * thread of the application may be the one that writes. What the socket does not take at once waits
 * here.
 */
#ifndef SB_REDIS_WRITER_H
#define SB_REDIS_WRITER_H

#include "backend/redis/wire/resp.h"

#include <uv.h>

/* Empty when it is all zeros, but for `loop`, `failed` and `user`. */
struct sb_redis_writer {
    uv_loop_t *loop;
    void (*failed)(void *user, int number); /* what waited could not be written */
    void *user;
    struct sb_redis_buffer rest; /* what waits */
    size_t done;                 /* of it */
    uv_poll_t poll; /* tells when there is room in the socket; on a descriptor of its own */
    int fd;
    bool is_open; /* `poll` and `fd` are */
    void (*closed)(void *user);
};

/* Writes, behind what waits. Takes the bytes, or also their memory; returns 0 or libuv's number of
 * an error. */
int sb_redis_writer_write(struct sb_redis_writer *writer, const uv_handle_t *socket,
                          struct sb_redis_buffer *bytes);

/* Forgets what waits. Returns whether there is something to close: then `closed` is called
 * later. */
bool sb_redis_writer_close(struct sb_redis_writer *writer, void (*closed)(void *user));

#endif
