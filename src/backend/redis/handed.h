/*
 * handed.h - whom the last releases of this client have told to try.
 *
 * Whoever releases and competes again at once is faster than the waiter that it has just told, each time anew. So
 * for a moment it lets that waiter go first.
 */
#ifndef SB_REDIS_HANDED_H
#define SB_REDIS_HANDED_H

#include <simba/simba.h>

#define SB_HANDED_MAX 16

/* A release: the term that it ended and whom it has told. */
struct sb_hand_over {
    uint32_t from; /* a number made of the mutex and of who released it */
    uint64_t token;
    int64_t until_ms;
    char to[SIMBA_ID_MAX + 1];
};

struct sb_handed {
    struct sb_hand_over ring[SB_HANDED_MAX];
    unsigned next;    /* the oldest, which is replaced */
    int64_t until_ms; /* of the newest */
};

/* Notes down that the release of a term has told `to`. An id that is too long is none of ours and goes unnoticed. */
void sb_handed_note(struct sb_handed *handed, const char *mutex, const char *id, uint64_t token,
                    const char *to, size_t length);

/* The last release of that contender, where it was a moment ago and has told somebody; NULL otherwise. It is told
 * once: whoever was refused for it may have been told to try meanwhile. Valid until the next note. */
const struct sb_hand_over *sb_handed_take(struct sb_handed *handed, const char *mutex,
                                          const char *id);

#endif
