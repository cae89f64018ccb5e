/*
 * group.c - the plans of semaphores and sets. group.h has the rules.
 */
#include "core/group.h"

#include "base/check.h"
#include "base/random.h"
#include "base/time.h"

/* How long a set with no_hold stays away after it found a part in use while it held others. */
#define WITHDRAW_MIN_MS 4
#define WITHDRAW_DOUBLINGS 7 /* up to half a second */

void sb_group_begin(struct sb_group *group, bool once)
{
    group->once = once;
    group->asked_ms = SIMBA_UNSET;
    group->full = false;
    group->awaited = 0;
    group->withdrawals = 0;
    group->again_ms = INT64_MAX;
}

static void want_none(struct sb_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        group->parts[i].wanted = false;
}

static bool is_in_the_way(const struct sb_group *group, const struct sb_part *part)
{
    return group->once && part->sight == SB_PART_REFUSED;
}

/* ---- A semaphore ----------------------------------------------------------------------------- */

static int64_t known_until_ms(const struct sb_group *group)
{
    return group->told_ms != SIMBA_UNSET ? sb_later(group->told_ms, SB_GROUP_KNOWN_MS) : 0;
}

/* When the store is to be asked for the number of slots; it may have passed. Before the wait, too:
 * a number that the store refuses is refused at once. */
static int64_t ask_at_ms(const struct sb_group *group)
{
    const struct sb_part *parts = group->parts;
    bool asked = group->asked_ms != SIMBA_UNSET;
    bool beside = is_in_the_way(group, &parts[0]) || group->told_ms == SIMBA_UNSET;

    if (group->kind != SB_GROUP_SEMAPHORE)
        return SIMBA_INFINITE;
    if (parts[0].sight != SB_PART_HELD)
        return beside && !asked ? known_until_ms(group) : SIMBA_INFINITE;
    return asked ? sb_max(known_until_ms(group), sb_later(group->asked_ms, SB_GROUP_ASK_MS))
                 : known_until_ms(group);
}

/* A slot beyond the number of slots may be held when that number has become smaller. */
static size_t held_slot(const struct sb_part *parts, size_t slots)
{
    size_t slot = 0;

    while (slot < slots && parts[1 + slot].sight != SB_PART_HELD)
        slot++;
    return slot;
}

/* One slot is tried first, which is enough while some are free: each further one costs requests.
 * Returns whether all are in use. */
static bool compete(struct sb_group *group)
{
    struct sb_part *parts = group->parts;
    bool all_refused = true;

    if (group->first >= group->slots)
        group->first = 0;
    group->full |= parts[1 + group->first].sight == SB_PART_REFUSED;
    for (size_t i = 0; i < group->slots; i++) {
        parts[1 + i].wanted = group->full || i == group->first;
        all_refused &= parts[1 + i].sight == SB_PART_REFUSED;
    }
    return all_refused;
}

static enum sb_group_verdict plan_semaphore(struct sb_group *group, int64_t now_ms)
{
    struct sb_part *parts = group->parts;
    bool known = now_ms < known_until_ms(group);
    bool first_in_line = parts[0].sight == SB_PART_HELD;
    size_t held;

    SB_CHECK(group->slots > 0 && group->slots < group->count,
             "each slot is a part, and the gate is one more");
    want_none(group);
    parts[0].wanted = true;
    if (!first_in_line && !is_in_the_way(group, &parts[0])) {
        group->full = false;
        return SB_GROUP_WAITS;
    }
    if (!first_in_line && !known)
        return group->asked_ms != SIMBA_UNSET ? SB_GROUP_REFUSED : SB_GROUP_WAITS;
    held = held_slot(parts, group->slots);
    if (held == group->slots)
        return compete(group) && group->once && known ? SB_GROUP_REFUSED : SB_GROUP_WAITS;
    parts[1 + held].wanted = true;
    if (!known)
        return SB_GROUP_WAITS;
    parts[0].wanted = false;
    group->slot = group->first = held;
    return SB_GROUP_HELD;
}

/* ---- A set ----------------------------------------------------------------------------------- */

static size_t first_not_held(const struct sb_group *group)
{
    size_t i = 0;

    while (i < group->count && group->parts[i].sight == SB_PART_HELD)
        i++;
    return i;
}

static enum sb_group_verdict plan_set(struct sb_group *group)
{
    struct sb_part *parts = group->parts;
    size_t next = first_not_held(group);

    for (size_t i = 0; i < group->count; i++)
        parts[i].wanted = i <= next;
    if (next == group->count)
        return SB_GROUP_HELD;
    return is_in_the_way(group, &parts[next]) ? SB_GROUP_REFUSED : SB_GROUP_WAITS;
}

