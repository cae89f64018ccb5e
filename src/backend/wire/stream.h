/*
 * stream.h - bytes to and from a server over TCP or a unix socket, plain or encrypted: the
 * addresses of a server (endpoint.c), encryption (openssl.c), logins (login.c), writes to a socket
 * (writer.c), and the stream (stream.c).
 *
 * A stream comes up or goes down once, and its owner closes it in any case. All on the thread of
 * its loop.
 */
#ifndef SB_WIRE_STREAM_H
#define SB_WIRE_STREAM_H

#include "backend/wire/buffer.h"
#include "base/secret.h"

#include <simba/simba.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

/* ---- Endpoints ------------------------------------------------------------------------------- */

#define SB_WIRE_HOST_MAX 256 /* with the NUL */

/* Where a server listens. With port 0 the host is the path of a unix socket. */
struct sb_wire_place {
    char host[SB_WIRE_HOST_MAX];
    int port;
};

bool sb_wire_place_equals(const struct sb_wire_place *a, const struct sb_wire_place *b);

/* Writes "host:port" or the path, for sentences. Returns `buffer`. */
#define SB_WIRE_PLACE_TEXT_MAX (SB_WIRE_HOST_MAX + 16)
const char *sb_wire_place_text(const struct sb_wire_place *place, char *buffer);

#define SB_WIRE_ENDPOINT_ADDRESSES_MAX 8

struct sb_wire_endpoint {
    struct sb_wire_place place;
    struct sockaddr_storage addresses[SB_WIRE_ENDPOINT_ADDRESSES_MAX]; /* to be tried in turn */
    size_t address_count;
};

/* Looks the host of a place up. Blocks where it is a name. From any thread. */
int sb_wire_endpoint_resolve(const struct sb_wire_place *place,
                             struct sb_wire_endpoint *ret_endpoint, struct simba_error *error);

/* Whether it is a name, so that this may take long. */
bool sb_wire_place_must_be_looked_up(const struct sb_wire_place *place);

/* ---- TLS ------------------------------------------------------------------------------------- */

struct sb_wire_tls_options {
    bool verify;
    char *ca;   /* a file; NULL: the authorities of the system */
    char *cert; /* of the client, with its key; NULL: none */
    char *key;
    struct sb_secret key_password;
    char *server_name;    /* that the certificate must have; NULL: the host's */
    const char *protocol; /* that both must agree on (ALPN); NULL: none */
};

/* OpenSSL takes longer to load than a mutex to acquire. So it is in a module of its own, which the
 * first client loads that encrypts. */
struct sb_wire_tls_ops;

/* What all connections share: certificates and how to check the server's. From any thread. */
struct sb_wire_tls {
    const struct sb_wire_tls_ops *ops;
    struct ssl_ctx_st *context;
    const struct sb_wire_tls_options *options;
};

/* One connection's. After each call `take` gives what has to be sent. */
struct sb_wire_tls_session {
    const struct sb_wire_tls_ops *ops;
    const char *protocol; /* NULL: any will do */
    struct ssl_st *ssl;
    struct bio_st *in;  /* from the server; belongs to ssl */
    struct bio_st *out; /* to the server; belongs to ssl */
};

struct sb_wire_tls_ops {
    int (*create)(const struct sb_wire_tls_options *options, struct sb_wire_tls **ret_tls,
                  struct simba_error *error);
    void (*destroy)(struct sb_wire_tls *tls);

    /* `host` is the name that the server's certificate must have, unless an option names another.
     * NULL when memory is short. */
    struct sb_wire_tls_session *(*begin)(const struct sb_wire_tls *tls, const char *host);
    void (*end)(struct sb_wire_tls_session *session);

    /* Takes in what came from the server; false when memory is short. */
    bool (*feed)(struct sb_wire_tls_session *session, const char *bytes, size_t length);

    /* Goes on with the handshake: SIMBA_OK with *ret_done, or why it failed. */
    int (*handshake)(struct sb_wire_tls_session *session, bool *ret_done,
                     struct simba_error *error);

    /* Plain bytes that have come: their number, 0 when there are none yet, -1 when the server ended
     * the session or broke the protocol, and then *error says why. */
    int (*read)(struct sb_wire_tls_session *session, char *target, size_t size,
                struct simba_error *error);
    bool (*write)(struct sb_wire_tls_session *session, const char *bytes, size_t length);

    /* Moves what is to be sent into the buffer; false when memory is short. */
    bool (*take)(struct sb_wire_tls_session *session, struct sb_wire_buffer *target);
};

/* Loads the module and creates it; the options outlive it. */
int sb_wire_tls_create(const struct sb_wire_tls_options *options, struct sb_wire_tls **ret_tls,
                       struct simba_error *error);
void sb_wire_tls_free(struct sb_wire_tls *tls);

/* ---- Login ----------------------------------------------------------------------------------- */

