/*
 * group.h - decides for a locker of several mutexes, its parts, which of them to compete for: the
 * slots of a semaphore, or all mutexes of a set. No clock, no store, no memory of its own.
 *
 *     step   look at the parts ---> plan ---> withdraw, begin ---> the caller waits --+
 *              ^ ---------------------------------------------------------------------+
 *
 * A plan depends on what is, not on what has been: a part that was lost while others are waited for
 * needs no rule of its own. What a part is, the caller knows: struct sb_part_ops.
 *
 *     semaphore   parts[0] is the gate, parts[k + 1] is slot k. The owner of the gate is the first
 *                 in line, and competes for the slots; the others wait for the gate.
 *     set         the caller has sorted the parts, alike in all processes.
 *
 * Rules
 *  1. Slots are competed for under the gate only, and only those below the number of slots. With
 *     `once`, which stands in no line, also beside a gate that another owns.
 *  2. A slot counts when it is held as 1 says, and the number of slots is known: the store has told
 *     it within SB_GROUP_KNOWN_MS. Then the gate and all other slots are not wanted.
 *  3. A set keeps and waits for no part before it has all that stand in front of it. So no circle
 *     of sets waits for itself.
 *  4. With no_hold it waits for one part and keeps nothing meanwhile; the others it only tries.
 *  5. A set is held when all of it is.
 */
#ifndef SB_CORE_GROUP_H
#define SB_CORE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sb_part_sight {
    SB_PART_IDLE,
    SB_PART_LEAVING, /* the store is told that it is given up */
    SB_PART_ASKED,   /* the store has not answered yet */
    SB_PART_REFUSED, /* it has answered: another owns. It is waited for */
    SB_PART_HELD
};

struct sb_part {
    enum sb_part_sight sight; /* as it was looked at */
    bool wanted;              /* by the plan */
};

/* How the caller's parts are looked at and moved. `user` is that of the group. */
struct sb_part_ops {
    enum sb_part_sight (*look)(void *user, size_t part);
    void (*begin)(void *user, size_t part);    /* its contest; only of one that is idle */
    void (*withdraw)(void *user, size_t part); /* from its contest or its term, without a wait */
    bool (*take)(void *user, size_t part);     /* false: it is not believed in any more */
};

enum sb_group_kind { SB_GROUP_SEMAPHORE, SB_GROUP_SET };

/* For how long the number of slots is known, and the pause before the store is asked again that has
 * not told it. */
#define SB_GROUP_KNOWN_MS 1000
#define SB_GROUP_ASK_MS 100

struct sb_group {
    enum sb_group_kind kind;
    const struct sb_part_ops *ops;
    void *user;
    struct sb_part *parts; /* the caller's */
    size_t count;
    bool once;    /* do not wait for what another owns */
    bool no_hold; /* of a set */
    uint64_t dice;

    /* Of a semaphore. */
    size_t slots;     /* as the store told last; before that as the application says */
    int64_t told_ms;  /* when the store was asked what it told then; SIMBA_UNSET: it never did */
    int64_t asked_ms; /* when it was asked last; SIMBA_UNSET: not since sb_group_begin */
    size_t first;     /* the slot to try first */
    bool full;        /* that one was in use: any will do */
    size_t slot;      /* the one that is held, where the plan says SB_GROUP_HELD */

    /* Of a set with no_hold. */
    size_t awaited;       /* the part that it waits for */
    unsigned withdrawals; /* in a row */
    int64_t again_ms;     /* when it comes back; INT64_MAX: it has not withdrawn */
};

enum sb_group_verdict {
    SB_GROUP_WAITS,   /* until a part has changed, or until *ret_until_ms */
    SB_GROUP_ASKS,    /* the store is to be asked for the number of slots: sb_group_tell */
    SB_GROUP_REFUSED, /* with `once`: another owns what it needs */
    SB_GROUP_LATE,    /* the time is over */
    SB_GROUP_HELD     /* what is wanted is taken, and is all that it needs */
};

/* Before each acquire. */
void sb_group_begin(struct sb_group *group, bool once);

/* Looks at the parts, and does what there is to do now. */
enum sb_group_verdict sb_group_step(struct sb_group *group, int64_t now_ms, int64_t until_ms,
                                    int64_t *ret_until_ms);

/* The answer of the store, which was asked at `asked_ms`; 0: there was none. There is a part for
 * each slot. */
void sb_group_tell(struct sb_group *group, int64_t asked_ms, size_t slots);

/* After SB_GROUP_HELD: withdraws the parts that are not wanted, the gate last. */
void sb_group_keep_wanted(struct sb_group *group);

/* After any other end: withdraws all. */
void sb_group_give_up(struct sb_group *group);

/* The part that is in the way. */
size_t sb_group_blocking(const struct sb_group *group);

#endif
