/*
 * handed.h - what the releases of this client have come upon: waiters that were told to try, and mutexes that went on to
 * a waiter.
 *
 * Whoever releases and competes again at once is faster than the waiter that it has told, each time anew. So its next
 * attempt leaves a moment later:
 *
 *     RELEASE answered: a waiter was told          the moment is over
 *     |------------------ 20 ms ----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 *
 * A mutex that has been handed on is likely to be handed on by its next release as well. That one leaves behind a PING:
 * a server writes first to whom it has had something for last. So the waiter has its message before the releaser has
 * its answer, and on a small machine is not kept from its core by a releaser that has nothing more to do.
 */
#ifndef SB_REDIS_HANDED_H
#define SB_REDIS_HANDED_H

#include <simba/backend.h>

#define SB_HANDED_MAX 128

struct sb_hand_over {
    uint32_t from; /* a number made of the mutex and, where it matters, of who released it */
    int64_t at_ms;
};

struct sb_handed {
    struct sb_hand_over table[SB_HANDED_MAX];
    int64_t last_ms;                           /* of the newest */
    struct sb_hand_over wanted[SB_HANDED_MAX]; /* mutexes that went on to a waiter */
    int64_t wanted_ms;                         /* of the newest */
};

/* Notes down that the release of a contender has just told a waiter. */
void sb_handed_note(struct sb_handed *handed, const char *mutex, const char *id);

/* Until when an ACQUIRE that was made now should be held back; not later than `now_ms`: not at all. It is well before
 * the request's deadline. */
int64_t sb_handed_until(const struct sb_handed *handed, const struct simba_request *request,
                        int64_t now_ms);

/* Notes down that a release has handed the mutex on; and whether one has, not long ago. */
void sb_handed_note_wanted(struct sb_handed *handed, const char *mutex);
bool sb_handed_is_wanted(const struct sb_handed *handed, const char *mutex, int64_t now_ms);

#endif
