/*
 * pipeline.h - the commands of one connection between their sending and their replies.
 *
 * Replies come in the order of commands, so each command has a slot. One whose deadline passes is
 * answered and leaves its slot empty: the reply, should it come, finds the empty slot and is not
 * taken for that of a later command. One that has not been sent by then never is.
 */
#ifndef SB_REDIS_PIPELINE_H
#define SB_REDIS_PIPELINE_H

#include "backend/redis/options.h"
#include "backend/redis/wire/resp.h"

#define SB_REDIS_NEVER SIMBA_INFINITE /* an instant that does not come */

/* What became of a command. */
struct sb_redis_answer {
    const struct redisReply *reply;     /* NULL: none came, and `error` says why */
    const struct sb_redis_place *place; /* the server that the reply is from */
    const struct simba_error *error;    /* its code is SIMBA_EUNAVAILABLE or SIMBA_ENOMEM */
    bool sent;                          /* without a reply: the server may have got it */
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
    struct sb_redis_buffer out;
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

#endif
