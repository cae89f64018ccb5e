/*
 * reconnecting.h - keeps a connection to a server (reconnecting.c), and asks one question while
 * there is none (ask.c).
 */
#ifndef SB_REDIS_RECONNECTING_H
#define SB_REDIS_RECONNECTING_H

#include "backend/redis/wire/connection.h"
#include "backend/wire/blocking.h"

#include <simba/backend.h>

/* ---- One question ---------------------------------------------------------------------------- */

/* One question to one server on a connection and a loop of its own: while a client is being opened,
 * and on a thread of its own, the client's loop cannot be used. */

struct sb_redis_ask_config {
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
    const struct sb_redis_credentials *credentials;
    int64_t database;
    int64_t connect_timeout_ms; /* 0: that of the options */
    bool master_only;
};

/* Of a connection whose commands tell all that is to be known. */
extern const struct sb_redis_connection_events sb_redis_ask_events;

/* Takes the reply, which is no error reply; its result is that of sb_redis_ask. */
typedef int sb_redis_ask_take(void *user, const struct redisReply *reply,
                              struct simba_error *error);

/* Blocks, at most for the connect-timeout and the command-timeout. `take` may be NULL: any reply
 * will do. */
int sb_redis_ask(const struct sb_redis_ask_config *config, const struct sb_wire_endpoint *endpoint,
                 const struct sb_redis_argument *arguments, size_t count, sb_redis_ask_take *take,
                 void *user, struct simba_error *error);

/* ---- Connections that are made again --------------------------------------------------------- */

/* Finds out where the server is, connects, and connects again with a growing, jittered delay when
 * the connection went down. */

struct sb_redis_reconnecting;

struct sb_redis_reconnecting_events {
    void (*ready)(void *user); /* may be NULL */
    /* NULL: a connection for commands. */
    void (*pushed)(void *user, const struct redisReply *reply);
    void (*closed)(void *user); /* after sb_redis_reconnecting_close; it is gone */
    /* Few commands are under way: more can be sent, or are refused at once since the connection is
     * down. May be NULL. */
    void (*room)(void *user);
};

struct sb_redis_reconnecting_config {
    const struct simba_backend_host *host;
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
    const struct sb_redis_credentials *credentials;
    int64_t database;
    bool master_only;
    /* Where the server is now. Must not block: a name is looked up later, and files of credentials
     * are read, on a thread of its own. */
    int (*where)(void *user, struct sb_wire_place *ret_place, struct simba_error *error);
    /* How many connections to the server are down: the first one logs it, for all. */
    unsigned *outage;
    const struct sb_redis_reconnecting_events *events;
    void *user;
};

/* Creates it, connected to nothing. NULL when memory is short. */
struct sb_redis_reconnecting *
sb_redis_reconnecting_create(const struct sb_redis_reconnecting_config *config);

/* Begins to connect, where it has not; `known` may be NULL, or where the server is. */
void sb_redis_reconnecting_start(struct sb_redis_reconnecting *connection,
                                 const struct sb_wire_endpoint *known);

/* Takes a command, and starts where it has not. SIMBA_OK: it will be answered. Otherwise it will
 * not, and *error says why. */
int sb_redis_reconnecting_send(struct sb_redis_reconnecting *connection,
                               struct sb_redis_command *command,
                               const struct sb_redis_argument *arguments, size_t count,
                               struct simba_error *error);
int sb_redis_reconnecting_push(struct sb_redis_reconnecting *connection,
                               const struct sb_redis_argument *arguments, size_t count);
void sb_redis_reconnecting_flush(struct sb_redis_reconnecting *connection);

/* The server is not the right one any more: takes the connection down and finds it anew. */
void sb_redis_reconnecting_drop(struct sb_redis_reconnecting *connection,
                                const struct simba_error *error);

/* Where the server is may be known by now, or be another place: ends a pause. */
void sb_redis_reconnecting_retry(struct sb_redis_reconnecting *connection);

bool sb_redis_reconnecting_is_ready(const struct sb_redis_reconnecting *connection);

/* Whether the client is still looking for the server the first time: commands would be refused, and
 * `room` tells when that is over. */
bool sb_redis_reconnecting_is_starting(const struct sb_redis_reconnecting *connection);

/* Whether a command would have its reply soon, or be refused at once with a reason. */
bool sb_redis_reconnecting_has_room(const struct sb_redis_reconnecting *connection);

/* Destroys it; at once, when it was never started. */
void sb_redis_reconnecting_close(struct sb_redis_reconnecting *connection);

#endif
