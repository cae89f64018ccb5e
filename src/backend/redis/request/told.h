/*
 * told.h - which releases of this client have told a waiter to try.
 *
 * A contender that releases and competes again at once is faster than the waiter that it has told, each
 * time anew. So its next attempt leaves a moment later:
 *
 *     RELEASE answered: a waiter was told          the moment is over
 *     |------------------ 20 ms ----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 */
#ifndef SB_REDIS_TOLD_H
#define SB_REDIS_TOLD_H

#include <simba/backend.h>

#define SB_TOLD_MAX 128

struct sb_told_by {
    uint32_t from; /* a number made of the mutex and of the contender that released it */
    int64_t at_ms;
};

struct sb_told {
    struct sb_told_by table[SB_TOLD_MAX];
    int64_t last_ms; /* of the newest */
};

/* Notes down that the release of a contender has just told a waiter. */
void sb_told_note(struct sb_told *told, const char *mutex, const char *id);

/* Until when an ACQUIRE that was made now should be held back; not later than `now_ms`: not at all. It is well before
 * the request's deadline. */
int64_t sb_told_until(const struct sb_told *told, const struct simba_request *request,
                      int64_t now_ms);

#endif