/* Certificates and the password of one connection. Files are read again for each, so that what was
 * replaced there is used without a restart. If a file can no longer be read, the contents that were
 * read when the client was opened are used, and the reason is told if the server refuses them. */
struct sb_wire_login {
    const char *password;          /* NULL: none */
    const struct sb_wire_tls *tls; /* NULL: plain */
    struct sb_wire_tls *own_tls;   /* NULL: `tls` is the client's */
    struct simba_error unread;     /* why a file could not be read again; SIMBA_OK: all could */
    char text[SB_SECRET_MAX + 2];
};

/* Whether something has to be read from a file, which may block. */
bool sb_wire_login_has_files(const struct sb_wire_tls_options *trust,
                             const struct sb_secret *password);

/* Reads it; all zeros before. `tls` is what the client was opened with, and outlives the login.
 * SIMBA_ENOMEM when memory is short. From any thread. */
int sb_wire_login_read(struct sb_wire_login *login, const struct sb_wire_tls_options *trust,
                       const struct sb_wire_tls *tls, const struct sb_secret *password);

/* Frees what it has, also where it could not be read. */
void sb_wire_login_clear(struct sb_wire_login *login);

/* A server cannot know that what it refuses was read from a file long ago: adds that. */
void sb_wire_login_explain(const struct sb_wire_login *login, struct simba_error *error);

/* ---- Writes ---------------------------------------------------------------------------------- */

/* Writes to a socket of the loop without raising SIGPIPE, which libuv's own writes do: a thread of
 * the application may be the one that writes. What the socket does not take at once waits here.
 * Empty when it is all zeros, but for `loop`, `failed` and `user`. */
struct sb_wire_writer {
    uv_loop_t *loop;
    void (*failed)(void *user, int number); /* what waited could not be written */
    void *user;
    struct sb_wire_buffer rest; /* what waits */
    size_t done;                /* of it */
    uv_poll_t poll; /* tells when there is room in the socket; on a descriptor of its own */
    int fd;
    bool is_open; /* `poll` and `fd` are */
    void (*closed)(void *user);
};

/* Writes, behind what waits. Takes the bytes, or also their memory; returns 0 or libuv's number of
 * an error. */
int sb_wire_writer_write(struct sb_wire_writer *writer, const uv_handle_t *socket,
                         struct sb_wire_buffer *bytes);

/* Forgets what waits. Returns whether there is something to close: then `closed` is called
 * later. */
bool sb_wire_writer_close(struct sb_wire_writer *writer, void (*closed)(void *user));

/* ---- Streams --------------------------------------------------------------------------------- */

struct sb_wire_stream;

struct sb_wire_stream_events {
    void (*up)(void *user);
    /* The address is given up for another one, which `up` will be called for. */
    void (*again)(void *user);
    void (*data)(void *user, const char *bytes, size_t length);
    /* It broke or was ended by the server; comes at most once and never from within a call. */
    void (*down)(void *user, const struct simba_error *error);
    /* After sb_wire_stream_close; the stream is gone. */
    void (*closed)(void *user);
};

struct sb_wire_stream_config {
    struct uv_loop_s *loop;
    const struct sb_wire_endpoint *endpoint; /* copied */
    const struct sb_wire_tls *tls;           /* NULL: plain */
    int64_t connect_timeout_ms;              /* shared out among the addresses */
    int64_t keep_alive_ms;
    const struct sb_wire_stream_events *events;
    void *user;
};

/* Creates it and begins to connect. NULL when memory is short. */
struct sb_wire_stream *sb_wire_stream_open(const struct sb_wire_stream_config *config);

/* Whether an address has answered: what is missing then is the handshake. */
bool sb_wire_stream_is_connected(const struct sb_wire_stream *stream);

/* The server has proved to be one: its other addresses are not needed. Until then an address that
 * hangs up, or whose share of the time is over, gives way to the next, also one that was connected
 * to. */
void sb_wire_stream_settle(struct sb_wire_stream *stream);

/* Whether something has come that `data` has not been called with yet. */
bool sb_wire_stream_has_unread(const struct sb_wire_stream *stream);

/* How many bytes the other side has not taken yet. */
size_t sb_wire_stream_unsent(const struct sb_wire_stream *stream);

/* Sends what is in the buffer and leaves it empty. Only while it is up. */
void sb_wire_stream_write(struct sb_wire_stream *stream, struct sb_wire_buffer *bytes);

/* Takes a stream that is up and settled to another loop, in two steps. Between them the first loop
 * runs until it has no handles any more, and nothing else is done with the stream. False: it cannot
 * be moved, and is as it was. If it cannot join it goes down, as it would later. */
bool sb_wire_stream_leave(struct sb_wire_stream *stream);
void sb_wire_stream_join(struct sb_wire_stream *stream, struct uv_loop_s *loop);

/* Destroys it. No event but `closed` comes any more. */
void sb_wire_stream_close(struct sb_wire_stream *stream);

#endif
