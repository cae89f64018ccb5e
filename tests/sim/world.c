/*
 * world.c - draws a world from its seed and runs it to the end, or to the first broken rule.
 */
#include "sim.h"

#include <string.h>

#define EVENTS_MOST 200000 /* more than any world needs: a machine runs in circles */
#define BACK_OFF_CAP_MS 1000
#define SLACK_MS 100
#define OBSERVER_POLL_MS 1000

/* The clocks of two hosts and the store may run apart by as much as the margin of a lease covers. */
#define DRIFT_PPM 10000
#define DRIFT_BEYOND_PPM 250000

/* ---- Events ---------------------------------------------------------------------------------- */

static bool is_of_process(enum sim_event_type type)
{
    return type < SIM_ARRIVE;
}

static int process_of(const struct sim_world *w, const struct sim_event *event)
{
    if (event->type == SIM_PING || event->type == SIM_PONG || event->type == SIM_EXPELLED)
        return event->who;
    return w->members[event->who].process;
}

void sim_after(struct sim_world *w, int64_t in_us, enum sim_event_type type, int who,
               uint64_t argument)
{
    struct sim_event event = {
        .at_us = w->now_us + in_us, .type = type, .who = who, .argument = argument};

    if (is_of_process(type))
        event.life = w->processes[process_of(w, &event)].life;
    sim_queue_push(&w->queue, event);
}

/* Events of a paused process wait, and come in any order when it goes on. */
static bool is_delayed(struct sim_world *w, const struct sim_event *event)
{
    const struct sim_process *p = &w->processes[process_of(w, event)];
    struct sim_event later = *event;

    if (p->paused_until_us <= w->now_us)
        return false;
    later.at_us = p->paused_until_us + sim_roll(w, 0, 500);
    sim_queue_push(&w->queue, later);
    return true;
}

static void forget(struct sim_world *w, const struct sim_event *event)
{
    if (event->type == SIM_ANSWER || event->type == SIM_TIMEOUT)
        sim_net_drop(w, (size_t)event->argument);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static bool can_compete(const struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (!m->observer && !m->stuck && simba_status_is_active(sim_member_status(m)))
            return true;
    }
    return false;
}

/* Some of the stopped are started again, and at least one that can lead. */
static void start_some(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (sim_member_status(m) == SIMBA_INITIAL &&
            (sim_chance(w, 500) || (!m->observer && !m->stuck && !can_compete(w))))
            sim_app_start(w, i);
    }
}

/* The bound of liveness: a lease may have begun at the last moment, and after it a contender waits for its
 * jitter; a request may have been lost, which takes its timeout and a back-off to find out; a stop whose
 * callback is stuck holds on for its timeout. Sessions are swept late, and their end is learned by a ping. */
static int64_t bound_ms(const struct sim_world *w)
{
    const struct sb_timing *t = &w->members[0].timing;
    int64_t bound =
        w->lease_ms * 3 / 2 + t->jitter_max_ms + t->initial_delay_ms + BACK_OFF_CAP_MS + SLACK_MS;

    for (int i = 0; i < w->member_count; i++) {
        if (sim_member_status(&w->members[i]) == SIMBA_STOPPING)
            return bound * 102 / 100 + t->stop_timeout_ms + w->lease_ms;
    }
    return (w->store.kind == SIM_SESSION ? bound + w->lease_ms : bound) * 102 / 100;
}

static void heal(struct sim_world *w)
{
    int64_t bound_us = bound_ms(w) * SIM_MS;
    int64_t calm_us = (2 * w->lease_ms + OBSERVER_POLL_MS + SLACK_MS) * SIM_MS;
    int64_t stop_us = w->members[0].timing.stop_timeout_ms * SIM_MS * 3 / 2 + SLACK_MS * SIM_MS;

    sim_trace(w, "all faults heal");
    w->healed = true;
    start_some(w);
    sim_after(w, bound_us, SIM_DEMAND, 0, 0);
    sim_after(w, bound_us + calm_us, SIM_FINALE, 0, 0);
    sim_after(w, bound_us + calm_us + stop_us, SIM_END, 0, 0);
}

