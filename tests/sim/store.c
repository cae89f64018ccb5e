/*
 * store.c - the store as one linearizable lease register, in its own time: the operations precisely
 * as backend.h lists them, for a SQL row and for a Redis key. Stores of sessions are in session.c.
 */
#include "sim.h"

#include "base/random.h"

#include <string.h>

#define EPOCH_MS INT64_C(1700000000000)

int64_t sim_store_ms(const struct sim_world *w)
{
    return EPOCH_MS + w->now_us / SIM_MS;
}

/* A store that has lost its data has lost its counter too; its time is ahead of all it ever
 * counted. */
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
    w->store.record.owner.member = SIM_NOBODY;
    w->store.deposed.owner.member = SIM_NOBODY;
    w->store.reserved_for = SIM_NOBODY;
}

/* A store knows ids, not members. */
bool sim_same_id(const struct sim_world *w, int member, int other)
{
    return w->members[member].twin == w->members[other].twin;
}

bool sim_has_twins(const struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++)
        if (w->members[i].twin != i)
            return true;
    return false;
}

/* ---- The register ---------------------------------------------------------------------------- */

/* The conditional UPDATE says transition_at < now; a key is gone when its time has come. */
static bool has_ended(const struct sim_world *w, int64_t now_ms)
{
    int64_t end_ms = w->store.record.transition_at_ms;

    return w->store.kind == SIM_SQL ? end_ms < now_ms : end_ms <= now_ms;
}

static int owner_at(const struct sim_world *w, int64_t now_ms)
{
    const struct sim_record *record = &w->store.record;

    return record->owner.member != SIM_NOBODY && !has_ended(w, now_ms) ? record->owner.member
                                                                       : SIM_NOBODY;
}

int sim_store_owner(struct sim_world *w)
{
    return w->store.kind == SIM_SESSION ? sim_session_owner(w) : owner_at(w, sim_store_ms(w));
}

struct sim_origin sim_origin_of(const struct sim_request *r)
{
    struct sim_origin origin = {
        .member = r->member, .start = r->start, .serial = r->serial, .given_up = r->answered};

