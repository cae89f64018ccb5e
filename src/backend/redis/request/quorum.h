/*
 * quorum.h - holds leases back until enough replicas have them (the option wait-replicas).
 *
 * The acquires and guards of a batch share one WAIT behind them, because WAIT speaks of all that
 * its connection has written before. They are the members of one quorum:
 *
 *     prepare, send, join      for each request of the batch
 *     ask                      sends the WAIT behind them
 *     hold                     a request has its reply; `settled` is called when the WAIT has one
 *     leave                    the request ends, or is sent again
 */
#ifndef SB_REDIS_QUORUM_H
#define SB_REDIS_QUORUM_H

#include "backend/redis/wire/reconnecting.h"

struct sb_redis_quorum;

enum sb_redis_verdict {
    SB_REDIS_VERDICT_OPEN,    /* the WAIT has no reply yet */
    SB_REDIS_VERDICT_ENOUGH,  /* enough replicas have acknowledged */
    SB_REDIS_VERDICT_REFUSED, /* too few have */
    SB_REDIS_VERDICT_UNKNOWN  /* the reply is lost */
};

/* A request's part in it. All zeros but `settled` where it has none. */
struct sb_redis_quorum_member {
    struct sb_redis_quorum *quorum; /* NULL: none */
    struct sb_redis_quorum_member *next;
    /* Called once after hold, perhaps at once. */
    void (*settled)(struct sb_redis_quorum_member *member, enum sb_redis_verdict verdict);
};

/* Before a request is sent: makes sure that *open, which the next WAIT is for, is there. False when
 * memory is short. */
bool sb_redis_quorum_prepare(struct sb_redis_quorum **open, const struct sb_redis_options *options,
                             const struct sb_redis_command *command);

/* The request with this command has been sent: it belongs to the next WAIT. */
void sb_redis_quorum_join(struct sb_redis_quorum *open, struct sb_redis_quorum_member *member,
                          const struct sb_redis_command *command);

/* Sends the WAIT for those that have joined, if any, and empties *open. */
void sb_redis_quorum_ask(struct sb_redis_quorum **open, struct sb_redis_reconnecting *commands);

/* The server is not used any more: nobody will know about those that have joined. Empties *open. */
void sb_redis_quorum_abandon(struct sb_redis_quorum **open);

/* The request has won its lease: `settled` tells whether it counts. */
void sb_redis_quorum_hold(struct sb_redis_quorum_member *member);

/* Ends the membership, if there is one. Not while it is held. */
void sb_redis_quorum_leave(struct sb_redis_quorum_member *member);

/* Why the quorum did not come about. Valid until leave. */
const struct simba_error *sb_redis_quorum_reason(const struct sb_redis_quorum_member *member);

#endif
