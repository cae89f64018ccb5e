/*
 * draw.c - draws a world from its seed: places, clocks, members, habits, network, faults. It must
 * not let anything happen.
 */
#include "sim.h"

#include "base/random.h"

#include <string.h>

/* The clocks of two hosts and the store may run apart by as much as the margin of a lease
 * covers. */
#define DRIFT_PPM 10000
#define DRIFT_BEYOND_PPM 250000
#define CLOSE_DELAY_US 300
#define LENGTH_MOST_US (40 * (int64_t)SIM_S)

static void draw_lease(struct sim_world *w, struct sb_timing *t)
{
    int64_t lease_ms;

    t->ttl_ms = sim_chance(w, 500) ? sim_roll(w, 40, 300) : sim_roll(w, 300, 2000);
    t->transition_ms = sim_roll(w, 20, sim_chance(w, 500) ? 200 : 1500);
    if (w->slow) {
        t->ttl_ms = sim_roll(w, 6000, 40000);
        t->transition_ms = sim_roll(w, 1000, 20000);
    }
    lease_ms = t->ttl_ms + t->transition_ms;
    if (t->transition_ms < 2 * simba_drift_margin_ms(lease_ms))
        t->transition_ms = 2 * simba_drift_margin_ms(lease_ms) + 2; /* + 2: the lease grows by it */
    t->margin_ms = simba_drift_margin_ms(t->ttl_ms + t->transition_ms);
}

static void draw_timing(struct sim_world *w, struct sb_timing *t)
{
    memset(t, 0, sizeof *t);
    draw_lease(w, t);
    t->initial_delay_ms = sim_chance(w, 200) ? sim_roll(w, 0, 500) : 0;
    t->jitter_min_ms = sim_roll(w, -200, 1);
    t->jitter_max_ms = sim_roll(w, 0, sim_chance(w, 500) ? 1000 : 100);
    t->stop_timeout_ms = sim_roll(w, 100, sim_chance(w, 500) ? 500 : 3000);
    if (w->close) {
        t->jitter_min_ms = 0;
        t->jitter_max_ms = 1;
    }
}

static int maybe(struct sim_world *w, int most_permille)
{
    return sim_chance(w, 500) ? (int)sim_roll(w, 0, most_permille) : 0;
}

static void draw_habits(struct sim_world *w, struct sim_habits *h)
{
    h->mute = sim_chance(w, 50);
    h->callback_us = sim_roll(w, 1, sim_chance(w, 500) ? 5 * SIM_MS : 200 * SIM_MS);
    h->slow_permille = maybe(w, 400);
    h->stuck_permille = sim_chance(w, 200) ? maybe(w, 100) : 0;
    h->stop_inside_permille = sim_chance(w, 200) ? maybe(w, 400) : 0;
    h->run_us = sim_chance(w, 500) ? sim_roll(w, 1, 4 * w->lease_ms * SIM_MS) : 0;
    h->rest_us = sim_roll(w, 1, 2 * w->lease_ms * SIM_MS);
}

static void draw_network(struct sim_world *w)
{
    struct sim_network *n = &w->network;

    n->refused = maybe(w, 200);
    n->lost = maybe(w, 200);
    n->reset = maybe(w, 300);
    n->reply_lost = maybe(w, 200);
    n->duplicated = maybe(w, 100);
    n->no_memory = sim_chance(w, 200) ? maybe(w, 100) : 0;
    n->slow = maybe(w, 300);
    n->wake_lost = sim_chance(w, 300) ? 1000 : maybe(w, 500);
    n->delay_us = sim_roll(w, 1, sim_chance(w, 500) ? 5 * SIM_MS : 60 * SIM_MS);
    n->patience = w->slow || sim_chance(w, 500) ? 1 : sim_roll(w, 2, 10);
    if (w->close)
        n->delay_us = CLOSE_DELAY_US;
}

