/*
 * requests.h - requests on their way through the backend, and the starts that wait for answers.
 */
#ifndef SB_RUNTIME_REQUESTS_H
#define SB_RUNTIME_REQUESTS_H

#include "runtime/loop.h"

#include <simba/backend.h>

struct sb_engine;
struct sb_mutex_reads;

/* Its maker embeds it in whatever it needs when the answer comes, which happens on the loop thread,
 * exactly once. */
struct sb_request {
    struct simba_request wire; /* first: what a backend sees is the request */
    struct sb_engine *engine;
    void (*answered)(struct sb_request *request, const struct simba_reply *reply);
    int64_t sent_at_ms;
    int64_t sent_at_us;
    int64_t answered_at_us;
    unsigned round;                /* see struct sb_starts */
    struct sb_mutex_reads *shared; /* of a READ that others may share; NULL: it is none */
    struct sb_request *sharers;    /* of the same READ, which are answered with this one */
    /* An answer from another thread, on its way to the loop. */
    struct simba_task task;
    struct simba_reply reply;
};

/* Sends a request at the end of this turn of the loop, together with the others. Loop thread only.
 * The second counts as sent when the caller last read the clock (sb_clock_us), which is not
 * after it is. */
void sb_request_send(struct sb_engine *engine, struct sb_request *request);
void sb_request_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us);

/* Makes of an answer what it is when there is no memory for the owner's name. To a guard and a
 * release it then says that nobody owns: all that they need is that they do not. Other requests
 * have failed. */
void sb_request_drop_owner(enum simba_op op, struct simba_reply *reply);

/* For the engine: the end of a turn of its loop, on the loop thread; and `reply` of its host. */
void sb_requests_flush(void *engine);
void sb_requests_reply(const struct simba_backend_host *host, struct simba_request *wire,
                       const struct simba_reply *reply);

/* ---- Starts ---------------------------------------------------------------------------------- */

/* The starts of a client take turns: all at once would be a hundred thousand requests under way,
 * and later as many renewals that are due together.
 *
 * While many requests are under way a start waits in a queue for answers to others. A store that is
 * slow but answers moves the queue on. Where no start has begun for long a new round begins: what
 * is without an answer then counts no more, for it may have been sent to a part of the store that
 * is dead. Loop thread only. */

/* Lives in its service. */
struct sb_start {
    struct sb_start *next;
    bool is_queued;
    bool waits; /* it is to begin when its turn comes; the service's to set and clear */
};

struct sb_starts {
    struct sb_loop *loop;
    void (*begin)(struct sb_start *start);
    struct sb_start *first;
    struct sb_start *last;
    struct sb_timer timer; /* runs while there is a queue, and tells whether it moves */
    bool has_moved;        /* since the timer last went off */
    unsigned round;
    size_t under_way; /* requests of this round without an answer */
};

/* Of zeroed memory. `begin` is called for every start that leaves the queue, also for one that
 * waits no more. */
void sb_starts_init(struct sb_starts *starts, struct sb_loop *loop,
                    void (*begin)(struct sb_start *start));

/* Whether a start has to wait for its turn. */
bool sb_starts_are_held_up(const struct sb_starts *starts);

/* Puts a start that is not in the queue at its end. */
void sb_starts_add(struct sb_starts *starts, struct sb_start *start);

/* Lets those begin whose turn it is, and those leave that wait no more. */
void sb_starts_begin_next(struct sb_starts *starts);

#endif
