/*
 * timers.h - many deadlines, the earliest first.
 *
 * A pairing heap whose nodes live in their owners: arming allocates nothing and cannot fail, and a
 * hundred thousand of them cost what a handful costs. Not thread-safe: the loop owns it.
 */
#ifndef SB_RUNTIME_TIMERS_H
#define SB_RUNTIME_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct sb_timer {
    int64_t at_ms;
    void (*fire)(struct sb_timer *timer); /* set by the owner; the timer is not armed any more */
    bool armed;
    struct sb_timer *child;
    struct sb_timer *next;
    struct sb_timer *previous; /* the sibling before, or the parent of a first child */
};

struct sb_timers {
    struct sb_timer *root;
};

/* Arms a timer, or moves one that is armed. */
void sb_timers_arm(struct sb_timers *timers, struct sb_timer *timer, int64_t at_ms);

/* Harmless when it is not armed. */
void sb_timers_cancel(struct sb_timers *timers, struct sb_timer *timer);

/* The earliest one, or NULL. */
struct sb_timer *sb_timers_first(const struct sb_timers *timers);

#endif