static void draw_faults(struct sim_world *w)
{
    for (int i = 0; i < SIM_FAULT_DEPOSE; i++) {
        bool rare =
            i == SIM_FAULT_FORCE_RELEASE || i == SIM_FAULT_DATA_LOSS || i == SIM_FAULT_DEATH;
        int permille = rare ? 100 : 400;

        if (sim_chance(w, permille))
            w->fault_gap_us[i] = sim_roll(w, 1, 8) * w->lease_ms * SIM_MS;
    }
    if (w->store.kind == SIM_SQL)
        w->fault_gap_us[SIM_FAULT_DATA_LOSS] = 0; /* it starts again with what it had */
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        sim_fault_plan(w, (enum sim_fault)i);
}

/* Half of the clocks run as wrong as they may. */
static int64_t draw_ppm(struct sim_world *w, int64_t most)
{
    if (sim_chance(w, 500))
        return sim_roll(w, -most, most + 1);
    return sim_chance(w, 500) ? most : -most;
}

static void draw_places(struct sim_world *w)
{
    int64_t ppm = w->options->beyond_drift ? DRIFT_BEYOND_PPM : DRIFT_PPM;

    w->host_count = (int)sim_roll(w, 1, SIM_HOSTS_MAX + 1);
    w->process_count = (int)sim_roll(w, w->host_count, SIM_PROCESSES_MAX + 1);
    for (int i = 0; i < w->host_count; i++) {
        w->clocks[i].offset_us = sim_roll(w, SIM_S, 1000000 * (int64_t)SIM_S);
        w->clocks[i].ppm = draw_ppm(w, ppm);
    }
    for (int i = 0; i < w->process_count; i++)
        w->processes[i].host = i < w->host_count ? i : (int)sim_roll(w, 0, w->host_count);
}

static void add_member(struct sim_world *w, bool observer, const struct sb_timing *timing,
                       bool own_lease)
{
    int member = w->member_count++;
    struct sim_member *m = &w->members[member];

    m->observer = observer;
    m->process = (int)sim_roll(w, 0, w->process_count);
    m->timing = *timing;
    if (own_lease)
        draw_lease(w, &m->timing);
    if (w->lease_ms < m->timing.ttl_ms + m->timing.transition_ms)
        w->lease_ms = m->timing.ttl_ms + m->timing.transition_ms;
    m->twin = member;
    snprintf(m->id, sizeof m->id, "%c%d", observer ? 'o' : 'c', member % 100);
}

static void draw_members(struct sim_world *w)
{
    bool few = w->slow || sim_chance(w, 700);
    int contenders = few ? (int)sim_roll(w, 1, 6) : (int)sim_roll(w, 1, 21);
    int observers = sim_chance(w, 300) ? (int)sim_roll(w, 1, 3) : 0;
    bool mixed = w->store.kind != SIM_SESSION && sim_chance(w, 300);
    struct sb_timing timing;

    draw_timing(w, &timing);
    for (int i = 0; i < contenders; i++)
        add_member(w, false, &timing, mixed);
    for (int i = 0; i < observers; i++)
        add_member(w, true, &timing, false);
    for (int i = 0; i < w->member_count; i++) {
        draw_habits(w, &w->members[i].habits);
        w->members[i].habits.mute &= !w->members[i].observer;
        sim_member_reset(w, i);
    }
}

/* Rolled by dice of their own, so that a world without turns is the one that it was before there
 * were any. Half of these queues begin with waiters that died, some with more than the jitter has
 * room for. */
static void draw_turns(struct sim_world *w)
{
    uint64_t dice = ~w->seed;
    int64_t turn_ms = sb_random_between(sb_random_next(&dice), 1, 41);

    if (sb_random_between(sb_random_next(&dice), 0, 4) > 0)
        return;
    if (sb_random_between(sb_random_next(&dice), 0, 2) > 0)
        w->store.dead_waiters = sb_random_between(sb_random_next(&dice), 1, 200);
    for (int i = 0; i < w->member_count; i++)
        if (sb_random_between(sb_random_next(&dice), 0, 5) > 0)
            w->members[i].timing.turn_ms = turn_ms;
    if (sb_random_between(sb_random_next(&dice), 0, 3) == 0)
        return;
    w->store.has_queue = sb_random_between(sb_random_next(&dice), 0, 2) > 0;
    if (sb_random_between(sb_random_next(&dice), 0, 2) > 0)
        w->store.whims = sb_random_next(&dice) | 1;
    for (int i = 0; i < w->member_count; i++)
        if (w->members[i].timing.turn_ms > 0 && sb_random_between(sb_random_next(&dice), 0, 6) > 0)
            w->members[i].timing.reserve_ms = 10 * turn_ms;
}

