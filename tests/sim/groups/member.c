/*
 * member.c - a group, as group_locker.c drives it: takes its steps, waits in between, and asks the
 * store for the number of slots. The application acquires, holds, rests.
 */
#include "groups.h"

#include "base/time.h"

#define ASK_TIMEOUT_MS 1000

void grp_member_run_at(struct grp_world *w, int group, int64_t at_ms)
{
    struct grp_group *g = &w->groups[group];

    if (g->run_ms <= at_ms && g->run_ms >= w->now_ms)
        return;
    g->run_ms = at_ms;
    grp_push(w, (struct grp_event){.at_ms = at_ms,
                                   .type = GRP_RUN,
                                   .group = group,
                                   .life = g->life,
                                   .serial = ++g->timer});
}

void grp_member_changed(struct grp_world *w, int group)
{
    grp_member_run_at(w, group, w->now_ms + grp_roll(w, 0, 3));
}

static void enter(struct grp_world *w, int group, enum grp_phase phase, int64_t for_ms)
{
    struct grp_group *g = &w->groups[group];

    g->phase = phase;
    g->since_ms = w->now_ms;
    g->until_ms = sb_later(w->now_ms, for_ms);
    if (g->until_ms != SIMBA_INFINITE)
        grp_member_run_at(w, group, g->until_ms);
}

static void rest(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];

    sb_group_give_up(&g->plan);
    if (w->now_ms >= w->settled_ms && --g->left <= 0)
        g->phase = GRP_GONE;
    else
        enter(w, group, GRP_RESTING, grp_roll(w, 1, w->now_ms >= w->settled_ms ? 50 : 400));
}

static void begin(struct grp_world *w, int group)
{
    bool once = grp_chance(w, 250);
    bool bounded = !once && grp_chance(w, w->healed ? 0 : 300);

    sb_group_begin(&w->groups[group].plan, once);
    enter(w, group, GRP_ACQUIRING, bounded ? grp_roll(w, 0, 2 * w->lease_ms) : SIMBA_INFINITE);
    grp_member_changed(w, group);
}

static void ask(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    struct grp_event event = {.at_ms = w->now_ms + grp_delay(w),
                              .type = GRP_AT_ASK,
                              .group = group,
                              .life = g->life,
                              .sent_ms = w->now_ms};

    g->asks = true;
    if (grp_is_lost(w, group)) {
        event.type = GRP_TOLD;
        event.value = -1;
        event.at_ms = w->now_ms + ASK_TIMEOUT_MS;
    }
    grp_push(w, event);
}

/* At the store: the owner of the gate writes the number that nobody has written. */
static void answer_ask(struct grp_world *w, const struct grp_event *event)
{
    struct grp_group *g = &w->groups[event->group];
    struct grp_event answer = *event;

    if (w->number == 0 && event->life == g->life && g->sights[0].sight == SB_PART_HELD &&
        grp_store_renew(w, 0, event->group))
        grp_store_set_number(w, (int64_t)g->plan.slots);
    answer.type = GRP_TOLD;
    answer.value = grp_chance(w, w->now_ms < w->settled_ms ? 20 : 0) ? -2 : w->number;
    answer.at_ms = w->now_ms + grp_delay(w);
    if (grp_is_lost(w, event->group)) {
        answer.value = -1;
        answer.at_ms = event->sent_ms + ASK_TIMEOUT_MS;
    }
    grp_push(w, answer);
}

static void take_told(struct grp_world *w, const struct grp_event *event)
{
    struct grp_group *g = &w->groups[event->group];

    g->asks = false;
    if (event->value == -2 && g->phase == GRP_ACQUIRING) {
        w->counts[GRP_DENIALS]++;
        rest(w, event->group);
        return;
    }
    sb_group_tell(&g->plan, event->sent_ms, event->value > 0 ? (size_t)event->value : 0);
    grp_member_changed(w, event->group);
}

/* On a good day most are short, so that much happens, and some so long that others have to wait. */
static int64_t hold_ms(struct grp_world *w)
{
    if (w->now_ms < w->settled_ms)
        return grp_roll(w, 0, 2 * w->lease_ms);
    return grp_chance(w, 50) ? grp_roll(w, 4000, 6000) : grp_roll(w, 0, 40);
}

static void hold(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];

    grp_check_held(w, group);
    sb_group_keep_wanted(&g->plan);
    enter(w, group, GRP_HOLDING, hold_ms(w));
}

static void take_step(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    unsigned withdrawals = g->plan.withdrawals;
    int64_t until_ms;
    enum sb_group_verdict verdict = sb_group_step(&g->plan, w->now_ms, g->until_ms, &until_ms);

    w->counts[GRP_WITHDRAWALS] += g->plan.withdrawals - withdrawals;
    if (verdict == SB_GROUP_HELD) {
        hold(w, group);
    } else if (verdict == SB_GROUP_REFUSED) {
        w->counts[GRP_REFUSALS]++;
        grp_check_refused(w, group);
        rest(w, group);
    } else if (verdict == SB_GROUP_LATE) {
        w->counts[GRP_TIMEOUTS]++;
        rest(w, group);
    } else if (w->now_ms >= g->until_ms) {
        grp_violate(w, "7: g%d waits on when its time is over", group);
    } else if (verdict == SB_GROUP_ASKS) {
        ask(w, group);
    } else if (until_ms != SIMBA_INFINITE) {
        grp_member_run_at(w, group, sb_max(until_ms, w->now_ms + 1));
    }
}

/* A set that lost a part stays until its application has noticed. */
static void look_after(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];
    bool held = grp_believes(w, group);

    if (!held && g->until_ms > w->now_ms + 20) {
        w->counts[GRP_LOSSES]++;
        g->until_ms = w->now_ms + grp_roll(w, 0, 20);
    }
    if (w->now_ms >= g->until_ms)
        rest(w, group);
    else
        grp_member_run_at(w, group, g->until_ms);
}

static void run(struct grp_world *w, int group)
{
    struct grp_group *g = &w->groups[group];

    g->run_ms = INT64_MIN;
    if (g->asks || g->phase == GRP_GONE)
        return;
    if (g->phase == GRP_HOLDING)
        look_after(w, group);
    else if (g->phase == GRP_ACQUIRING)
        take_step(w, group);
    else if (w->now_ms >= g->until_ms)
        begin(w, group);
    else
        grp_member_run_at(w, group, g->until_ms);
}

void grp_member_event(struct grp_world *w, const struct grp_event *event)
{
    if (event->type == GRP_AT_ASK)
        answer_ask(w, event);
    else if (event->type == GRP_TOLD)
        take_told(w, event);
    else if (event->serial == w->groups[event->group].timer)
        run(w, event->group);
}
