/*
 * world.c - draws a world of groups from a seed, and runs it event by event.
 */
#include "groups.h"

#include "base/random.h"
#include "base/time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define ACQUIRES_AFTER 6 /* of each group, when the faults have healed */
#define FINISH_MS 120000 /* that they may take */

int64_t grp_roll(struct grp_world *w, int64_t low, int64_t high)
{
    return sb_random_between(sb_random_next(&w->dice), low, high);
}

bool grp_chance(struct grp_world *w, int permille)
{
    return grp_roll(w, 0, 1000) < permille;
}

void grp_trace(const struct grp_world *w, const char *format, ...)
{
    va_list arguments;

    if (w->trace == NULL)
        return;
    va_start(arguments, format);
    fprintf(w->trace, "%8" PRId64 " ", w->now_ms);
    vfprintf(w->trace, format, arguments);
    fputc('\n', w->trace);
    va_end(arguments);
}

int64_t grp_delay(struct grp_world *w)
{
    return grp_roll(w, 0, w->delay_ms + 1);
}

bool grp_is_lost(struct grp_world *w, int group)
{
    return w->groups[group].cut_until_ms > w->now_ms ||
           (!w->healed && grp_chance(w, w->lost_permille));
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool comes_before(const struct grp_event *a, const struct grp_event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void grp_push(struct grp_world *w, struct grp_event event)
{
    size_t i = w->event_count;

    if (i == GRP_EVENTS_MAX) {
        grp_violate(w, "0: the simulator has too many events");
        return;
    }
    event.at_ms = sb_max(event.at_ms, w->now_ms); /* after a pause it may be overdue */
    event.order = ++w->order;
    for (; i > 0 && comes_before(&w->events[i - 1], &event); i--)
        w->events[i] = w->events[i - 1];
    w->events[i] = event;
    w->event_count++;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void crash(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];

    w->counts[GRP_CRASHES]++;
    g->life++;
    g->phase = GRP_RESTING;
    g->asks = false;
    g->run_ms = INT64_MIN;
    g->plan.told_ms = SIMBA_UNSET; /* as another process that the user starts */
    if (w->semaphore && w->number > 0)
        g->plan.slots = (size_t)w->number;
    g->until_ms = w->now_ms + grp_roll(w, 1, 2 * w->lease_ms);
    for (size_t i = 0; i < g->plan.count; i++)
        g->parts[i] = (struct grp_part){.mutex = g->parts[i].mutex, .serial = g->parts[i].serial};
    grp_member_run_at(w, group, g->until_ms);
}

static void resize(struct grp_world *w)
{
    if (!w->semaphore || w->number == 0 || w->number_count == GRP_NUMBERS)
        return;
    w->counts[GRP_RESIZES]++;
    grp_store_set_number(w, grp_roll(w, 1, w->mutexes));
    grp_trace(w, "%d slots", (int)w->number);
}

static void strike(struct grp_world *w)
{
    int group = (int)grp_roll(w, 0, w->group_count);
    struct grp_group *g = &w->groups[group];
    int64_t kind = grp_roll(w, 0, 6);

    grp_trace(w, "fault %d at g%d", (int)kind, group);
    if (kind == 0) {
        crash(w, group);
    } else if (kind == 1) {
        w->counts[GRP_PAUSES]++;
        g->paused_until_ms = w->now_ms + grp_roll(w, 1, 2 * w->lease_ms);
    } else if (kind == 2) {
        w->counts[GRP_CUTS]++;
        g->cut_until_ms = w->now_ms + grp_roll(w, 1, 2 * w->lease_ms);
    } else if (kind == 3) {
        grp_store_force(w, (int)grp_roll(w, 0, w->mutexes));
    } else {
        resize(w);
    }
    grp_push(w, (struct grp_event){.at_ms = w->now_ms + grp_roll(w, 1, 2 * w->lease_ms),
                                   .type = GRP_FAULT});
}

static void heal(struct grp_world *w)
{
    w->healed = true;
    w->settled_ms = w->now_ms + GRP_SETTLE_MS;
    for (int i = 0; i < w->group_count; i++) {
        w->groups[i].cut_until_ms = 0;
        w->groups[i].paused_until_ms = 0;
        w->groups[i].left = ACQUIRES_AFTER + (int)grp_roll(w, 0, ACQUIRES_AFTER);
    }
    for (int i = 0; i < 2; i++)
        grp_push(w, (struct grp_event){.at_ms = w->settled_ms + grp_roll(w, 0, 2000),
                                       .type = GRP_RESIZE});
    grp_push(w, (struct grp_event){.at_ms = w->now_ms + FINISH_MS, .type = GRP_LATE});
}

/* ---- The run --------------------------------------------------------------------------------- */

static bool is_at_store(enum grp_event_type type)
{
    return type >= GRP_AT_TRY;
}

/* False: it is not for now, or for nobody. */
static bool is_for_now(struct grp_world *w, struct grp_event *event)
{
    const struct grp_group *g = &w->groups[event->group];

    if (event->type >= GRP_FAULT)
        return true;
    if (event->life != g->life)
        return false;
    if (is_at_store(event->type) || g->paused_until_ms <= w->now_ms)
        return true;
    event->at_ms = g->paused_until_ms;
    grp_push(w, *event);
    return false;
}

static void handle(struct grp_world *w, const struct grp_event *event)
{
    if (event->type == GRP_FAULT && !w->healed)
        strike(w);
    else if (event->type == GRP_HEAL)
        heal(w);
    else if (event->type == GRP_RESIZE)
        resize(w);
    else if (event->type == GRP_LATE)
        w->over = true;
    else if (event->type == GRP_RUN || event->type == GRP_TOLD || event->type == GRP_AT_ASK)
        grp_member_event(w, event);
    else if (event->type < GRP_FAULT)
        grp_part_event(w, event);
}

static void draw_group(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    int64_t slots = w->mutexes - 1 > 3 ? 3 : w->mutexes - 1;

    g->world = w;
    g->number = group;
    g->plan.ops = &grp_part_ops;
    g->plan.user = g;
    g->plan.parts = g->sights;
    g->plan.kind = w->semaphore ? SB_GROUP_SEMAPHORE : SB_GROUP_SET;
    g->plan.dice = (uint64_t)grp_roll(w, 1, INT64_MAX);
    g->plan.told_ms = SIMBA_UNSET;
    g->plan.slots = w->semaphore ? (size_t)slots : 0;
    g->plan.first = w->semaphore ? (size_t)grp_roll(w, 0, slots) : 0;
    g->plan.no_hold = !w->semaphore && grp_chance(w, 300);
    for (int m = 0; m < w->mutexes; m++)
        if (w->semaphore || grp_chance(w, 500) || (g->plan.count == 0 && m == w->mutexes - 1))
            g->parts[g->plan.count++].mutex = m;
    g->run_ms = INT64_MIN;
    g->phase = GRP_RESTING;
    g->until_ms = grp_roll(w, 1, 200);
    grp_member_run_at(w, group, g->until_ms);
}

static void draw(struct grp_world *w)
{
    w->semaphore = grp_chance(w, 500);
    w->queues = grp_chance(w, 750);
    w->lease_ms = grp_roll(w, 200, 3000);
    w->delay_ms = grp_roll(w, 1, w->lease_ms / 12 < 40 ? w->lease_ms / 12 : 40);
    w->reserve_ms = grp_roll(w, 2, 6) * w->delay_ms + 5;
    w->lost_permille = grp_chance(w, 500) ? (int)grp_roll(w, 0, 100) : 0;
    w->mutexes = (int)grp_roll(w, 2, w->semaphore ? GRP_PARTS_MAX : 7);
    w->group_count = (int)grp_roll(w, 2, GRP_GROUPS_MAX + 1);
    for (int m = 0; m < w->mutexes; m++)
        w->store[m].owner = GRP_NOBODY;
    for (int i = 0; i < w->group_count; i++)
        draw_group(w, i);
    if (grp_chance(w, 800))
        grp_push(w, (struct grp_event){.at_ms = grp_roll(w, 1, 500), .type = GRP_FAULT});
    grp_push(w, (struct grp_event){.at_ms = grp_roll(w, 0, 20000), .type = GRP_HEAL});
    grp_trace(w, "%s, %d mutexes, %d groups, leases of %" PRId64 " ms, delays up to %" PRId64,
              w->semaphore ? "a semaphore" : "sets", w->mutexes, w->group_count, w->lease_ms,
              w->delay_ms);
}

static bool all_gone(const struct grp_world *w)
{
    bool all = true;

    for (int i = 0; i < w->group_count; i++)
        all &= w->groups[i].phase == GRP_GONE;
    return all;
}

const char *grp_world_run(struct grp_world *w, uint64_t seed, FILE *trace)
{
    int64_t gone_ms = INT64_MAX;

    memset(w, 0, sizeof *w);
    w->dice = seed;
    w->trace = trace;
    w->counts[GRP_WORLDS] = 1;
    w->settled_ms = INT64_MAX;
    draw(w);
    while (w->event_count > 0 && w->violation[0] == '\0' && !w->over) {
        struct grp_event event = w->events[--w->event_count];
        w->now_ms = event.at_ms;
        if (!is_for_now(w, &event))
            continue;
        handle(w, &event);
        grp_check(w);
        if (gone_ms == INT64_MAX && all_gone(w))
            gone_ms = w->now_ms;
        w->over |= gone_ms != INT64_MAX && w->now_ms > sb_later(gone_ms, 3 * w->lease_ms);
    }
    grp_check_end(w);
    return w->violation[0] != '\0' ? w->violation : NULL;
}
