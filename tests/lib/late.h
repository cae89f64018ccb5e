/*
 * late.h - a client that is opened while its store cannot be used, and what becomes of all that is
 * made from it.
 */
#ifndef SIMBA_TEST_LATE_H
#define SIMBA_TEST_LATE_H

#include <simba/simba.h>

#include <stdatomic.h>

struct late {
    enum simba_error_group group; /* why the store cannot be used */
    simba_client *client;
    simba_contender *contender;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;
    atomic_uint acquired;
    atomic_uint runs;
};

/* The store cannot be used now, for a reason of this group: to open it plainly fails so, and to
 * open it with allow_store_down does not. Starts a contender of mutex `late`, an observer of it, a
 * scheduler and a locker of mutexes of their own; they fail as they do with a store that went
 * away. */
void late_begin(struct late *late, const char *url, enum simba_error_group group);

/* The store can be used by now: waits until all have what they want. Closes everything. */
void late_end(struct late *late);

/* The store stays away: closes everything. */
void late_give_up(struct late *late);

#endif
