/*
 * grant.h - a mutex that a release has handed to a contender of this client.
 *
 * A release makes the oldest waiter the owner and tells it so, which saves the waiter's own round trip:
 *
 *     owner      RELEASE ---.                        the waiter's key, with a new token
 *     server                 `--> time S2: it is the waiter's, for a lease
 *     waiter                        `--- message ---> kept ... ACQUIRE: answered from memory
 *
 * The lease counts from S2, which the waiter has to find on its own clock. It knows another instant of the server's
 * clock, S1, from an attempt that lost, and that this was not before L1, when it set out:
 *
 *     waiter   L1 --.                 as_of = L1 + 99 % of (S2 - S1)
 *     server         `--> S1 ......... S2
 *
 * L1 was before S1, so as_of is before S2, unless the server's clock ran more than 1 % fast or was set ahead in between;
 * and it is never later than the message came. So a message that was long under way does not stretch the lease, and one
 * that was not does not even with a server's clock that is wrong.
 *
 * What is not certain is not used. The ACQUIRE then goes to the server, which finds its contender there as the owner and
 * begins a new term. What must hold:
 *  - The token is larger than every token that this client has seen. A message that was overtaken by a later term, or by
 *    the end of its own, is one of the past.
 *  - It is of this mutex and database, which may have the channel in common with others.
 *  - Both connections lead to one server and have not been made anew since S1. One server is one address: two behind a
 *    load balancer are not told apart.
 *  - The lease is the contender's own, and at least half of it is left.
 *  - The leases of the client need no replicas, and it is not the client of a cluster, where a node may have lost the
 *    slot.
 *
 * A contender asks at once, unless a callback of its own still runs, and that may take any time. So what nobody has
 * asked for within a moment is given back, and goes on to the next waiter:
 *
 *     message: kept            given back: a RELEASE with the token
 *     |---- 50 to 100 ms ------------|
 *                                       | ACQUIRE: sent behind it, for the place that the contender had
 */
#ifndef SB_REDIS_GRANT_H
#define SB_REDIS_GRANT_H

#include "backend/redis/store.h"

struct sb_record;

/* What the message of a release tells. */
struct sb_grant {
    uint64_t token;
    int64_t at_us; /* by the server's clock */
    int64_t lease_ms;
    int64_t key_length; /* of the owner's key: two mutexes may have a channel in common */
    int64_t database;   /* and all databases have */
    int64_t as_of_ms;   /* by ours; 0: not known */
    int64_t due_ms;     /* by ours: when it is given back */
    unsigned era;       /* of the node */
};

/* False when the message hands nothing over. The last three are not filled in. */
bool sb_grant_read(struct sb_grant *grant, const char *text, size_t length);

/* An attempt that was made at `made_ms` has lost at `server_us`. */
void sb_grant_compare_clocks(struct sb_node *node, int64_t made_ms, int64_t server_us);

/* One of the node's connections was made anew: what was known of its server may be of another one. */
void sb_grant_begin_era(struct sb_node *node);

/* Before anything is kept; and when the client closes: sb_store_finish_close is called when that is done. */
void sb_grant_open(simba_backend *store);
void sb_grant_close(simba_backend *store);

/* Keeps what a message hands to the listener's contender; a message that hands nothing over is none. */
void sb_grant_keep(struct sb_node *node, struct sb_listener *listener, const char *text,
                   size_t length);

/* Whether the mutex was handed to whoever makes this ACQUIRE; then the answer is filled in. Asked once: the grant is
 * gone in any case. */
bool sb_grant_use(simba_backend *store, const struct simba_request *request,
                  struct sb_record *record);

/* The same for a contender that stops without having been told: the token to give back; 0: none. */
uint64_t sb_grant_take_token(simba_backend *store, const struct simba_request *request);

/* That failed: it is kept, to be given back later, or when the server can be reached again. Not for longer than its
 * listener is there: one that nobody is behind lingers for a second at most, and not at all where the connection for
 * subscriptions is down. Then the mutex is the contender's until its lease ends. */
void sb_grant_return(simba_backend *store, const struct simba_request *request, uint64_t token);

/* The server can be reached again: gives back what is kept for contenders that have gone and whose listeners linger. */
void sb_grant_give_back_all(simba_backend *store);

/* An answer has told a contender of this token: what it was handed with it or before is nothing to give back any more.
 * What it was handed since stays: the message was faster than the answer. */
void sb_grant_forget(simba_backend *store, const struct simba_request *request, uint64_t token);

/* What a release of this client lets its mutex be handed on with, in milliseconds; 0: it is not handed on. */
int64_t sb_grant_offer_ms(const simba_backend *store, const struct simba_request *request);

#endif