    return origin;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* No change ever shortens a lease of the same id: a row is stamped with a time that may be long
 * over when its statement is carried out, and a twin may have asked for less. */
static void set_lease(struct sim_world *w, const struct sim_request *r, bool longer)
{
    const struct sb_timing *t = &w->members[r->member].timing;
    struct sim_record *record = &w->store.record;
    int64_t ttl_at_ms = r->stamp_ms + t->ttl_ms;
    int64_t transition_at_ms = ttl_at_ms + t->transition_ms;

    record->ttl_at_ms = longer ? larger(record->ttl_at_ms, ttl_at_ms) : ttl_at_ms;
    record->transition_at_ms =
        longer ? larger(record->transition_at_ms, transition_at_ms) : transition_at_ms;
}

static void join(struct sim_world *w, const struct sim_request *r)
{
    struct sim_waiter *waiter = &w->store.waiters[r->member];

    if (!waiter->waiting)
        waiter->joined = w->store.joined++;
    waiter->waiting = true;
    waiter->origin = sim_origin_of(r);
}

static bool is_deposed(const struct sim_world *w, int member)
{
    return w->processes[w->members[member].process].confirmed_ms != 0;
}

/* ---- Reservations ---------------------------------------------------------------------------- */

static bool has_queue(const struct sim_world *w)
{
    return w->store.kind == SIM_REDIS || w->store.has_queue;
}

static void reserve(struct sim_world *w, int member, int64_t for_ms)
{
    w->counts[SIM_RESERVATIONS]++;
    w->store.reserved_for = member;
    w->store.reserved_until_ms = sim_store_ms(w) + for_ms;
}

/* Some stores lose a reservation, or have one for somebody who is dead, has left or never came. */
static void follow_whim(struct sim_world *w, int64_t for_ms)
{
    uint64_t *dice = &w->store.whims;

    if (*dice == 0 || for_ms == 0 || w->now_us >= w->heal_us ||
        sb_random_between(sb_random_next(dice), 0, 10) > 0)
        return;
    w->counts[SIM_WHIMS]++;
    if (sb_random_between(sb_random_next(dice), 0, 2) > 0)
        w->store.reserved_for = SIM_NOBODY;
    else
        reserve(w, (int)sb_random_between(sb_random_next(dice), 0, w->member_count), for_ms);
}

/* For another than the sender, who heeds it; 0: it is not reserved. */
static int64_t reserved_left_ms(const struct sim_world *w, const struct sim_request *r)
{
    int64_t left_ms = w->store.reserved_until_ms - sim_store_ms(w);

    if (w->store.reserved_for == SIM_NOBODY || left_ms <= 0 ||
        w->members[r->member].timing.reserve_ms == 0 ||
        sim_same_id(w, w->store.reserved_for, r->member))
        return 0;
    return left_ms;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* A contender with the same id is taken for the owner, and is granted what a twin holds. */
static void acquire(struct sim_world *w, struct sim_request *r)
{
    struct sim_record *record = &w->store.record;
    int owner = owner_at(w, r->stamp_ms);
    bool mine =
        record->owner.member != SIM_NOBODY && sim_same_id(w, record->owner.member, r->member);

    if (owner != SIM_NOBODY && !mine) {
        join(w, r);
        return;
    }
    follow_whim(w, w->members[r->member].timing.reserve_ms);
    r->reserved_left_ms = owner == SIM_NOBODY ? reserved_left_ms(w, r) : 0;
    if (r->reserved_left_ms > 0) {
        w->counts[SIM_RESERVED_FOR_OTHER]++;
        join(w, r);
        return;
    }
    w->store.reserved_for = SIM_NOBODY;
    if (owner != SIM_NOBODY && owner != r->member) {
        w->counts[SIM_STOLEN]++;
        sim_check_voided(w, owner);
    }
    record->owner = sim_origin_of(r);
    record->revision = sim_store_new_revision(w);
    record->fence = record->revision;
    set_lease(w, r, mine);
    w->store.waiters[r->member].waiting = false;
    sim_check_grant(w, r->member, record->revision, sim_request_is_old(w, r));
    sim_net_change(w);
}

static bool is_foreign(const struct sim_world *w, const struct sim_request *r)
{
    return r->fence != 0 && r->fence != w->store.record.fence;
}

static void guard(struct sim_world *w, const struct sim_request *r)
{
    struct sim_record *record = &w->store.record;
    int owner = owner_at(w, r->stamp_ms);
    bool foreign = is_foreign(w, r);

    if (owner == SIM_NOBODY || !sim_same_id(w, owner, r->member) ||
        (foreign && w->store.tells_fence))
        return;
    record->owner.given_up |= r->answered && has_ended(w, sim_store_ms(w)); /* brought back late */
    set_lease(w, r, true);
    if (w->store.kind == SIM_SQL)
        record->revision = sim_store_new_revision(w);
    sim_check_renewal(w, r->member, owner, foreign);
}

/* ---- Wake-ups -------------------------------------------------------------------------------- */

/* The oldest and the newest waiter, alive or not. */
static void find_waiters(const struct sim_world *w, int *ret_oldest, int *ret_newest)
{
    const struct sim_waiter *waiters = w->store.waiters;

    *ret_oldest = *ret_newest = SIM_NOBODY;
    for (int i = 0; i < w->member_count; i++) {
        if (!waiters[i].waiting)
            continue;
        if (*ret_oldest == SIM_NOBODY || waiters[i].joined < waiters[*ret_oldest].joined)
            *ret_oldest = i;
        if (*ret_newest == SIM_NOBODY || waiters[i].joined > waiters[*ret_newest].joined)
            *ret_newest = i;
    }
}

/* A store without a queue tells everybody, one with a queue its head, which may be dead: then the
 * one behind it comes when the reservation is over; and the last one, if that is dead, too. */
static void wake(struct sim_world *w, int64_t reserve_ms)
{
    int oldest;
    int newest;

    find_waiters(w, &oldest, &newest);
    if (!has_queue(w)) {
        for (int i = 0; i < w->member_count; i++)
            sim_net_wake(w, i);
        return;
    }
    if (oldest == SIM_NOBODY)
        return;
    w->store.waiters[oldest].waiting = false;
    sim_net_wake(w, oldest);
    if (reserve_ms == 0)
        return;
    reserve(w, oldest, reserve_ms);
    find_waiters(w, &oldest, &newest);
    if (oldest != SIM_NOBODY)
        sim_net_reserved(w, oldest, SIM_RESERVED);
    if (newest != oldest)
        sim_net_reserved(w, newest, SIM_STANDBY);
}

static void clear(struct sim_world *w, int64_t reserve_ms)
{
    struct sim_record *record = &w->store.record;

    record->owner.member = SIM_NOBODY;
    record->ttl_at_ms = 0;
    record->transition_at_ms = 0;
    if (w->store.kind == SIM_SQL)
        record->revision = sim_store_new_revision(w);
    wake(w, reserve_ms);
    sim_net_change(w);
}

/* A probe may have found the record of a twin, and taken it for the sender's. */
static void release(struct sim_world *w, struct sim_request *r)
{
    const struct sim_record *record = &w->store.record;
    int owner = record->owner.member;

    w->store.waiters[r->member].waiting = false;
    if (sim_store_owner(w) == SIM_NOBODY && w->store.reserved_for != SIM_NOBODY &&
        sim_same_id(w, w->store.reserved_for, r->member)) {
        w->store.reserved_for = SIM_NOBODY;
        wake(w, w->members[r->member].timing.reserve_ms);
    }
    if (owner == SIM_NOBODY || !sim_same_id(w, owner, r->member) || r->revision == 0 ||
        r->revision != record->revision)
        return;
    if (w->store.kind == SIM_SQL || !has_ended(w, sim_store_ms(w))) /* a key is gone by then */
        sim_check_gave_back(w, r, owner, record->fence);
    if (owner != r->member)
        sim_check_voided(w, owner);
    sim_check_release(w, owner);
    clear(w, w->members[r->member].timing.reserve_ms);
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Only a store with a queue knows it, and tells it only to who wants it. */
static int64_t place_of(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_waiter *mine = &w->store.waiters[r->member];
    int64_t place = w->store.dead_waiters + 1;

    if (!has_queue(w) || r->op != SIMBA_OP_ACQUIRE || !mine->waiting ||
        w->members[r->member].timing.turn_ms == 0)
        return 0;
    for (int i = 0; i < w->member_count; i++)
        place += w->store.waiters[i].waiting && w->store.waiters[i].joined < mine->joined;
    w->counts[SIM_PLACES]++;
    return place;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* To its owner a row tells the time left by its stamp, which is not before the request was sent,
 * and no more than was asked for. */
static void answer(struct sim_world *w, struct sim_request *r)
{
    const struct sim_record *record = &w->store.record;
    int64_t now_ms = sim_store_ms(w);

    r->owner = record->owner.member;
    if ((w->store.kind == SIM_REDIS && has_ended(w, now_ms)) ||
        (w->store.curt && r->op == SIMBA_OP_RELEASE && r->revision == 0))
        r->owner = SIM_NOBODY;
    if (r->reserved_left_ms > 0) {
        r->owner = SIM_NOBODY; /* of a row the lease is over */
        r->place = place_of(w, r);
    }
    if (r->owner == SIM_NOBODY)
        return;
    r->ttl_left_ms = record->ttl_at_ms - now_ms;
    r->transition_left_ms = record->transition_at_ms - now_ms;
    if (sim_same_id(w, r->owner, r->member)) {
        const struct sb_timing *t = &w->members[r->member].timing;

        r->foreign = is_foreign(w, r);
        r->ttl_left_ms = smaller(record->ttl_at_ms - r->stamp_ms, t->ttl_ms);
        r->transition_left_ms =
            smaller(record->transition_at_ms - r->stamp_ms, t->ttl_ms + t->transition_ms);
    }
    r->reply_revision = record->revision;
    r->place = place_of(w, r);
    r->reply_fence = w->store.tells_fence ? record->fence : 0;
}

static void carry_out(struct sim_world *w, struct sim_request *r)
{
    int64_t now_ms = sim_store_ms(w);

    r->stamp_ms = r->arrived_ms != 0 ? sim_roll(w, r->arrived_ms, now_ms + 1) : now_ms;
    if (r->op == SIMBA_OP_ACQUIRE)
        acquire(w, r);
    else if (r->op == SIMBA_OP_GUARD)
        guard(w, r);
    else if (r->op == SIMBA_OP_RELEASE)
        release(w, r);
    answer(w, r);
}

/* ---- A server that was deposed --------------------------------------------------------------- */

static void swap_servers(struct sim_world *w)
{
    struct sim_record record = w->store.record;

    w->store.record = w->store.deposed;
    w->store.deposed = record;
}

/* Its clients cannot know. But its client counts leases from when a majority last confirmed that
 * server, and asks nothing of one that has not been confirmed for a lease. */
static void carry_out_deposed(struct sim_world *w, struct sim_request *r)
{
    const struct sb_timing *t = &w->members[r->member].timing;
    const struct sim_process *p = &w->processes[w->members[r->member].process];
    int64_t lease_ms = t->ttl_ms + t->transition_ms - t->margin_ms;

    r->deposed = true;
    if (sim_process_ms(w, w->members[r->member].process) - p->confirmed_ms >= lease_ms) {
        if (r->twice)
            r->reply_lost = true;
        else if (r->code == SIMBA_OK)
            r->code = SIMBA_EUNAVAILABLE;
        return;
    }
    w->counts[SIM_DEPOSED]++;
    swap_servers(w);
    carry_out(w, r);
    swap_servers(w);
    if (p->confirmed_ms < r->sent_at_ms)
        r->as_of_ms = p->confirmed_ms;
}

void sim_store_apply(struct sim_world *w, struct sim_request *r)
{
    if (w->store.kind == SIM_SESSION)
        sim_session_apply(w, r);
    else if (is_deposed(w, r->member))
        carry_out_deposed(w, r);
    else
        carry_out(w, r);
}

/* The new master has all that the old one had. What an owner gives back on the old one stays on the
 * new one, and runs out by itself. */
void sim_store_depose(struct sim_world *w)
{
    int owner = w->store.record.owner.member;

    sim_tell_end(w, "deposed");
    w->store.deposed = w->store.record;
    for (int i = 0; i < w->process_count; i++)
        if (sim_chance(w, 500))
            w->processes[i].confirmed_ms =
                sim_process_ms(w, i) - sim_roll(w, 0, w->lease_ms / 4 + 1);
    for (int i = 0; i < w->member_count; i++)
        if (is_deposed(w, i))
            w->check.seen[i].deposed_us = w->now_us;
    if (owner != SIM_NOBODY && w->check.seen[owner].deposed_us != 0)
        w->store.record.owner.given_up = true;
    sim_trace(w, "store: another server is the master until %lld",
              (long long)(w->store.deposed_until_us / SIM_MS));
}

void sim_store_rejoin(struct sim_world *w)
{
    sim_trace(w, "store: the deposed server is a replica");
    for (int i = 0; i < w->process_count; i++)
        w->processes[i].confirmed_ms = 0;
}

/* ---- From outside ---------------------------------------------------------------------------- */

void sim_store_force_release(struct sim_world *w)
{
    int owner = sim_store_owner(w);

    if (owner == SIM_NOBODY)
        return;
    sim_trace(w, "store: %s is taken away by force", w->members[owner].id);
    sim_tell_end(w, "force");
    sim_check_voided(w, owner);
    if (w->store.kind == SIM_SESSION)
        sim_session_force_release(w);
    else
        clear(w, 0);
}

/* All that was known is gone: records, queue, sessions, and the counter as far as the store
 * goes. */
void sim_store_lose_data(struct sim_world *w)
{
    sim_trace(w, "store: the data is lost");
    sim_tell_end(w, "data-loss");
    for (int i = 0; i < w->member_count; i++)
        sim_check_voided(w, i);
    if (w->store.kind == SIM_SESSION) {
        sim_session_lose_data(w);
        return;
    }
    w->store.counter = 0;
    w->store.record.owner.member = SIM_NOBODY;
    memset(w->store.waiters, 0, sizeof w->store.waiters);
    w->store.dead_waiters = 0;
    w->store.reserved_for = SIM_NOBODY;
}

/* ---- What is left ---------------------------------------------------------------------------- */

/* A later start that is told of an outcome has to clean up too. */
void sim_store_told(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];

    if (w->store.kind != SIM_SESSION && w->store.record.owner.serial == r->serial &&
        r->op == SIMBA_OP_ACQUIRE && w->check.seen[r->member].phase != SIM_DOWN)
        w->store.record.owner.told_start = m->starts;
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
    return (sim_store_owner(w) == member &&
            sim_origin_is_left(&w->store.record.owner, member, start)) ||
           (waiter->waiting && sim_origin_is_left(&waiter->origin, member, start));
}
