/*
 * executor.h - hands strands to the application's executor, and takes them back while it has not
 * begun them.
 *
 * Each strand has one ticket, which is what the executor is given. A thread of the executor that
 * waits inside the library runs the strands whose tickets the executor has not called yet: it may
 * be the only thread that ever would. The executor still calls such a ticket once, and the call
 * does nothing; by then the strand and the client may be gone.
 *
 * Must not know what a strand's calls do.
 */
#ifndef SB_RUNTIME_EXECUTOR_H
#define SB_RUNTIME_EXECUTOR_H

#include <simba/simba.h>

struct sb_strand;
struct sb_ticket;

/* Makes the ticket of a strand; `run` runs the strand's first call. Returns NULL when memory is
 * short. */
struct sb_ticket *sb_ticket_create(struct sb_strand *strand, void (*run)(struct sb_strand *strand),
                                   const struct simba_executor *executor);

/* The strand is idle and goes away. A ticket that the executor still has is freed when the executor
 * calls it. NULL is allowed. */
void sb_ticket_drop(struct sb_ticket *ticket);

/* Has the executor run the strand. Not while it is to run it already. Calls the application. */
void sb_ticket_hand_over(struct sb_ticket *ticket);

/* Whether the executor is to run the strand and has not begun; and takes the strand back. False: it
 * has begun, or was not asked to. */
bool sb_ticket_is_queued(const struct sb_ticket *ticket);
bool sb_ticket_take_back(struct sb_ticket *ticket);

/* Whether the executor has called a ticket on this thread: then it is one of the executor's
 * threads. */
bool sb_executor_has_run_here(const struct simba_executor *executor);

#endif
