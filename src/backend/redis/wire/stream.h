/*
 * stream.h - bytes to and from a server over TCP or a unix socket, plain or encrypted: the
 * addresses that may be used (endpoint.c), encryption (tls.c), writes to a socket (writer.c), and
 * the stream (stream.c).
 *
 * A stream comes up or goes down once, and its owner closes it in any case. All on the thread of
 * its loop.
 */
#ifndef SB_REDIS_STREAM_H
#define SB_REDIS_STREAM_H

#include "backend/redis/options.h"
#include "backend/redis/wire/resp.h"

#include <sys/socket.h>
#include <uv.h>

/* ---- Endpoints ------------------------------------------------------------------------------- */

/* The user names some hosts in the URL. Sentinels and nodes of a cluster tell of others, and may
 * lie. So:
 *  - A host that the URL names, by its name or by an address that a name there leads to, may be
 *    used, on any port.
 *  - With allow-hosts no other one may but those that it lists. In the mode of sentinels the URL
 *    names sentinels only: then allow-hosts alone decides about masters.
 *  - Without it, a password goes to no other one, unless TLS proves who it is: by an authority that
 *    the user names (tls-ca), or by a name that the user gives (tls-server-name). The authorities
 *    of the system vouch for every host of the world, also for the attacker's.
 *
 * The addresses that were checked are those that are connected to. */

#define SB_REDIS_ENDPOINT_ADDRESSES_MAX 8

struct sb_redis_endpoint {
    struct sb_redis_place place;
    struct sockaddr_storage addresses[SB_REDIS_ENDPOINT_ADDRESSES_MAX]; /* to be tried in turn */
    size_t address_count;
};

/* SIMBA_OK when the value of allow-hosts can be understood: names, addresses, ADDRESS/BITS,
 * *.SUFFIX, with commas between. */
int sb_redis_hosts_check(const char *list, struct simba_error *error);

/* Looks a server up that is to be greeted with these credentials, and leaves out addresses that
 * must not be used. Blocks where a name has to be looked up. From any thread. */
int sb_redis_endpoint_find(const struct sb_redis_options *options,
                           const struct sb_redis_credentials *credentials,
                           const struct sb_redis_place *place,
                           struct sb_redis_endpoint *ret_endpoint, struct simba_error *error);

/* Whether that may take long. */
bool sb_redis_endpoint_find_blocks(const struct sb_redis_options *options,
                                   const struct sb_redis_credentials *credentials,
                                   const struct sb_redis_place *place);

/* ---- TLS ------------------------------------------------------------------------------------- */

/* What all connections share: certificates and how to check the server's. From any thread. */
struct sb_redis_tls;

int sb_redis_tls_create(const struct sb_redis_options *options, struct sb_redis_tls **ret_tls,
                        struct simba_error *error);
void sb_redis_tls_free(struct sb_redis_tls *tls);

/* One connection's. After each call sb_redis_tls_take gives what has to be sent. */
struct sb_redis_tls_session;

/* `host` is the name that the server's certificate must have, unless an option names another. NULL
 * when memory is short. */
struct sb_redis_tls_session *sb_redis_tls_session_create(const struct sb_redis_tls *tls,
                                                         const char *host);
void sb_redis_tls_session_free(struct sb_redis_tls_session *session);

/* Takes in what came from the server; false when memory is short. */
bool sb_redis_tls_feed(struct sb_redis_tls_session *session, const char *bytes, size_t length);

/* Goes on with the handshake: SIMBA_OK with *ret_done, or why it failed. */
int sb_redis_tls_handshake(struct sb_redis_tls_session *session, bool *ret_done,
                           struct simba_error *error);

/* Plain bytes that have come: their number, 0 when there are none yet, -1 when the server ended the
 * session or broke the protocol, and then *error says why. */
int sb_redis_tls_read(struct sb_redis_tls_session *session, char *target, size_t size,
                      struct simba_error *error);

bool sb_redis_tls_write(struct sb_redis_tls_session *session, const char *bytes, size_t length);

/* Moves what is to be sent into the buffer; false when memory is short. */
bool sb_redis_tls_take(struct sb_redis_tls_session *session, struct sb_redis_buffer *target);

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
