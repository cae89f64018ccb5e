/*
 * released.h - what the latest releases of this client came to, by who released what.
 *
 * Whoever releases, tells a waiter by that and competes again at once is faster than the waiter, each time anew. So its
 * next attempt leaves a moment later:
 *
 *     RELEASE answered: a waiter was told          the moment is over
 *     |------------------ 20 ms ----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 *
 * Where nobody was told, the contender stands in no queue and the counter has its token, unless others came since. So its
 * next attempt can do without most of what an attempt has to do.
 */
#ifndef SB_REDIS_RELEASED_H
#define SB_REDIS_RELEASED_H

#include <simba/backend.h>

#define SB_RELEASED_MAX 128

struct sb_released_entry {
    uint32_t from; /* a number made of the mutex and of who released it */
    bool told;     /* a waiter was told to try */
    int64_t at_ms;
    uint64_t token;      /* of the term that ended */
    uint64_t connection; /* that the answer came by */
};

struct sb_released {
    struct sb_released_entry table[SB_RELEASED_MAX];
    int64_t last_ms; /* of the newest */
};

/* Notes down a release that has just given its lease back. */
void sb_released_note(struct sb_released *released, const struct simba_request *request, bool told,
                      uint64_t connection);

/* The release before an ACQUIRE that was made now; NULL: none, or not lately. */
const struct sb_released_entry *sb_released_find(const struct sb_released *released,
                                                 const struct simba_request *request,
                                                 int64_t now_ms);

/* Until when the ACQUIRE should be held back; not later than the release: not at all. It is well before the request's
 * deadline. */
int64_t sb_released_until(const struct sb_released_entry *entry,
                          const struct simba_request *request);

#endif
