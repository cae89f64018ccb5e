/*
 * observer.h - the machine of an observer, which follows a mutex without competing for it.
 *
 * Pure, and driven like the contention machine: the same events, the same steps. Its only request
 * is SIMBA_OP_READ; it never owns.
 */
#ifndef SB_CORE_OBSERVER_H
#define SB_CORE_OBSERVER_H

#include "core/machine.h"

struct sb_observer {
    const struct sb_timing *timing;
    int64_t poll_ms; /* the longest time between two READs */
    enum simba_status status;
    bool in_flight;
    bool woken;
    uint32_t generation;
    unsigned callbacks;
    unsigned reads_while_free; /* since the last change, while nobody owns */
    int last_code;
    int64_t read_at_ms;
    int64_t stop_at_ms;
    uint64_t random;
    struct simba_owner owner; /* last, as in sb_machine */
};

void sb_observer_init(struct sb_observer *observer, const struct sb_timing *timing, int64_t poll_ms,
                      uint64_t seed);

/* As sb_machine_step. */
int sb_observer_step(struct sb_observer *observer, const struct sb_event *event,
                     struct sb_step *step);

#endif
