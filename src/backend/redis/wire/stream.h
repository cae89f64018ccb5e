/*
 * stream.h - bytes to and from a server over TCP or a unix socket, plain or encrypted (stream.c),
 * and the writes to its socket (writer.c).
 *
 * A stream comes up or goes down once, and its owner closes it in any case. All on the thread of
 * its loop.
 */
#ifndef SB_REDIS_STREAM_H
#define SB_REDIS_STREAM_H

#include "backend/redis/wire/endpoint.h"
#include "backend/redis/wire/resp.h"
#include "backend/redis/wire/tls.h"

#include <uv.h>

/* ---- Writes ---------------------------------------------------------------------------------- */

/* Writes to a socket of the loop without raising SIGPIPE, which libuv's own writes do: a thread of
 * the application may be the one that writes. What the socket does not take at once waits here.
 * Empty when it is all zeros, but for `loop`, `failed` and `user`. */
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

/* ---- Streams --------------------------------------------------------------------------------- */

struct sb_redis_stream;

struct sb_redis_stream_events {
    void (*up)(void *user);
    /* The address is given up for another one, which `up` will be called for. */
    void (*again)(void *user);
    void (*data)(void *user, const char *bytes, size_t length);
    /* It broke or was ended by the server; comes at most once and never from within a call. */
    void (*down)(void *user, const struct simba_error *error);
    /* After sb_redis_stream_close; the stream is gone. */
    void (*closed)(void *user);
};

struct sb_redis_stream_config {
    struct uv_loop_s *loop;
    const struct sb_redis_endpoint *endpoint; /* copied */
    const struct sb_redis_tls *tls;           /* NULL: plain */
    int64_t connect_timeout_ms;               /* shared out among the addresses */
    int64_t keep_alive_ms;
    const struct sb_redis_stream_events *events;
    void *user;
};

/* Creates it and begins to connect. NULL when memory is short. */
struct sb_redis_stream *sb_redis_stream_open(const struct sb_redis_stream_config *config);

/* Whether an address has answered: what is missing then is the handshake. */
bool sb_redis_stream_is_connected(const struct sb_redis_stream *stream);

/* The server has proved to be one: its other addresses are not needed. Until then an address that
 * hangs up, or whose share of the time is over, gives way to the next, also one that was connected
 * to. */
void sb_redis_stream_settle(struct sb_redis_stream *stream);

/* Whether something has come that `data` has not been called with yet. */
bool sb_redis_stream_has_unread(const struct sb_redis_stream *stream);

/* Sends what is in the buffer and leaves it empty. Only while it is up. */
void sb_redis_stream_write(struct sb_redis_stream *stream, struct sb_redis_buffer *bytes);

/* Destroys it. No event but `closed` comes any more. */
void sb_redis_stream_close(struct sb_redis_stream *stream);

#endif
