/*
 * check.c - the rules of semaphores and sets. Knows what groups believe and what the store has, not
 * why a plan wants something.
 */
#include "groups.h"

#include <stdarg.h>

/* For how long a group may be in a state that it is on its way out of. */
#define MOMENT_MS 60

void grp_violate(struct grp_world *w, const char *format, ...)
{
    va_list arguments;

    if (w->violation[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(w->violation, sizeof w->violation, format, arguments);
    va_end(arguments);
}

/* What was taken away by force is believed in until the owner hears of it, and is no breach. */
static bool is_believed(const struct grp_world *w, const struct grp_part *part)
{
    return grp_part_is_held(w, part) && !part->voided;
}

bool grp_believes(const struct grp_world *w, int group)
{
    const struct grp_group *g = &w->groups[group];
    size_t from = w->semaphore ? 1 + g->plan.slot : 0;
    size_t to = w->semaphore ? from + 1 : g->plan.count;
    bool all = g->phase == GRP_HOLDING;

    for (size_t i = from; i < to; i++)
        all &= g->parts[i].begun && grp_part_is_held(w, &g->parts[i]);
    return all;
}

static int64_t most_slots(const struct grp_world *w, int64_t since_ms)
{
    int64_t most = 0;

    for (size_t i = 0; i < w->number_count; i++)
        if (w->number_until_ms[i] >= since_ms && w->numbers[i] > most)
            most = w->numbers[i];
    return most;
}

/* ---- When something is decided --------------------------------------------------------------- */

static void check_slot(struct grp_world *w, int group)
{
    const struct grp_group *g = &w->groups[group];

    if (!grp_part_is_held(w, &g->parts[1 + g->plan.slot]))
        grp_violate(w, "1: g%d took slot %zu, which it does not own", group, g->plan.slot);
    if ((int64_t)g->plan.slot >= most_slots(w, w->now_ms - SB_GROUP_KNOWN_MS))
        grp_violate(w, "2: g%d took slot %zu; there has been none for a second", group,
                    g->plan.slot);
    if (!g->plan.once && !grp_part_is_held(w, &g->parts[0]))
        grp_violate(w, "3: g%d took a slot and was not the first in line", group);
    w->counts[GRP_BESIDE] += g->plan.once && !grp_part_is_held(w, &g->parts[0]);
}

void grp_check_held(struct grp_world *w, int group)
{
    const struct grp_group *g = &w->groups[group];

    grp_trace(w, "g%d holds, slot %zu", group, g->plan.slot);
    w->counts[GRP_HELDS]++;
    if (w->semaphore) {
        check_slot(w, group);
        return;
    }
    for (size_t i = 0; i < g->plan.count; i++)
        if (!grp_part_is_held(w, &g->parts[i]))
            grp_violate(w, "4: g%d holds its set without m%d", group, g->parts[i].mutex);
}

/* A try is refused for what was in use at some instant of it. */
void grp_check_refused(struct grp_world *w, int group)
{
    const struct grp_group *g = &w->groups[group];

    grp_trace(w, "g%d is refused", group);
    if (!g->plan.once)
        grp_violate(w, "7: g%d was refused, and did not only try", group);
    if (!w->semaphore || g->plan.told_ms == SIMBA_UNSET || g->since_ms < w->settled_ms)
        return;
    for (int64_t slot = 0; slot < w->number && slot < (int64_t)g->plan.slots; slot++)
        if (w->store[1 + slot].free_ms < g->since_ms && w->store[1 + slot].waiting == 0)
            grp_violate(w, "7: g%d was refused with slot %d free", group, (int)slot);
}

/* ---- At any instant -------------------------------------------------------------------------- */

static void check_number(struct grp_world *w)
{
    int64_t believers = 0;

    for (int i = 0; i < w->group_count; i++)
        if (grp_believes(w, i) && is_believed(w, &w->groups[i].parts[1 + w->groups[i].plan.slot]))
            believers++;
    if (believers > most_slots(w, 0))
        grp_violate(w, "1: %d hold a slot of %d", (int)believers, (int)w->number);
}

static bool competes(const struct grp_part *part)
{
    return part->begun && part->status == GRP_COMPETING;
}

/* A part that it waits for, and one behind that it keeps; with no_hold, any other one. */
static bool is_set_in_disorder(const struct grp_group *g)
{
    bool may_deadlock = false;
    bool waits = false;

    for (size_t i = 0; i < g->plan.count; i++) {
        may_deadlock |= waits && g->parts[i].begun;
        waits |= competes(&g->parts[i]) && g->parts[i].answered;
    }
    for (size_t i = 0; i < g->plan.count && g->plan.no_hold && !g->plan.once; i++)
        may_deadlock |= waits && g->parts[i].begun && g->parts[i].status == GRP_OWNING;
    return may_deadlock;
}

/* Slots without the gate, or more than a slot when one is taken. */
static bool is_slot_in_disorder(const struct grp_group *g)
{
    bool any = false;
    size_t kept = 0;

    for (size_t i = 0; i < g->plan.count; i++) {
        any |= i > 0 && g->parts[i].begun;
        kept += g->parts[i].begun;
    }
    if (g->phase == GRP_HOLDING)
        return kept > 1;
    return any && !g->plan.once && g->parts[0].status != GRP_OWNING;
}

static bool keeps_any(const struct grp_group *g)
{
    bool any = false;

    for (size_t i = 0; i < g->plan.count; i++)
        any |= g->parts[i].begun;
    return any;
}

static void check_order(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    bool disorder =
        w->semaphore ? is_slot_in_disorder(g) : g->phase == GRP_ACQUIRING && is_set_in_disorder(g);

    if (g->phase != GRP_ACQUIRING && g->phase != GRP_HOLDING && keeps_any(g))
        grp_violate(w, "4: g%d keeps a part of what it does not hold", group);
    if (!disorder || g->paused_until_ms > w->now_ms || g->asks)
        g->disorder_ms = 0;
    else if (g->disorder_ms == 0)
        g->disorder_ms = w->now_ms;
    else if (w->now_ms - g->disorder_ms > MOMENT_MS)
        grp_violate(w, "%s by g%d",
                    w->semaphore ? "3: slots are kept beside the gate"
                                 : "5: a set waits with parts in hand that it may not keep",
                    group);
}

/* On a good day a slot is free for the first in line within a hand-over, also when it is new. */
static void check_served(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    int64_t limit_ms = 2 * SB_GROUP_KNOWN_MS + 8 * w->delay_ms + w->reserve_ms;
    bool unserved = false;

    for (int64_t slot = 0; slot < w->number; slot++)
        unserved |= w->semaphore && g->phase == GRP_ACQUIRING && g->parts[0].status == GRP_OWNING &&
                    grp_store_is_free(w, (int)slot + 1);
    if (!unserved || w->now_ms < w->settled_ms)
        g->unserved_ms = 0;
    else if (g->unserved_ms == 0)
        g->unserved_ms = w->now_ms;
    else if (w->now_ms - g->unserved_ms > limit_ms)
        grp_violate(w, "6: g%d is the first in line, and a free slot does not reach it", group);
}

static void check_try(struct grp_world *w, int group)
{
    const struct grp_group *g = &w->groups[group];
    int64_t limit_ms = 2 * SB_GROUP_KNOWN_MS + 40 * w->delay_ms;

    if (g->phase == GRP_ACQUIRING && g->plan.once && g->since_ms >= w->settled_ms &&
        w->now_ms - g->since_ms > limit_ms)
        grp_violate(w, "7: g%d waits, and was only to try", group);
}

void grp_check(struct grp_world *w)
{
    if (w->semaphore)
        check_number(w);
    for (int i = 0; i < w->group_count; i++) {
        check_order(w, i);
        check_served(w, i);
        check_try(w, i);
    }
}

/* All have done what they had to, in time, and a lease later nothing is left. */
void grp_check_end(struct grp_world *w)
{
    for (int i = 0; i < w->group_count; i++)
        if (w->groups[i].phase != GRP_GONE)
            grp_violate(w, "8: g%d has not finished: %s since %lld ms", i,
                        w->groups[i].phase == GRP_ACQUIRING ? "it waits" : "it rests or holds",
                        (long long)(w->now_ms - w->groups[i].since_ms));
    for (int i = 0; i < w->mutexes; i++)
        if (!grp_store_is_free(w, i))
            grp_violate(w, "4: m%d is owned when all have finished", i);
}
