/*
 * quorum.h - holds leases back until enough replicas have them (the option wait-replicas).
 *
 * The acquires and guards of a batch share one WAIT behind them, because WAIT speaks of all that its
 * connection has written before.
 */
#ifndef SB_REDIS_QUORUM_H
#define SB_REDIS_QUORUM_H

#include "backend/redis/request/call.h"

/* Before a job is sent: makes sure that it can join. False when memory is short. */
bool sb_redis_quorum_prepare(struct sb_redis_call *job);

/* The job has been sent to its node: where it makes or keeps a lease, it belongs to the next WAIT. */
void sb_redis_quorum_join(struct sb_redis_call *job);

/* The job is at its end, or begins anew. */
void sb_redis_quorum_leave(struct sb_redis_call *job);

/* Sends the WAIT for those that have joined at the node, if any. */
void sb_redis_quorum_ask(struct sb_redis_node *node);

/* The node goes: nobody will know about those that have joined there. */
void sb_redis_quorum_abandon(struct sb_redis_node *node);

/* Why it refused what it was asked for. */
const struct simba_error *sb_redis_quorum_reason(const struct sb_redis_quorum *quorum);

/* The job that gives its lease back is at its end. */
void sb_redis_quorum_forget(struct sb_redis_call *job);

/* The job's lease stands in `record`; it is answered when the acknowledgement is there or fails. */
void sb_redis_quorum_hold(struct sb_redis_call *job, const struct sb_redis_record *record);

#endif
