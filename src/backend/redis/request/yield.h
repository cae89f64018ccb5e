/*
 * yield.h - which releases of this client have told a waiter to try.
 *
 * A contender that releases and competes again at once is faster than the waiter that it has told, each
 * time anew. So its next attempt leaves a moment later:
 *
 *     RELEASE answered: a waiter was told          the moment is over
 *     |------------------ 20 ms ----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 */
#ifndef SB_REDIS_YIELD_H
#define SB_REDIS_YIELD_H

#include <simba/backend.h>

#define SB_REDIS_YIELDS_MAX 128

struct sb_redis_yield {
    uint32_t from; /* a number made of the mutex and of the contender that released it */
    int64_t at_ms;
};

struct sb_redis_yields {
    struct sb_redis_yield table[SB_REDIS_YIELDS_MAX];
    int64_t last_ms; /* of the newest */
};

/* Notes down that the release of a contender has just told a waiter. */
void sb_redis_yield_note(struct sb_redis_yields *told, const char *mutex, const char *id);

/* Until when an ACQUIRE that was made now should be held back; not later than `now_ms`: not at all. It is well before
 * the request's deadline. */
int64_t sb_redis_yield_until(const struct sb_redis_yields *told,
                             const struct simba_request *request, int64_t now_ms);

#endif
