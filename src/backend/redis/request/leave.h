/*
 * leave.h - takes contenders that have gone out of the wait queue.
 */
#ifndef SB_REDIS_LEAVE_H
#define SB_REDIS_LEAVE_H

#include "backend/redis/request/nodes.h"

/* Nobody is behind the listener any more, but its contender may stand in the queue, and may have been told to try: it
 * leaves, and where the mutex is free the next one is told. Nothing happens while a leave of it is under way: whatever
 * it is told, it leaves once in a round trip. */
void sb_redis_leave_queue(simba_backend *store, struct sb_redis_listener *listener);

#endif
