/*
 * stream.h - bytes to and from a server over TCP or a unix socket, plain or encrypted.
 *
 * A stream comes up or goes down once, and its owner closes it in any case. All on the
 * thread of its loop.
 */
#ifndef SB_REDIS_STREAM_H
#define SB_REDIS_STREAM_H

#include "backend/redis/wire/resp.h"
#include "backend/redis/wire/endpoint.h"
#include "backend/redis/wire/tls.h"

struct uv_loop_s;
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
