/*
 * question.h - asks one sentinel for its id, for the other sentinels that it knows, and for the master.
 *
 * All of it is asked at once on one connection, so that the parts belong together: what an address leads to may
 * change between two connections.
 */
#ifndef SB_REDIS_QUESTION_H
#define SB_REDIS_QUESTION_H

#include "backend/redis/wire/connection.h"
#include "backend/redis/topology/votes.h"

#define SB_QUESTION_STEPS 3

struct sb_question;

/* Takes a command, as sb_link_send and sb_connection_send do. */
typedef int sb_question_send(void *via, struct sb_command *command,
                             const struct sb_argument *arguments, size_t count,
                             struct simba_error *error);

struct sb_question_step {
    struct sb_command command; /* first */
    struct sb_question *question;
};

/* Embedded by the asker; stays where it is until `answered` is called. */
struct sb_question {
    const struct sb_redis_options *options;
    void (*answered)(struct sb_question *question);
    void *user;

    struct sb_question_step steps[SB_QUESTION_STEPS];
    size_t open;      /* steps without a reply */
    int64_t asked_ms; /* before it was sent */
    int code; /* SIMBA_OK: `word` is what the sentinel said; otherwise `error` says why not */
    struct simba_error error;
    struct sb_sentinel_word word;
};

/* SIMBA_OK: `answered` will be called once, not from within. Otherwise it will not, and *error says why. */
int sb_question_ask(struct sb_question *question, sb_question_send *send, void *via,
                    int64_t deadline_ms, struct simba_error *error);

#endif
