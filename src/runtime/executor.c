/*
 * executor.c - the tickets of strands.
 *
 *     IDLE -- hand over --> QUEUED -- the executor calls --> IDLE, and the strand runs
 *                              |
 *                              `-- take back --> TAKEN_BACK -- the executor calls --> IDLE
 *                                                   |   `----- hand over --> QUEUED
 *                                                   `--------- drop -------> DROPPED
 *     DROPPED -- the executor calls --> freed
 *
 * The executor may call a ticket when strand, dispatcher and client are gone. So its state is one
 * atomic, and a call touches the strand only where it has turned QUEUED to IDLE: a strand that is
 * queued is alive.
 */
#include "runtime/executor.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stdatomic.h>

enum { IDLE, QUEUED, TAKEN_BACK, DROPPED };

struct sb_ticket {
    _Atomic int state;
    struct sb_strand *strand;
    void (*run)(struct sb_strand *strand);
    struct simba_executor executor;
};

/* The executors that have called a ticket on this thread; the oldest is forgotten first. */
#define SERVED_MAX 8

static _Thread_local struct simba_executor served[SERVED_MAX];
static _Thread_local unsigned served_next;

bool sb_executor_has_run_here(const struct simba_executor *executor)
{
    for (unsigned i = 0; i < SERVED_MAX; i++)
        if (served[i].execute == executor->execute && served[i].user == executor->user)
            return true;
    return false;
}

static void remember_thread(const struct simba_executor *executor)
{
    if (sb_executor_has_run_here(executor))
        return;
    SB_CHECK(served_next < SERVED_MAX, "the oldest executor is replaced");
    served[served_next] = *executor;
    served_next = (served_next + 1) % SERVED_MAX;
}

static bool move(struct sb_ticket *ticket, int from, int to)
{
    return atomic_compare_exchange_strong(&ticket->state, &from, to);
}

static void call_ticket(void *argument)
{
    struct sb_ticket *ticket = argument;
    struct sb_strand *strand = ticket->strand;
    void (*run)(struct sb_strand *) = ticket->run;

    remember_thread(&ticket->executor);
    for (;;) {
        if (move(ticket, QUEUED, IDLE)) {
            run(strand);
            return;
        }
        if (move(ticket, TAKEN_BACK, IDLE))
            return;
        if (atomic_load(&ticket->state) == DROPPED) {
            sb_free(ticket);
            return;
        }
    }
}

void sb_ticket_hand_over(struct sb_ticket *ticket)
{
    if (move(ticket, TAKEN_BACK, QUEUED))
        return; /* the executor has it still */
    SB_CHECK(atomic_load(&ticket->state) == IDLE, "a ticket is handed over once");
    atomic_store(&ticket->state, QUEUED);
    ticket->executor.execute(ticket->executor.user, call_ticket, ticket);
}

bool sb_ticket_is_queued(const struct sb_ticket *ticket)
{
    return atomic_load(&ticket->state) == QUEUED;
}

bool sb_ticket_take_back(struct sb_ticket *ticket)
{
    return move(ticket, QUEUED, TAKEN_BACK);
}

void sb_ticket_drop(struct sb_ticket *ticket)
{
    SB_CHECK(ticket == NULL || !sb_ticket_is_queued(ticket), "a ticket is dropped when it is idle");
    if (ticket != NULL && !move(ticket, TAKEN_BACK, DROPPED))
        sb_free(ticket);
}

struct sb_ticket *sb_ticket_create(struct sb_strand *strand, void (*run)(struct sb_strand *strand),
                                   const struct simba_executor *executor)
{
    struct sb_ticket *ticket = sb_alloc_zero(sizeof *ticket);

    if (ticket == NULL)
        return NULL;
    ticket->strand = strand;
    ticket->run = run;
    ticket->executor = *executor;
    return ticket;
}
