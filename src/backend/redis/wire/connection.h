/*
 * connection.h - one connection to one server: the greeting, the commands without a reply, the
 * limits on silence.
 *
 * It connects once, becomes ready, goes down once, and is closed by its owner in any case. It
 * does not connect again. All on the thread of its loop.
 */
#ifndef SB_REDIS_CONNECTION_H
#define SB_REDIS_CONNECTION_H

#include "backend/redis/wire/login.h"
#include "backend/redis/wire/pipeline.h"
#include "backend/redis/wire/stream.h"

struct sb_redis_connection;

struct sb_redis_connection_events {
    void (*ready)(void *user);
    /* Where set, replies after the greeting are not matched with commands but handed over here. */
    void (*pushed)(void *user, const struct redisReply *reply);
    /* It is of no use any more; the commands without a reply have been answered. */
    void (*down)(void *user, const struct simba_error *error);
    /* After sb_redis_connection_close; the connection is gone. */
    void (*closed)(void *user);
    /* Replies have come and few more are to come. What is sent from within it leaves by itself. May
     * be NULL. */
    void (*room)(void *user);
};

struct sb_redis_connection_config {
    struct uv_loop_s *loop;
    const struct sb_redis_options *options;
    struct sb_redis_login *login; /* the connection's from then on; NULL: memory was short */
    int64_t database;
    int64_t connect_timeout_ms; /* to become ready */
    bool master_only;           /* the greeting asks for the server's role and refuses a replica */
    const struct sb_redis_connection_events *events;
    void *user;
};

/* Creates it and begins to connect. NULL when memory is short. */
struct sb_redis_connection *
sb_redis_connection_open(const struct sb_redis_connection_config *config,
                         const struct sb_redis_endpoint *endpoint);

/* Takes a command; before the connection is ready it waits for that. SIMBA_OK, or SIMBA_ENOMEM or
 * SIMBA_EUNAVAILABLE (it is down), and then `answered` is not called. */
int sb_redis_connection_send(struct sb_redis_connection *connection,
                             struct sb_redis_command *command,
                             const struct sb_redis_argument *arguments, size_t count);

/* The same for a connection with `pushed`, which must be ready: what comes in return is handed over
 * there. */
int sb_redis_connection_push(struct sb_redis_connection *connection,
                             const struct sb_redis_argument *arguments, size_t count);

/* Lets go what was taken since the last time, in one write. Happens by itself after answers. */
void sb_redis_connection_flush(struct sb_redis_connection *connection);

/* Takes it down for a reason of the owner's. */
void sb_redis_connection_drop(struct sb_redis_connection *connection,
                              const struct simba_error *error);

bool sb_redis_connection_is_ready(const struct sb_redis_connection *connection);

/* Whether another command would have its reply soon. Those that cannot wait for `room` may be sent
 * in any case: a few more do no harm. */
bool sb_redis_connection_has_room(const struct sb_redis_connection *connection);

/* Destroys it, also one that is down. No event but `closed` comes any more. */
void sb_redis_connection_close(struct sb_redis_connection *connection);

#endif
