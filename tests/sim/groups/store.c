/*
 * store.c - the mutexes as the store has them. Owns the records, the queues and the reservations.
 */
#include "groups.h"

#include <string.h>

static bool is_owned(const struct grp_world *w, const struct grp_mutex *m)
{
    return m->owner != GRP_NOBODY && m->until_ms > w->now_ms;
}

static bool is_mine(const struct grp_world *w, const struct grp_mutex *m, int group)
{
    return is_owned(w, m) && m->owner == group && m->life == w->groups[group].life;
}

bool grp_store_is_free(const struct grp_world *w, int mutex)
{
    return !is_owned(w, &w->store[mutex]);
}

static size_t place_of(const struct grp_world *w, const struct grp_mutex *m, int group)
{
    size_t i = 0;

    while (i < m->waiting && (m->queue[i] != group || m->queue_lives[i] != w->groups[group].life))
        i++;
    return i;
}

static void take_out(struct grp_mutex *m, size_t place)
{
    if (place >= m->waiting)
        return;
    m->waiting--;
    memmove(m->queue + place, m->queue + place + 1, (m->waiting - place) * sizeof *m->queue);
    memmove(m->queue_lives + place, m->queue_lives + place + 1,
            (m->waiting - place) * sizeof *m->queue_lives);
    m->reserved &= place > 0;
}

static void put_in(struct grp_world *w, struct grp_mutex *m, int group)
{
    if (place_of(w, m, group) < m->waiting)
        return;
    if (m->waiting == 2 * GRP_GROUPS_MAX)
        take_out(m, 0);
    m->queue[m->waiting] = group;
    m->queue_lives[m->waiting++] = w->groups[group].life;
}

static void wake(struct grp_world *w, int mutex, size_t place, int64_t at_ms)
{
    const struct grp_mutex *m = &w->store[mutex];
    int group = m->queue[place];

    if (m->queue_lives[place] == w->groups[group].life && !grp_is_lost(w, group))
        grp_part_wake(w, group, mutex, at_ms + grp_delay(w));
}

/* Where the store keeps no order all are told, and the fastest wins. */
static void hand_on(struct grp_world *w, int mutex)
{
    struct grp_mutex *m = &w->store[mutex];

    m->reserved = w->queues && m->waiting > 0;
    m->reserved_until_ms = w->now_ms + w->reserve_ms;
    w->counts[GRP_RESERVATIONS] += m->reserved;
    for (size_t i = 0; i < m->waiting && (i < 2 || !w->queues); i++)
        wake(w, mutex, i, i > 0 && w->queues ? m->reserved_until_ms : w->now_ms);
}

static void become_free(struct grp_world *w, int mutex)
{
    w->store[mutex].owner = GRP_NOBODY;
    w->store[mutex].free_ms = w->now_ms;
    hand_on(w, mutex);
}

/* Its first waiter did not come: the next one is the first now. */
static void pass_over(struct grp_world *w, struct grp_mutex *m)
{
    if (!m->reserved || m->reserved_until_ms > w->now_ms)
        return;
    take_out(m, 0);
    m->reserved = false;
}

int64_t grp_store_try(struct grp_world *w, int mutex, int group)
{
    struct grp_mutex *m = &w->store[mutex];

    pass_over(w, m);
    if (is_owned(w, m) && !is_mine(w, m, group)) {
        put_in(w, m, group);
        return m->until_ms - w->now_ms;
    }
    if (m->reserved && place_of(w, m, group) != 0) {
        put_in(w, m, group);
        return m->reserved_until_ms - w->now_ms;
    }
    take_out(m, place_of(w, m, group));
    m->reserved = false;
    m->owner = group;
    m->life = w->groups[group].life;
    m->until_ms = w->now_ms + w->lease_ms;
    m->free_ms = INT64_MAX;
    return -1;
}

bool grp_store_renew(struct grp_world *w, int mutex, int group)
{
    struct grp_mutex *m = &w->store[mutex];
    bool mine = is_mine(w, m, group);

    if (mine)
        m->until_ms = w->now_ms + w->lease_ms;
    return mine;
}

/* A waiter that leaves a free mutex may be the one that was told to try: then the next one is. */
void grp_store_leave(struct grp_world *w, int mutex, int group)
{
    struct grp_mutex *m = &w->store[mutex];
    size_t place = place_of(w, m, group);

    take_out(m, place);
    if (is_mine(w, m, group))
        become_free(w, mutex);
    else if (place == 0 && !is_owned(w, m))
        hand_on(w, mutex);
}

void grp_store_force(struct grp_world *w, int mutex)
{
    struct grp_mutex *m = &w->store[mutex];
    struct grp_group *g;

    if (!is_owned(w, m))
        return;
    g = &w->groups[m->owner];
    for (size_t i = 0; i < g->plan.count && m->life == g->life; i++)
        g->parts[i].voided |= g->parts[i].mutex == mutex;
    w->counts[GRP_FORCED]++;
    become_free(w, mutex);
}

void grp_store_set_number(struct grp_world *w, int64_t number)
{
    if (w->number_count > 0)
        w->number_until_ms[w->number_count - 1] = w->now_ms;
    w->number = number;
    w->numbers[w->number_count] = number;
    w->number_until_ms[w->number_count++] = INT64_MAX;
}
