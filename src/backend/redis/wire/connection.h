/*
 * connection.h - one connection to one server: its commands without a reply (pipeline.c), the
 * credentials and the greeting (login.c), the limits on silence (connection.c).
 *
 * It connects once, becomes ready, goes down once, and is closed by its owner in any case. It
 * does not connect again. All on the thread of its loop.
 */
#ifndef SB_REDIS_CONNECTION_H
#define SB_REDIS_CONNECTION_H

#include "backend/redis/options.h"
#include "backend/redis/wire/resp.h"
#include "backend/redis/wire/endpoint.h"

/* ---- Commands under way ---------------------------------------------------------------------- */

/* Replies come in the order of commands, so each command has a slot. One whose deadline passes is
 * answered and leaves its slot empty: the reply, should it come, finds the empty slot and is not
 * taken for that of a later command. One that has not been sent by then never is. */

#define SB_REDIS_NEVER SIMBA_INFINITE /* an instant that does not come */

/* What became of a command. */
struct sb_redis_answer {
    const struct redisReply *reply;    /* NULL: none came, and `error` says why */
    const struct sb_wire_place *place; /* the server that the reply is from */
    const struct simba_error *error;   /* its code is SIMBA_EUNAVAILABLE or SIMBA_ENOMEM */
    bool sent;                         /* without a reply: the server may have got it */
};

/* A command under way. Embedded in whatever its sender needs when the answer comes. */
struct sb_redis_command {
    int64_t deadline_ms; /* on simba_now_ms() */
    int64_t until_ms;    /* a server that answers others puts the deadline off so far; 0: not */
    bool waits;          /* the server is asked to wait, and may be silent meanwhile */
    /* Called exactly once; from then on the connection does not touch the command. */
    void (*answered)(struct sb_redis_command *command, const struct sb_redis_answer *answer);
};

/* The place of one command. */
struct sb_redis_ring_slot {
    struct sb_redis_command *command; /* NULL: answered already */
    int64_t sent_at_ms;               /* once it has been sent */
    uint32_t size;                    /* of its bytes */
    bool waits;                       /* the command's, which may be gone */
};

/* The commands without a reply, oldest first. Empty when it is all zeros. */
struct sb_redis_ring {
    struct sb_redis_ring_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t first;
    size_t count;
};

struct sb_redis_pipeline {
    struct sb_redis_ring ring;
    struct sb_wire_buffer out;
    size_t unsent;        /* of the newest commands in the ring: still in `out` */
    int64_t first_due_ms; /* no deadline of a command is earlier; SB_REDIS_NEVER: there is none */
};

void sb_redis_pipeline_init(struct sb_redis_pipeline *pipeline);
void sb_redis_pipeline_free(struct sb_redis_pipeline *pipeline);

/* Takes a command; false when memory is short, and then nothing has changed. */
bool sb_redis_pipeline_add(struct sb_redis_pipeline *pipeline, struct sb_redis_command *command,
                           const struct sb_redis_argument *arguments, size_t count);

/* What is in `out` has been sent. */
void sb_redis_pipeline_mark_sent(struct sb_redis_pipeline *pipeline, int64_t now_ms);

/* Whether the server owes a reply; and whether it was told to wait before the next one. */
bool sb_redis_pipeline_is_owed(const struct sb_redis_pipeline *pipeline);
bool sb_redis_pipeline_waits(const struct sb_redis_pipeline *pipeline);

/* Hands a reply to the oldest command. False: none is owed. */
bool sb_redis_pipeline_answer(struct sb_redis_pipeline *pipeline,
                              const struct sb_redis_answer *answer);

/* Answers all with an error. Those in `out` certainly did not reach the server. */
void sb_redis_pipeline_fail(struct sb_redis_pipeline *pipeline, const struct simba_error *error);

/* Answers those that are due with an error. Returns whether one of them was sent after the server
 * was last heard. */
bool sb_redis_pipeline_expire(struct sb_redis_pipeline *pipeline, int64_t now_ms,
                              int64_t heard_at_ms, const struct simba_error *error);

/* How many commands have no reply yet, with those that were answered at their deadline. */
size_t sb_redis_pipeline_depth(const struct sb_redis_pipeline *pipeline);

/* Takes those that were answered before anything was sent out of `out`. */
void sb_redis_pipeline_forget_expired(struct sb_redis_pipeline *pipeline);

/* ---- Login and greeting ---------------------------------------------------------------------- */

struct sb_redis_login {
    struct sb_wire_login files;
    const char *user; /* NULL: none */
    bool to_sentinel; /* the password is that of sentinels */
};

/* Reads it. `tls` is what the client was opened with, and outlives the login. NULL when memory is
 * short. From any thread. */
struct sb_redis_login *sb_redis_login_create(const struct sb_redis_options *options,
                                             const struct sb_redis_credentials *credentials,
                                             const struct sb_wire_tls *tls);

void sb_redis_login_free(struct sb_redis_login *login);

#define SB_REDIS_GREETING_MAX 4

struct redisReply;

/* What is said. */
struct sb_redis_greeting_config {
    const struct sb_redis_login *login;
    const char *client_name;
    int64_t database;
    bool master_only; /* asks for the server's role, and refuses a replica */
};

enum sb_redis_greeting_step {
    SB_REDIS_GREETING_AUTH,
    SB_REDIS_GREETING_SELECT,
    SB_REDIS_GREETING_NAME,
    SB_REDIS_GREETING_ROLE
};

/* The steps whose replies are to come. */
struct sb_redis_greeting {
    enum sb_redis_greeting_step steps[SB_REDIS_GREETING_MAX];
    size_t count;
    size_t taken;
    bool to_sentinel;
};

/* Writes all steps at once; false when memory is short. */
bool sb_redis_greeting_write(struct sb_redis_greeting *greeting,
                             const struct sb_redis_greeting_config *config,
                             struct sb_wire_buffer *target);

/* Takes the next reply: SIMBA_OK, with *ret_done behind the last one, or why the server is of no
 * use. */
int sb_redis_greeting_take(struct sb_redis_greeting *greeting, const struct sb_wire_place *place,
                           const struct redisReply *reply, bool *ret_done,
                           struct simba_error *error);

/* ---- Connections ----------------------------------------------------------------------------- */

struct sb_redis_connection;

struct sb_redis_connection_events {
    void (*ready)(void *user);
    /* Where set, replies after the greeting are not matched with commands but handed over here. */
    void (*pushed)(void *user, const struct redisReply *reply);
    /* The connection is down; commands without a reply have been answered with an error. */
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
                         const struct sb_wire_endpoint *endpoint);

/* Takes a command; before the connection is ready it waits for that. SIMBA_OK, or SIMBA_ENOMEM or
 * SIMBA_EUNAVAILABLE (it is down), and then `answered` is not called. */
int sb_redis_connection_send(struct sb_redis_connection *connection,
                             struct sb_redis_command *command,
                             const struct sb_redis_argument *arguments, size_t count);

/* The same for a connection with `pushed`, which must be ready: what comes in return is handed over
 * there. */
int sb_redis_connection_push(struct sb_redis_connection *connection,
                             const struct sb_redis_argument *arguments, size_t count);

/* Sends the commands that were taken since the last time, in one write. Happens by itself after
 * answers. */
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
