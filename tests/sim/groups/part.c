/*
 * part.c - one mutex of a group, as mutex_locker.c and the contender below it behave: it competes
 * until it is withdrawn, renews what it owns, and competes again for what it has lost.
 */
#include "groups.h"

#define MARGIN_MS 10

static void send(struct grp_world *w, int group, size_t part, enum grp_event_type type)
{
    struct grp_part *p = &w->groups[group].parts[part];
    int64_t at_ms = w->now_ms + grp_delay(w);

    if (at_ms < p->last_arrival_ms)
        at_ms = p->last_arrival_ms;
    p->last_arrival_ms = at_ms;
    if (!grp_is_lost(w, group))
        grp_push(w, (struct grp_event){.at_ms = at_ms,
                                       .type = type,
                                       .group = group,
                                       .part = (int)part,
                                       .life = w->groups[group].life,
                                       .serial = p->serial,
                                       .sent_ms = w->now_ms});
}

static void plan(struct grp_world *w, int group, size_t part, enum grp_event_type type,
                 int64_t at_ms)
{
    grp_push(w, (struct grp_event){.at_ms = at_ms,
                                   .type = type,
                                   .group = group,
                                   .part = (int)part,
                                   .life = w->groups[group].life,
                                   .serial = w->groups[group].parts[part].serial,
                                   .sent_ms = w->now_ms});
}

/* The one timer of a part, for its next attempt or renewal. */
static void set_timer(struct grp_world *w, int group, size_t part, enum grp_event_type type,
                      int64_t at_ms)
{
    struct grp_part *p = &w->groups[group].parts[part];

    grp_push(w, (struct grp_event){.at_ms = at_ms,
                                   .type = type,
                                   .group = group,
                                   .part = (int)part,
                                   .life = w->groups[group].life,
                                   .serial = p->serial,
                                   .value = ++p->timer});
}

static int64_t timeout_ms(const struct grp_world *w)
{
    return w->lease_ms / 4;
}

bool grp_part_is_held(const struct grp_world *w, const struct grp_part *part)
{
    return part->status == GRP_OWNING && part->until_ms > w->now_ms;
}

static void begin(void *user, size_t part)
{
    struct grp_group *g = user;
    struct grp_part *p = &g->parts[part];

    p->status = GRP_COMPETING;
    p->begun = true;
    p->answered = false;
    p->voided = false;
    p->serial++;
    set_timer(g->world, g->number, part, GRP_TRY, g->world->now_ms);
}

static void stop(struct grp_world *w, int group, size_t part)
{
    struct grp_part *p = &w->groups[group].parts[part];

    p->status = GRP_STOPPING;
    p->serial++;
    send(w, group, part, GRP_AT_LEAVE);
    plan(w, group, part, GRP_LEFT, w->now_ms + 2 * w->lease_ms);
}

/* A stop that the store does not answer ends by itself: what is left there runs out. */
static void withdraw(void *user, size_t part)
{
    struct grp_group *g = user;
    struct grp_part *p = &g->parts[part];

    p->begun = p->taken = false;
    if (p->status != GRP_STOPPING && p->status != GRP_INITIAL)
        stop(g->world, g->number, part);
}

static void lose(struct grp_world *w, int group, size_t part)
{
    struct grp_group *g = &w->groups[group];
    struct grp_part *p = &g->parts[part];

    grp_trace(w, "g%d lost m%d", group, p->mutex);
    p->voided = false;
    p->serial++;
    if (g->phase == GRP_HOLDING) { /* no work is under way: it must not be won back */
        stop(w, group, part);
    } else {
        w->counts[GRP_LOST_WAITING]++;
        p->status = GRP_COMPETING;
        set_timer(w, group, part, GRP_TRY, w->now_ms + grp_roll(w, 0, 10));
    }
}

/* A thread that stands still within a step finds that a lease has run out meanwhile. */
static void stand_still(struct grp_group *g, size_t part)
{
    struct grp_world *w = g->world;

    if (w->now_ms >= w->settled_ms || g->parts[part].status != GRP_OWNING || !grp_chance(w, 5))
        return;
    w->counts[GRP_LOST_STEPPING]++;
    lose(w, g->number, part);
    grp_member_changed(w, g->number);
}

static enum sb_part_sight look(void *user, size_t part)
{
    struct grp_group *g = user;
    const struct grp_part *p = &g->parts[part];

    if (p->taken && g->phase == GRP_ACQUIRING)
        grp_violate(g->world, "4: g%d keeps m%d, which it took of what it does not hold", g->number,
                    p->mutex);
    stand_still(g, (size_t)grp_roll(g->world, 0, (int64_t)g->plan.count));
    if (!p->begun)
        return p->status == GRP_INITIAL ? SB_PART_IDLE : SB_PART_LEAVING;
    if (grp_part_is_held(g->world, p))
        return SB_PART_HELD;
    return p->answered ? SB_PART_REFUSED : SB_PART_ASKED;
}

/* Of what was taken before, the application is told when it is lost. */
static bool take(void *user, size_t part)
{
    struct grp_group *g = user;

    stand_still(g, part);
    g->parts[part].taken = grp_part_is_held(g->world, &g->parts[part]);
    return g->parts[part].taken;
}