static void finale(struct sim_world *w)
{
    sim_check_finale(w);
    w->over = true;
    for (int i = 0; i < w->member_count; i++) {
        if (simba_status_is_active(sim_member_status(&w->members[i]))) {
            w->check.seen[i].asked_to_stop = true;
            sim_app_stop(w, i);
        }
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static void happen_to_process(struct sim_world *w, const struct sim_event *event)
{
    switch (event->type) {
    case SIM_TICK:
        sim_member_tick(w, event->who, (uint32_t)event->argument);
        break;
    case SIM_ANSWER:
        sim_net_answer(w, (size_t)event->argument);
        break;
    case SIM_TIMEOUT:
        sim_net_timeout(w, (size_t)event->argument);
        break;
    case SIM_WAKE:
        sim_member_event(w, event->who, SB_EVENT_WAKE);
        break;
    case SIM_BEGIN:
        sim_member_begin(w, event->who);
        break;
    case SIM_RETURN:
        sim_member_return(w, event->who);
        break;
    case SIM_APP:
        sim_app_turn(w, event->who);
        break;
    case SIM_STOP:
        if (!w->healed)
            sim_app_stop(w, event->who);
        break;
    case SIM_WRITE:
        sim_app_write(w, event->who);
        break;
    case SIM_PING:
        sim_client_ping(w, event->who);
        break;
    case SIM_PONG:
        sim_client_pong(w, event->who, event->argument);
        break;
    case SIM_EXPELLED:
        if (w->processes[event->who].session == event->argument)
            sim_net_expelled(w, event->who);
        break;
    default:
        break;
    }
}

static void happen(struct sim_world *w, const struct sim_event *event)
{
    switch (event->type) {
    case SIM_ARRIVE:
        sim_net_arrive(w, (size_t)event->argument);
        break;
    case SIM_HEARD:
        sim_client_heard(w, event->who, event->argument);
        break;
    case SIM_RESOURCE:
        sim_check_write(w, event->argument, (uint64_t)event->who);
        break;
    case SIM_SWEEP:
        sim_session_sweep(w);
        break;
    case SIM_FAULT:
        sim_fault_strike(w, (enum sim_fault)event->who);
        break;
    case SIM_HEAL:
        heal(w);
        break;
    case SIM_DEMAND:
        sim_check_demand(w);
        break;
    case SIM_FINALE:
        finale(w);
        break;
    case SIM_END:
        sim_check_end(w);
        break;
    default:
        if (event->life != w->processes[process_of(w, event)].life)
            forget(w, event);
        else if (!is_delayed(w, event))
            happen_to_process(w, event);
        break;
    }
}

static void run(struct sim_world *w)
{
    struct sim_event event;

    while (w->check.violation[0] == '\0' && sim_queue_pop(&w->queue, &event)) {
        w->now_us = event.at_us;
        happen(w, &event);
        if (event.type == SIM_END)
            return;
        if (++w->counts.events == EVENTS_MOST)
            sim_violate(w, "the machines run in circles");
    }
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void draw_lease(struct sim_world *w, struct sb_timing *t)
{
    int64_t lease_ms;

    t->ttl_ms = sim_chance(w, 500) ? sim_roll(w, 40, 300) : sim_roll(w, 300, 2000);
    t->transition_ms = sim_roll(w, 20, sim_chance(w, 500) ? 200 : 1500);
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
}

static int maybe(struct sim_world *w, int most_permille)
{
    return sim_chance(w, 500) ? (int)sim_roll(w, 0, most_permille) : 0;
}

static void draw_habits(struct sim_world *w, struct sim_habits *h)
{
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
    n->slow = maybe(w, 300);
    n->wake_lost = sim_chance(w, 300) ? 1000 : maybe(w, 500);
    n->delay_us = sim_roll(w, 1, sim_chance(w, 500) ? 5 * SIM_MS : 60 * SIM_MS);
    n->patience = sim_chance(w, 500) ? 1 : sim_roll(w, 2, 10);
}

static void draw_faults(struct sim_world *w)
{
    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        int permille = i == SIM_FAULT_FORCE_RELEASE || i == SIM_FAULT_DATA_LOSS ? 100 : 400;

        if (sim_chance(w, permille))
            w->fault_gap_us[i] = sim_roll(w, 1, 8) * w->lease_ms * SIM_MS;
    }
    if (w->store.kind == SIM_SQL)
        w->fault_gap_us[SIM_FAULT_DATA_LOSS] = 0; /* it starts again with what it had */
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        sim_fault_plan(w, (enum sim_fault)i);
}

static void draw_places(struct sim_world *w)
{
    int64_t ppm = w->options->beyond_drift ? DRIFT_BEYOND_PPM : DRIFT_PPM;

    w->host_count = (int)sim_roll(w, 1, SIM_HOSTS_MAX + 1);
    w->process_count = (int)sim_roll(w, w->host_count, SIM_PROCESSES_MAX + 1);
    for (int i = 0; i < w->host_count; i++) {
        w->clocks[i].offset_us = sim_roll(w, SIM_S, 1000000 * (int64_t)SIM_S);
        w->clocks[i].ppm = sim_roll(w, -ppm, ppm + 1);
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
    snprintf(m->id, sizeof m->id, "%c%d", observer ? 'o' : 'c', member % 100);
}

static void draw_members(struct sim_world *w)
{
    int contenders = sim_chance(w, 700) ? (int)sim_roll(w, 1, 6) : (int)sim_roll(w, 1, 21);
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
        sim_member_reset(w, i);
    }
}

/* Long enough for a few dozen leases, and short where there are many members. */
static int64_t draw_length_us(struct sim_world *w)
{
    int64_t leases = sim_roll(w, 5, 20 + 200 / w->member_count);
    int64_t length_us = leases * w->lease_ms * SIM_MS;

    return length_us < 40 * (int64_t)SIM_S ? length_us : 40 * (int64_t)SIM_S;
}

static void draw(struct sim_world *w)
{
    w->store.kind = (enum sim_kind)sim_roll(w, SIM_SQL, SIM_SESSION + 1);
    sim_store_init(w);
    draw_places(w);
    draw_members(w);
    w->store.session_ms = w->lease_ms;
    w->store.endless = w->store.kind == SIM_SESSION && sim_chance(w, 500);
    w->store.recalls = w->store.kind == SIM_SESSION && sim_chance(w, 500);
    draw_network(w);
    w->heal_us = draw_length_us(w);
    draw_faults(w);
}

static void trace_world(const struct sim_world *w)
{
    static const char *const kinds[] = {"sql", "redis", "session"};

    sim_trace(w, "seed %llu: %s store, %d processes on %d hosts", (unsigned long long)w->seed,
              kinds[w->store.kind], w->process_count, w->host_count);
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        sim_trace(w, "%s in p%d: ttl %lld transition %lld stop timeout %lld", m->id, m->process,
                  (long long)m->timing.ttl_ms, (long long)m->timing.transition_ms,
                  (long long)m->timing.stop_timeout_ms);
    }
}

static void begin(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        sim_after(w, sim_roll(w, 0, w->lease_ms * SIM_MS), SIM_APP, i, 0);
        sim_after(w, sim_roll(w, 0, w->lease_ms * SIM_MS), SIM_WRITE, i, 0);
    }
    if (w->store.kind == SIM_SESSION) {
        sim_after(w, 0, SIM_SWEEP, 0, 0);
        for (int i = 0; i < w->process_count; i++)
            sim_after(w, 0, SIM_PING, i, 0);
    }
    sim_after(w, w->heal_us, SIM_HEAL, 0, 0);
}

/* The big tables are left as they are: what is used of them is written first. */
static void clear(struct sim_world *w)
{
    w->queue.count = 0;
    w->queue.order = 0;
    memset(&w->clocks, 0, sizeof *w - offsetof(struct sim_world, clocks));
}

const char *sim_world_run(struct sim_world *w, uint64_t seed, const struct sim_options *options)
{
    clear(w);
    w->options = options;
    w->seed = seed;
    w->dice = seed;
    w->now_us = 0;
    w->lease_ms = 0;
    w->healed = false;
    w->over = false;
    memset(w->fault_gap_us, 0, sizeof w->fault_gap_us);
    draw(w);
    trace_world(w);
    begin(w);
    run(w);
    return w->check.violation[0] != '\0' ? w->check.violation : NULL;
}
