/*
 * handed.h - which releases of this client have just told a waiter to try.
 *
 * Whoever releases and competes again at once is faster than the waiter that it has told, each time anew. So its next
 * attempt leaves a moment later:
 *
 *     RELEASE answered: a waiter was told          the moment is over
 *     |------------------ 20 ms ----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 */
#ifndef SB_REDIS_HANDED_H
#define SB_REDIS_HANDED_H

#include <simba/backend.h>

#define SB_HANDED_MAX 128

struct sb_hand_over {
    uint32_t from; /* a number made of the mutex and of who released it */
    int64_t at_ms;
};

struct sb_handed {
    struct sb_hand_over table[SB_HANDED_MAX];
    int64_t last_ms; /* of the newest */
};

/* Notes down that the release of a contender has just told a waiter. */
void sb_handed_note(struct sb_handed *handed, const char *mutex, const char *id);

/* Until when an ACQUIRE that was made now should be held back; not later than `now_ms`: not at all. It is well before
 * the request's deadline. */
int64_t sb_handed_until(const struct sb_handed *handed, const struct simba_request *request,
                        int64_t now_ms);

#endif
