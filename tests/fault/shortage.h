/*
 * shortage.h - a resource of which one piece, or every piece from one on, cannot be had.
 *
 * Pieces are counted over all threads. Whatever hands them out (an allocator, pthread_create) asks
 * shortage_strikes() each time.
 */
#ifndef SIMBA_FAULT_SHORTAGE_H
#define SIMBA_FAULT_SHORTAGE_H

#include <stdatomic.h>
#include <stdbool.h>

struct shortage {
    const char *piece; /* "allocation" */
    int code;          /* what a call that is hit returns */
    long nth;
    bool for_good;
    atomic_bool on;
    atomic_long asked;   /* since it began */
    atomic_long refused; /* since it began */
};

/* From now on the `nth` piece is refused, and with `for_good` all that follow it. */
void shortage_begin(struct shortage *shortage, long nth, bool for_good);

/* Ends it; returns how many pieces were refused. */
long shortage_end(struct shortage *shortage);

/* Counts a piece; true when it is refused. */
bool shortage_strikes(struct shortage *shortage);

/* Whether any piece has been refused since it began. */
bool shortage_has_struck(const struct shortage *shortage);

#endif
