/*
 * contest.h - many contenders, in one or many processes, fight for one mutex; at no instant may two
 * of them own it.
 *
 * Two checks, because neither alone is enough:
 *  - live: a contender that enters a term looks whether another is inside one that is still good;
 *  - afterwards: the log of all terms is sorted by time. Beliefs must not overlap, tokens must
 *    grow.
 *
 * A term is inside from on_acquired until its on_released has returned, as long as the lease lasts
 * that its owner has seen with its own eyes (until_ms). A term that was lost to a stalled machine
 * therefore does not count against its successor, and one that was given back counts to the very
 * end.
 */
#ifndef SB_TCK_CONTEST_H
#define SB_TCK_CONTEST_H

#include "tck/kit.h"

#include <stdatomic.h>

#define SB_CONTEST_SLOTS_MAX 1024
#define SB_CONTEST_TERMS_MAX 16384 /* later terms are checked live only */

/* A belief that somebody certainly had: from begin_us to seen_us, on the clock that all processes
 * of a host share. */
struct sb_contest_term {
    unsigned slot;
    _Atomic uint64_t fence; /* 0: not logged */
    _Atomic int64_t begin_us;
    _Atomic int64_t seen_us;
};

/* Memory that all processes of a contest share. Zeroed is ready. */
struct sb_contest_arena {
    _Atomic int64_t until_ms[SB_CONTEST_SLOTS_MAX]; /* 0: outside */
    atomic_uint wins[SB_CONTEST_SLOTS_MAX];
    atomic_uint terms;
    atomic_uint lost; /* terms that ended by expiry */
    atomic_uint failures;
    char failure[SB_KIT_TEXT_MAX]; /* of the process that failed first */
    struct sb_contest_term log[SB_CONTEST_TERMS_MAX];
};

/* Maps an arena that is shared with children to come; NULL when that fails. */
struct sb_contest_arena *sb_contest_arena_create(void);
void sb_contest_arena_free(struct sb_contest_arena *arena);

/* Lets `count` contenders, those of the slots from `first` on, compete for options.contend_ms.
 * Failures are the kit's. All is closed when it returns. */
void sb_contest_run(struct sb_kit *kit, struct sb_contest_arena *arena, unsigned first,
                    unsigned count);

/* Checks the log after all have ended, and that the contest was one. */
void sb_contest_judge(struct sb_kit *kit, struct sb_contest_arena *arena);

#endif
