/*
 * group.h - decides for a locker of several mutexes, its parts, which of them to compete for: the
 * slots of a semaphore, or all mutexes of a set. Pure: no clock, no store, no memory of its own.
 *
 * The caller looks at each part, asks for a plan, starts the contest of each part that is wanted
 * and ends that of each that is not, and asks again when a part has changed or `again_ms` has come.
 * So a plan depends on what is, not on what has been: a part that was lost while others are waited
 * for needs no rule of its own.
 *
 *     semaphore   parts[0] is the gate, parts[k + 1] is slot k. Who owns the gate is the first in
 *                 line, and competes for the slots; the others wait for the gate. The caller also
 *                 asks the store for the number of slots when sb_group_ask_at_ms has come.
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
    enum sb_part_sight sight; /* by the caller, before each plan */
    bool wanted;              /* by the plan */
};

enum sb_group_kind { SB_GROUP_SEMAPHORE, SB_GROUP_SET };

/* For how long the number of slots is known, and the pause before the store is asked again that has
 * not told it. */
#define SB_GROUP_KNOWN_MS 1000
#define SB_GROUP_ASK_MS 100

struct sb_group {
    enum sb_group_kind kind;
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
    int64_t again_ms;     /* when to ask for a plan again; INT64_MAX: when a part has changed */
};

enum sb_group_verdict {
    SB_GROUP_WAITS,
    SB_GROUP_REFUSED, /* with `once`: another owns what it needs */
    SB_GROUP_HELD     /* what is wanted is held, and is all that it needs */
};

/* Before each acquire. */
void sb_group_begin(struct sb_group *group, bool once);

/* When the store is to be asked for the number of slots, of parts that were looked at; it may have
 * passed. SIMBA_INFINITE: not before a part has changed. Set `asked_ms` then, and `slots` and
 * `told_ms` when the answer has come, and there is a part for each slot. */
int64_t sb_group_ask_at_ms(const struct sb_group *group, const struct sb_part *parts);

/* Fills in `wanted` of all parts. */
enum sb_group_verdict sb_group_plan(struct sb_group *group, struct sb_part *parts, size_t count,
                                    int64_t now_ms);

/* The part that is in the way. */
size_t sb_group_blocking(const struct sb_group *group, const struct sb_part *parts, size_t count);

#endif
