/*
 * leave.h - takes contenders that have gone, or do not come, out of the wait queue.
 */
#ifndef SB_REDIS_LEAVE_H
#define SB_REDIS_LEAVE_H

#include "backend/redis/store.h"

/* Nobody is behind the listener any more, but its contender may stand in the queue, and may have been told to try or
 * handed the mutex: it leaves, what it was handed goes on to the next one, and where the mutex is free that is told. Or
 * the contender is there and does not ask for what it was handed. */
void sb_leave_queue(simba_backend *store, const struct sb_listener *listener);

#endif