const struct sb_part_ops grp_part_ops = {
    .look = look, .begin = begin, .withdraw = withdraw, .take = take};

/* Its lease has run out, as far as it knows. */
static void lapse(struct grp_world *w, const struct grp_event *event)
{
    struct grp_part *p = &w->groups[event->group].parts[event->part];

    if (p->status == GRP_OWNING && p->until_ms <= w->now_ms)
        lose(w, event->group, (size_t)event->part);
}

static void own_until(struct grp_world *w, const struct grp_event *event)
{
    struct grp_part *p = &w->groups[event->group].parts[event->part];

    p->until_ms = event->sent_ms + w->lease_ms - MARGIN_MS;
    plan(w, event->group, (size_t)event->part, GRP_LAPSE, p->until_ms);
    set_timer(w, event->group, (size_t)event->part, GRP_RENEW, event->sent_ms + w->lease_ms / 2);
}

static void take_answer(struct grp_world *w, const struct grp_event *event)
{
    struct grp_part *p = &w->groups[event->group].parts[event->part];
    int64_t jitter_ms = grp_roll(w, 0, w->lease_ms / 8 + 1);
    int64_t again_ms = event->value >= 0 ? w->now_ms + event->value + jitter_ms : w->now_ms;

    if (p->woken_ms >= event->sent_ms) /* a wake-up during a request is not forgotten */
        again_ms = w->now_ms;

    if (p->status != GRP_COMPETING)
        return;
    if (event->value < 0 && event->sent_ms + w->lease_ms - MARGIN_MS > w->now_ms) {
        p->status = GRP_OWNING;
        p->answered = true;
        own_until(w, event);
        return;
    }
    p->answered = true;
    set_timer(w, event->group, (size_t)event->part, GRP_TRY, again_ms);
}

static void take_renewal(struct grp_world *w, const struct grp_event *event)
{
    struct grp_part *p = &w->groups[event->group].parts[event->part];

    if (p->status == GRP_OWNING && event->value == 0)
        lose(w, event->group, (size_t)event->part);
    else if (p->status == GRP_OWNING && event->sent_ms + w->lease_ms - MARGIN_MS > p->until_ms)
        own_until(w, event);
}

/* At the store. The answer may get lost; the request is then tried again. */
static void carry_out(struct grp_world *w, const struct grp_event *event)
{
    int mutex = w->groups[event->group].parts[event->part].mutex;
    struct grp_event answer = *event;

    answer.at_ms = w->now_ms + grp_delay(w);
    if (event->type == GRP_AT_LEAVE) {
        grp_store_leave(w, mutex, event->group);
        answer.type = GRP_LEFT;
    } else if (event->type == GRP_AT_TRY) {
        answer.value = grp_store_try(w, mutex, event->group);
        answer.type = GRP_ANSWER;
    } else {
        answer.value = grp_store_renew(w, mutex, event->group);
        answer.type = GRP_RENEWED;
    }
    if (!grp_is_lost(w, event->group))
        grp_push(w, answer);
}

static void woken(struct grp_world *w, int group, size_t part, int64_t at_ms)
{
    w->groups[group].parts[part].woken_ms = at_ms;
    set_timer(w, group, part, GRP_TRY, at_ms);
}

void grp_part_wake(struct grp_world *w, int group, int mutex, int64_t at_ms)
{
    struct grp_group *g = &w->groups[group];

    for (size_t i = 0; i < g->plan.count; i++)
        if (g->parts[i].mutex == mutex && g->parts[i].status == GRP_COMPETING)
            woken(w, group, i, at_ms);
}

/* Requests reach the store also when their part has gone on meanwhile. */
void grp_part_event(struct grp_world *w, const struct grp_event *event)
{
    struct grp_part *p = &w->groups[event->group].parts[event->part];
    size_t part = (size_t)event->part;

    if (event->type == GRP_AT_TRY || event->type == GRP_AT_RENEW || event->type == GRP_AT_LEAVE) {
        carry_out(w, event);
        return;
    }
    if (event->serial != p->serial ||
        ((event->type == GRP_TRY || event->type == GRP_RENEW) && event->value != p->timer))
        return;
    if (event->type == GRP_TRY && p->status == GRP_COMPETING) {
        send(w, event->group, part, GRP_AT_TRY);
        set_timer(w, event->group, part, GRP_TRY,
                  w->now_ms + 2 * timeout_ms(w) + grp_roll(w, 0, w->lease_ms));
    } else if (event->type == GRP_RENEW && p->status == GRP_OWNING) {
        send(w, event->group, part, GRP_AT_RENEW);
        set_timer(w, event->group, part, GRP_RENEW, w->now_ms + w->lease_ms / 8);
    } else if (event->type == GRP_ANSWER) {
        take_answer(w, event);
    } else if (event->type == GRP_RENEWED) {
        take_renewal(w, event);
    } else if (event->type == GRP_LAPSE) {
        lapse(w, event);
    } else if (event->type == GRP_LEFT && p->status == GRP_STOPPING) {
        p->status = GRP_INITIAL;
    }
    grp_member_changed(w, event->group);
}
