/*
 * machine_state.h - what the files of the contention machine share: questions to its state, and the
 * moves that several events make. Each file calls only those before it: machine_state.c,
 * machine_reply.c, machine.c.
 */
#ifndef SB_CORE_MACHINE_STATE_H
#define SB_CORE_MACHINE_STATE_H

#include "core/machine.h"

static inline bool sb_machine_is_active(const struct sb_machine *m)
{
    return simba_status_is_active(m->status);
}

static inline bool sb_machine_believes(const struct sb_machine *m)
{
    return m->held && m->status == SIMBA_RUNNING;
}

/* Whether the record is renewed: for a belief, or for the callbacks of a stop. */
static inline bool sb_machine_guards(const struct sb_machine *m)
{
    return m->held && (sb_machine_is_active(m) || m->callbacks > 0);
}

/* Whether a stop must learn first which record it is to release, if any. */
static inline bool sb_machine_asks_before_release(const struct sb_machine *m)
{
    return m->status == SIMBA_STOPPING && m->claim == SB_CLAIM_UNKNOWN;
}

/* Whether it can leave a lease of mine on the store. */
static inline bool sb_machine_may_renew(enum simba_op op)
{
    return op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;
}

/* ---- machine_state.c ------------------------------------------------------------------------- */

/* Moves the status as the table of status.c allows. */
void sb_machine_set_status(struct sb_machine *machine, enum simba_status status);

/* Takes in the owner, and tells a change once. Several changes within one step are one. A stop has
 * told that nobody owns as far as it knows: what the store says afterwards is not taken in. */
void sb_machine_set_owner(struct sb_machine *machine, const struct simba_owner *owner,
                          struct sb_step *step);

/* The term ends without a stop; `owner` owns now. */
void sb_machine_lose(struct sb_machine *machine, const struct simba_owner *owner, int64_t now_ms,
                     struct sb_step *step);

/* Ends a stop. One that is given up (SIMBA_ETIMEDOUT) says so: a callback may still run. If the
 * term was lost and the wait queue could not be left as well, the loss is told: a place in the
 * queue expires by itself, but another contender may have owned while the application worked. */
void sb_machine_finish(struct sb_machine *machine, int code, struct sb_step *step);

/* The store does not have the term that a stop ends. */
void sb_machine_find_gone(struct sb_machine *machine);

/* ---- machine_reply.c ------------------------------------------------------------------------- */

/* Takes in the answer to a request. */
void sb_machine_take_reply(struct sb_machine *machine, const struct sb_event *event,
                           struct sb_step *step);

/* When to try again after a reservation that has `left_ms` left, for the one that has this place in
 * the queue. No waiter waits for those before it: they may be dead. */
int64_t sb_machine_reservation_over_ms(const struct sb_machine *machine, int64_t left_ms,
                                       int64_t place, int64_t now_ms);

#endif