/* Contenders that follow, in some worlds; dice of their own, as above. In half of these the store
 * tells them nothing, or not all, and they look by themselves. */
static void draw_followers(struct sim_world *w)
{
    uint64_t dice = w->seed ^ UINT64_C(0x2545f4914f6cdd1d);
    int64_t read_ms = sb_random_between(sb_random_next(&dice), 20, 1000);
    bool tells = sb_random_between(sb_random_next(&dice), 0, 2) > 0;

    if (sb_random_between(sb_random_next(&dice), 0, 8) > 0)
        return;
    for (int i = 0; i < w->member_count; i++) {
        struct sim_member *m = &w->members[i];

        m->follows = !m->observer && sb_random_between(sb_random_next(&dice), 0, 3) > 0;
        if (!m->follows)
            continue;
        m->timing.read_ms = tells ? 0 : read_ms;
        sb_machine_follow(&m->machine.contender);
    }
}

/* A contender gets the id of another one. A client has one entry for an id, so on a store of
 * sessions they are in two processes. */
static void draw_twins(struct sim_world *w, uint64_t *dice)
{
    int first = (int)sb_random_between(sb_random_next(dice), 0, w->member_count);
    int second = (int)sb_random_between(sb_random_next(dice), 0, w->member_count);
    struct sim_member *one = &w->members[first < second ? first : second];
    struct sim_member *other = &w->members[first < second ? second : first];

    if (one == other || one->observer || other->observer ||
        (w->store.kind == SIM_SESSION && one->process == other->process))
        return;
    other->twin = one->twin;
    memcpy(other->id, one->id, sizeof other->id);
}

/* What a store or its users may do besides; not two servers and twins, which would hide each other.
 * Rolled by dice of their own, as turns are. */
static void draw_mischief(struct sim_world *w)
{
    uint64_t dice = w->seed ^ UINT64_C(0x5851f42d4c957f2d);

    w->store.tells_fence =
        w->store.kind != SIM_SQL || sb_random_between(sb_random_next(&dice), 0, 2) > 0;
    if (!w->store.tells_fence)
        w->network.duplicated = 0; /* where changes are counted each is made once */
    if (sb_random_between(sb_random_next(&dice), 0, 5) == 0)
        draw_twins(w, &dice);
    w->network.blocked = 0;
    if (w->store.kind == SIM_SQL && sb_random_between(sb_random_next(&dice), 0, 3) == 0)
        w->network.blocked = (int)sb_random_between(sb_random_next(&dice), 1, 250);
    if (w->store.kind == SIM_REDIS && !sim_has_twins(w) &&
        sb_random_between(sb_random_next(&dice), 0, 3) == 0)
        w->fault_gap_us[SIM_FAULT_DEPOSE] =
            sb_random_between(sb_random_next(&dice), 2, 9) * w->lease_ms * SIM_MS;
}

/* Long enough for a few dozen leases, and short where there are many members. */
static int64_t draw_length_us(struct sim_world *w)
{
    int64_t leases = w->slow ? sim_roll(w, 4, 9) : sim_roll(w, 5, 20 + 200 / w->member_count);
    int64_t length_us = leases * w->lease_ms * SIM_MS;

    return w->slow || length_us < LENGTH_MOST_US ? length_us : LENGTH_MOST_US;
}

