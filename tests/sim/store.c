/*
 * store.c - the store as one linearizable lease register, in its own time: the operations precisely as
 * backend.h lists them, for a SQL row and for a Redis key. Stores of sessions are in session.c.
 */
#include "sim.h"

#include <string.h>

#define EPOCH_MS INT64_C(1700000000000)

int64_t sim_store_ms(const struct sim_world *w)
{
    return EPOCH_MS + w->now_us / SIM_MS;
}

/* A store that has lost its data has lost its counter too; its time is ahead of all it ever counted. */
uint64_t sim_store_new_revision(struct sim_world *w)
{
    uint64_t now = (uint64_t)sim_store_ms(w);

    w->store.counter++;
    if (w->store.kind == SIM_REDIS && w->store.counter < now)
        w->store.counter = now;
    return w->store.counter;
}

void sim_store_init(struct sim_world *w)
{
    w->store.owner.member = SIM_NOBODY;
}

/* ---- The register ---------------------------------------------------------------------------- */

/* The conditional UPDATE says transition_at < now; a key is gone when its time has come. */
static bool has_ended(const struct sim_world *w)
{
    int64_t now_ms = sim_store_ms(w);

    return w->store.kind == SIM_SQL ? w->store.transition_at_ms < now_ms
                                    : w->store.transition_at_ms <= now_ms;
}

int sim_store_owner(struct sim_world *w)
{
    if (w->store.kind == SIM_SESSION)
        return sim_session_owner(w);
    return w->store.owner.member != SIM_NOBODY && !has_ended(w) ? w->store.owner.member
                                                                : SIM_NOBODY;
}

struct sim_origin sim_origin_of(const struct sim_request *r)
{
    struct sim_origin origin = {
        .member = r->member, .start = r->start, .serial = r->serial, .given_up = r->answered};

    return origin;
}

static void begin_lease(struct sim_world *w, const struct sim_request *r)
{
    const struct sb_timing *t = &w->members[r->member].timing;

    w->store.ttl_at_ms = sim_store_ms(w) + t->ttl_ms;
    w->store.transition_at_ms = w->store.ttl_at_ms + t->transition_ms;
}

static void join(struct sim_world *w, const struct sim_request *r)
{
    struct sim_waiter *waiter = &w->store.waiters[r->member];

    if (!waiter->waiting)
        waiter->joined = w->store.joined++;
    waiter->waiting = true;
    waiter->origin = sim_origin_of(r);
}

static void acquire(struct sim_world *w, const struct sim_request *r)
{
    int owner = sim_store_owner(w);

    if (owner != SIM_NOBODY && owner != r->member) {
        join(w, r);
        return;
    }
    w->store.owner = sim_origin_of(r);
    w->store.revision = sim_store_new_revision(w);
    begin_lease(w, r);
    w->store.waiters[r->member].waiting = false;
    sim_check_grant(w, r->member, w->store.revision, sim_request_is_old(w, r));
}

static void guard(struct sim_world *w, const struct sim_request *r)
{
    if (sim_store_owner(w) != r->member)
        return;
    begin_lease(w, r);
    if (w->store.kind == SIM_SQL)
        w->store.revision = sim_store_new_revision(w);
    sim_check_renewal(w, r->member);
}

/* ---- Wake-ups -------------------------------------------------------------------------------- */

/* The oldest waiter, alive or not. */
static int take_waiter(struct sim_world *w)
{
    int oldest = SIM_NOBODY;

    for (int i = 0; i < w->member_count; i++) {
        const struct sim_waiter *waiter = &w->store.waiters[i];

        if (waiter->waiting &&
            (oldest == SIM_NOBODY || waiter->joined < w->store.waiters[oldest].joined))
            oldest = i;
    }
    if (oldest != SIM_NOBODY)
        w->store.waiters[oldest].waiting = false;
    return oldest;
}

/* SQL tells everybody, Redis the head of the queue: if that one is dead nobody is woken. */
static void wake(struct sim_world *w)
{
    if (w->store.kind == SIM_REDIS) {
        int oldest = take_waiter(w);

        if (oldest != SIM_NOBODY)
            sim_net_wake(w, oldest);
        return;
    }
    for (int i = 0; i < w->member_count; i++)
        sim_net_wake(w, i);
}

static void clear(struct sim_world *w)
{
    w->store.owner.member = SIM_NOBODY;
    w->store.ttl_at_ms = 0;
    w->store.transition_at_ms = 0;
    if (w->store.kind == SIM_SQL)
        w->store.revision = sim_store_new_revision(w);
    wake(w);
}

