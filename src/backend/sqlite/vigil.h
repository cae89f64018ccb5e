/*
 * vigil.h - the lives that a client waits for the end of: those of the owners that its contenders and
 * observers have met.
 *
 * Lives are added on any thread, and looked after on the loop thread.
 */
#ifndef SB_BACKEND_SQLITE_VIGIL_H
#define SB_BACKEND_SQLITE_VIGIL_H

#include "backend/sqlite/life.h"

#include <pthread.h>

#define SB_VIGIL_MAX 256 /* lives, the latest; other owners are succeeded when their leases end */

struct sb_vigil {
    struct sb_life_probe probe; /* the loop thread's */
    pthread_mutex_t lock;       /* guards what follows */
    size_t count;
    int64_t lives[SB_VIGIL_MAX];
};

void sb_vigil_init(struct sb_vigil *vigil, const struct sb_life_file *file);
void sb_vigil_close(struct sb_vigil *vigil);

/* Adds a life. Returns whether it was not there before. Any thread. */
bool sb_vigil_add(struct sb_vigil *vigil, int64_t life);

/* Looks after all, and forgets those that are over or of which nothing is known. Returns whether one is over. */
bool sb_vigil_look(struct sb_vigil *vigil);

/* Whether there is any left. */
bool sb_vigil_is_needed(struct sb_vigil *vigil);

#endif