void sim_draw(struct sim_world *w)
{
    w->slow = sim_chance(w, 50);
    w->close = sim_chance(w, w->slow ? 500 : 150);
    w->store.kind = (enum sim_kind)sim_roll(w, SIM_SQL, SIM_SESSION + 1);
    sim_store_init(w);
    draw_places(w);
    draw_members(w);
    draw_turns(w);
    draw_followers(w);
    w->store.session_ms = w->lease_ms;
    w->store.endless = w->store.kind == SIM_SESSION && sim_chance(w, 500);
    w->store.recalls = w->store.kind == SIM_SESSION && sim_chance(w, 500);
    w->store.curt = sim_chance(w, 500);
    draw_network(w);
    w->heal_us = draw_length_us(w);
    draw_mischief(w);
    draw_faults(w);
}

/* ---- The trace ------------------------------------------------------------------------------- */

static void trace_places(const struct sim_world *w)
{
    for (int i = 0; i < w->host_count; i++)
        sim_trace(w, "host %d: clock ahead by %lld ms, %lld ppm", i,
                  (long long)(w->clocks[i].offset_us / SIM_MS), (long long)w->clocks[i].ppm);
    for (int i = 0; i < w->process_count; i++)
        sim_trace(w, "p%d on host %d", i, w->processes[i].host);
}

static void trace_troubles(const struct sim_world *w)
{
    static const char *const names[] = {"partition",  "pause",         "suspend",   "crash",
                                        "death",      "down",          "data loss", "force-release",
                                        "false wake", "deposed server"};
    const struct sim_network *n = &w->network;

    sim_trace(
        w,
        "network, in a thousand: %d refused, %d lost, %d reset, %d replies lost, %d twice, "
        "%d without memory, %d slow, %d blocked, %d wake-ups lost; delay %lld us, patience %lld",
        n->refused, n->lost, n->reset, n->reply_lost, n->duplicated, n->no_memory, n->slow,
        n->blocked, n->wake_lost, (long long)n->delay_us, (long long)n->patience);
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        if (w->fault_gap_us[i] > 0)
            sim_trace(w, "fault: %s about every %lld ms", names[i],
                      (long long)(w->fault_gap_us[i] / SIM_MS));
    }
}

static void trace_member(const struct sim_world *w, const struct sim_member *m)
{
    const struct sim_habits *h = &m->habits;
    const struct sb_timing *t = &m->timing;

    sim_trace(w,
              "%s in p%d: ttl %lld transition %lld margin %lld jitter %lld..%lld turn %lld "
              "reserve %lld initial delay %lld stop timeout %lld",
              m->id, m->process, (long long)t->ttl_ms, (long long)t->transition_ms,
              (long long)t->margin_ms, (long long)t->jitter_min_ms, (long long)t->jitter_max_ms,
              (long long)t->turn_ms, (long long)t->reserve_ms, (long long)t->initial_delay_ms,
              (long long)t->stop_timeout_ms);
    if (h->mute)
        sim_trace(w, "%s has no callbacks", m->id);
    sim_trace(
        w,
        "%s callbacks up to %lld us, in a thousand: %d slow, %d stuck, %d that stop; runs for "
        "%lld ms, rests for %lld ms",
        m->id, (long long)h->callback_us, h->slow_permille, h->stuck_permille,
        h->stop_inside_permille, (long long)(h->run_us / SIM_MS), (long long)(h->rest_us / SIM_MS));
}

void sim_draw_trace(const struct sim_world *w)
{
    static const char *const kinds[] = {"sql", "redis", "session"};

    if (w->options->trace == NULL)
        return;
    sim_trace(w, "seed %llu: %s store%s%s%s%s, %d processes on %d hosts",
              (unsigned long long)w->seed, kinds[w->store.kind],
              w->store.endless ? ", endless" : "",
              w->store.recalls ? ", answers guards from memory" : "", w->store.curt ? ", curt" : "",
              w->store.tells_fence ? ", tells tokens" : "", w->process_count, w->host_count);
    trace_places(w);
    trace_troubles(w);
    for (int i = 0; i < w->member_count; i++)
        trace_member(w, &w->members[i]);
}
