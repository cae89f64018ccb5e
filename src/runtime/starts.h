/*
 * starts.h - the starts of a client, which take turns: all at once would be a hundred thousand
 * requests under way, and later as many renewals that are due together.
 *
 * While many requests are under way a start waits for answers to the requests of others, in a
 * queue. A store that is slow but answers moves the queue on. Where none has begun for long a new
 * round begins: what is without an answer then counts no more, for it may have been sent to a part
 * of the store that is dead.
 *
 * Loop thread only.
 */
#ifndef SB_RUNTIME_STARTS_H
#define SB_RUNTIME_STARTS_H

#include "base/check.h"
#include "runtime/loop.h"

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
    struct sb_timer timer; /* looks whether the queue moves, while there is one */
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

static inline void sb_starts_go_on(struct sb_starts *starts)
{
    if (starts->first != NULL)
        sb_starts_begin_next(starts);
}

/* Counts a request that is sent, and returns its round; and counts the answer to a request of that
 * round. */
static inline unsigned sb_starts_count_request(struct sb_starts *starts)
{
    starts->under_way++;
    return starts->round;
}

static inline void sb_starts_count_answer(struct sb_starts *starts, unsigned round)
{
    if (round != starts->round)
        return;
    SB_CHECK(starts->under_way > 0, "a request of this round is answered once");
    starts->under_way--;
}

#endif