static void release(struct sim_world *w, const struct sim_request *r)
{
    w->store.waiters[r->member].waiting = false;
    if (w->store.owner.member != r->member || r->revision == 0 || r->revision != w->store.revision)
        return;
    sim_check_release(w, r->member);
    clear(w);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Only a store with a queue knows it, and tells it only to who wants it. */
static int64_t place_of(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_waiter *mine = &w->store.waiters[r->member];
    int64_t place = w->store.dead_waiters + 1;

    if (w->store.kind != SIM_REDIS || r->op != SIMBA_OP_ACQUIRE || !mine->waiting ||
        w->members[r->member].timing.turn_ms == 0)
        return 0;
    for (int i = 0; i < w->member_count; i++)
        place += w->store.waiters[i].waiting && w->store.waiters[i].joined < mine->joined;
    w->counts[SIM_PLACES]++;
    return place;
}

static void answer(struct sim_world *w, struct sim_request *r)
{
    int64_t now_ms = sim_store_ms(w);

    r->owner = w->store.owner.member;
    if ((w->store.kind == SIM_REDIS && has_ended(w)) ||
        (w->store.curt && r->op == SIMBA_OP_RELEASE && r->revision == 0))
        r->owner = SIM_NOBODY;
    if (r->owner == SIM_NOBODY)
        return;
    r->ttl_left_ms = w->store.ttl_at_ms - now_ms;
    r->transition_left_ms = w->store.transition_at_ms - now_ms;
    r->reply_revision = w->store.revision;
    r->place = place_of(w, r);
    r->reply_fence = w->store.kind == SIM_REDIS ? w->store.revision : 0; /* a row has no token */
}

void sim_store_apply(struct sim_world *w, struct sim_request *r)
{
    if (w->store.kind == SIM_SESSION) {
        sim_session_apply(w, r);
        return;
    }
    if (r->op == SIMBA_OP_ACQUIRE)
        acquire(w, r);
    else if (r->op == SIMBA_OP_GUARD)
        guard(w, r);
    else if (r->op == SIMBA_OP_RELEASE)
        release(w, r);
    answer(w, r);
}

/* ---- From outside ---------------------------------------------------------------------------- */

void sim_store_force_release(struct sim_world *w)
{
    int owner = sim_store_owner(w);

    if (owner == SIM_NOBODY)
        return;
    sim_trace(w, "store: %s is taken away by force", w->members[owner].id);
    sim_check_voided(w, owner);
    if (w->store.kind == SIM_SESSION)
        sim_session_force_release(w);
    else
        clear(w);
}

/* All that was known is gone: records, queue, sessions, and the counter as far as the store goes. */
void sim_store_lose_data(struct sim_world *w)
{
    sim_trace(w, "store: the data is lost");
    for (int i = 0; i < w->member_count; i++)
        sim_check_voided(w, i);
    if (w->store.kind == SIM_SESSION) {
        sim_session_lose_data(w);
        return;
    }
    w->store.counter = 0;
    w->store.owner.member = SIM_NOBODY;
    memset(w->store.waiters, 0, sizeof w->store.waiters);
    w->store.dead_waiters = 0;
}

/* ---- What is left ---------------------------------------------------------------------------- */

/* A later start that is told of an outcome has to clean up too. */
void sim_store_told(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];

    if (w->store.kind != SIM_SESSION && w->store.owner.serial == r->serial &&
        r->op == SIMBA_OP_ACQUIRE && w->check.seen[r->member].phase != SIM_DOWN)
        w->store.owner.told_start = m->starts;
}

/* What a request left behind that had been given up before it was carried out is nobody's fault: it
 * runs out by itself. */
bool sim_origin_is_left(const struct sim_origin *origin, int member, uint32_t start)
{
    return origin->member == member && !origin->given_up &&
           (origin->start == start || origin->told_start == start);
}

bool sim_store_has_left(struct sim_world *w, int member, uint32_t start)
{
    const struct sim_waiter *waiter = &w->store.waiters[member];

    if (w->store.kind == SIM_SESSION)
        return sim_session_has_left(w, member, start);
    return (sim_store_owner(w) == member && sim_origin_is_left(&w->store.owner, member, start)) ||
           (waiter->waiting && sim_origin_is_left(&waiter->origin, member, start));
}