/* Two sets that hold what the other tries would meet again and again: the time is drawn. */
static enum sb_group_verdict withdraw(struct sb_group *group, size_t refused, int64_t now_ms)
{
    unsigned doublings =
        group->withdrawals < WITHDRAW_DOUBLINGS ? group->withdrawals : WITHDRAW_DOUBLINGS;
    int64_t limit_ms = (int64_t)WITHDRAW_MIN_MS << doublings;

    want_none(group);
    group->withdrawals++;
    group->awaited = refused;
    group->again_ms =
        sb_later(now_ms, sb_random_between(sb_random_next(&group->dice), 1, limit_ms));
    return SB_GROUP_WAITS;
}

static enum sb_group_verdict plan_without_holding(struct sb_group *group, int64_t now_ms)
{
    struct sb_part *parts = group->parts;

    want_none(group);
    if (now_ms < group->again_ms && group->again_ms != INT64_MAX)
        return SB_GROUP_WAITS;
    group->again_ms = INT64_MAX;
    parts[group->awaited].wanted = true;
    if (parts[group->awaited].sight != SB_PART_HELD)
        return SB_GROUP_WAITS;
    for (size_t i = 0; i < group->count; i++) {
        if (parts[i].sight == SB_PART_REFUSED)
            return withdraw(group, i, now_ms);
        parts[i].wanted = true;
        if (parts[i].sight != SB_PART_HELD)
            return SB_GROUP_WAITS;
    }
    return SB_GROUP_HELD;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static enum sb_group_verdict plan(struct sb_group *group, int64_t now_ms)
{
    if (group->kind == SB_GROUP_SEMAPHORE)
        return plan_semaphore(group, now_ms);
    if (group->no_hold && !group->once)
        return plan_without_holding(group, now_ms);
    return plan_set(group);
}

size_t sb_group_blocking(const struct sb_group *group)
{
    size_t next = first_not_held(group);

    if (group->kind == SB_GROUP_SEMAPHORE)
        return group->parts[0].sight == SB_PART_HELD || group->full ? 1 + group->first : 0;
    if (group->no_hold && !group->once)
        return group->awaited;
    return next < group->count ? next : 0;
}

/* ---- Carrying it out ------------------------------------------------------------------------- */

/* The gate is looked at last: it was owned when a slot had been won. */
static void look(struct sb_group *group)
{
    for (size_t i = group->count; i-- > 0;)
        group->parts[i].sight = group->ops->look(group->user, i);
}

void sb_group_keep_wanted(struct sb_group *group)
{
    for (size_t i = group->count; i-- > 0;)
        if (!group->parts[i].wanted && group->parts[i].sight >= SB_PART_ASKED)
            group->ops->withdraw(group->user, i);
}

/* First what is not wanted: a set must not keep what it may not wait with. */
static void follow_plan(struct sb_group *group)
{
    sb_group_keep_wanted(group);
    for (size_t i = 0; i < group->count; i++)
        if (group->parts[i].wanted && group->parts[i].sight == SB_PART_IDLE)
            group->ops->begin(group->user, i);
}

static void withdraw_all(struct sb_group *group)
{
    want_none(group);
    sb_group_keep_wanted(group);
}

void sb_group_give_up(struct sb_group *group)
{
    look(group);
    withdraw_all(group);
}

/* False: one of them is not believed in any more, and none is kept. */
static bool take_wanted(struct sb_group *group)
{
    bool taken = true;

    for (size_t i = 0; i < group->count && taken; i++)
        taken = !group->parts[i].wanted || group->ops->take(group->user, i);
    if (!taken)
        withdraw_all(group);
    return taken;
}

enum sb_group_verdict sb_group_step(struct sb_group *group, int64_t now_ms, int64_t until_ms,
                                    int64_t *ret_until_ms)
{
    enum sb_group_verdict verdict;
    int64_t ask_ms;

    look(group);
    verdict = plan(group, now_ms);
    if (verdict == SB_GROUP_HELD && take_wanted(group))
        return SB_GROUP_HELD;
    if (verdict == SB_GROUP_REFUSED)
        return SB_GROUP_REFUSED;
    if (now_ms >= until_ms)
        return SB_GROUP_LATE;
    if (verdict == SB_GROUP_WAITS)
        follow_plan(group);
    ask_ms = ask_at_ms(group);
    *ret_until_ms = verdict == SB_GROUP_HELD
                        ? now_ms
                        : sb_earlier(until_ms, sb_earlier(ask_ms, group->again_ms));
    return ask_ms <= now_ms ? SB_GROUP_ASKS : SB_GROUP_WAITS;
}

void sb_group_tell(struct sb_group *group, int64_t asked_ms, size_t slots)
{
    group->asked_ms = asked_ms;
    if (slots == 0)
        return;
    group->slots = slots;
    group->told_ms = asked_ms;
}
