/*
 * world.c - runs a world to the end, or to the first broken rule. What is in it is drawn by draw.c.
 */
#include "sim.h"

#include <string.h>

#define EVENTS_MOST 200000 /* more than any world needs: a machine runs in circles */
#define BACK_OFF_CAP_MS 1000
#define SLACK_MS 100
#define OBSERVER_POLL_MS 1000
#define HICCUP_SLACK_MS 20

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
        if (sim_check_could_lead(w, i))
            return true;
    }
    return false;
}

/* Some of the stopped are started again, and at least one that can lead. */
static void start_some(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (w->check.seen[i].phase == SIM_DOWN && !w->processes[m->process].dead &&
            (sim_chance(w, 500) || (!m->observer && !m->stuck && !can_compete(w))))
            sim_app_start(w, i);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool has_crashed(const struct sim_world *w)
{
    for (int i = 0; i < w->process_count; i++)
        if (w->processes[i].life > 0)
            return true;
    return false;
}

/* How long the mutex may stay taken by somebody who does not believe: a lease may have begun at the
 * last moment, or begin again when a stop gives up whose callback is stuck. The end of a session is
 * found a quarter of it late, and its nodes stay listed for another; each one whose contender is
 * stuck has its turn. Where changes are only counted, a guard that finds late ones of a process
 * that crashed renews the lease, and its owner lets go of it. */
static int64_t taken_ms(const struct sim_world *w)
{
    int64_t taken = w->lease_ms;

    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (w->check.seen[i].phase == SIM_ENDING)
            taken = larger(taken, m->timing.stop_timeout_ms + w->lease_ms);
    }
    if (!w->store.tells_fence && has_crashed(w))
        taken += w->lease_ms;
    if (w->store.kind != SIM_SESSION)
        return taken;
    for (int i = 0; i < w->member_count; i++)
        taken += w->members[i].stuck ? w->lease_ms * 5 / 4 : 0;
    return taken + w->lease_ms / 2;
}

/* The bound of liveness: the mutex becomes free, or a request that was lost at the last moment is
 * found to be so and tried again, whichever comes later; then a contender waits for its jitter. */
static int64_t bound_ms(const struct sim_world *w)
{
    const struct sb_timing *t = &w->members[0].timing;
    int64_t retry = w->lease_ms / 2 + BACK_OFF_CAP_MS;

    return (larger(taken_ms(w), retry) + t->jitter_max_ms + t->initial_delay_ms + SLACK_MS) * 102 /
           100;
}

static void heal(struct sim_world *w)
{
    int64_t calm_us = (2 * w->lease_ms + OBSERVER_POLL_MS + SLACK_MS) * SIM_MS;
    int64_t stop_us = sim_clock_most_us(w, w->members[0].timing.stop_timeout_ms + SLACK_MS);
    int64_t bound_us;

    sim_trace(w, "all faults heal");
    w->healed = true;
    if (sim_chance(w, 300))
        sim_fault_kill_owner(w);
    start_some(w);
    bound_us = bound_ms(w) * SIM_MS;
    sim_after(w, bound_us, SIM_DEMAND, 0, 0);
    sim_after(w, bound_us + calm_us, SIM_FINALE, 0, 0);
    sim_after(w, bound_us + calm_us + stop_us, SIM_END, 0, 0);
}

/* How long nothing may get through so that an owner still leads on: the guard that is lost at the
 * very end takes a third of the transition to be given up, and an eighth to be tried again. A
 * client that answers from memory pings only four times in a lease. */
static int64_t hiccup_ms(const struct sim_world *w, const struct sb_timing *t)
{
    int64_t most = t->transition_ms / 2 - t->margin_ms - HICCUP_SLACK_MS;

    return w->store.recalls ? most / 2 : most;
}

static void demand(struct sim_world *w)
{
    int64_t most_ms;

    sim_check_demand(w);
    if (w->check.leader == SIM_NOBODY)
        return;
    most_ms = hiccup_ms(w, &w->members[w->check.leader].timing);
    if (most_ms > 0 && sim_chance(w, 500))
        sim_after(w, sim_roll(w, 0, w->lease_ms * SIM_MS), SIM_HICCUP, 0,
                  (uint64_t)sim_roll(w, 1, most_ms * SIM_MS));
}

static void begin_hiccup(struct sim_world *w, int64_t length_us)
{
    w->counts[SIM_HICCUPS]++;
    w->hiccup_until_us = w->now_us + length_us;
    sim_trace(w, "nothing gets through until %lld", (long long)(w->hiccup_until_us / SIM_MS));
}

static void finale(struct sim_world *w)
{
    sim_check_finale(w);
    w->over = true;
    for (int i = 0; i < w->member_count; i++) {
        if (w->check.seen[i].phase == SIM_UP) {
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
        sim_check_woken(w, event->who);
        sim_member_event(w, event->who, SB_EVENT_WAKE);
        break;
    case SIM_RESERVED:
        sim_check_woken(w, event->who);
        sim_member_event(w, event->who, SB_EVENT_RESERVED);
        sim_check_reserved(w, event->who, 1);
        break;
    case SIM_STANDBY: /* means nothing to one that makes no reservations */
        if (w->members[event->who].timing.reserve_ms > 0)
            sim_check_woken(w, event->who);
        sim_member_event(w, event->who, SB_EVENT_STANDBY);
        if (w->members[event->who].timing.reserve_ms > 0)
            sim_check_reserved(w, event->who, 3);
        break;
    case SIM_CHANGED:
        sim_member_event(w, event->who, SB_EVENT_CHANGED);
        break;
    case SIM_BEGIN:
        sim_member_begin(w, event->who);
        break;
    case SIM_RETURN:
        sim_member_return(w, event->who);
        break;
    case SIM_RETURNED:
        sim_member_returned(w, event->who);
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
    case SIM_REJOIN:
        sim_store_rejoin(w);
        break;
    case SIM_HEAL:
        heal(w);
        break;
    case SIM_DEMAND:
        demand(w);
        break;
    case SIM_HICCUP:
        begin_hiccup(w, (int64_t)event->argument);
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
        if (++w->counts[SIM_EVENTS] == EVENTS_MOST)
            sim_violate(w, "the machines run in circles");
    }
}

/* ---- A world --------------------------------------------------------------------------------- */

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
    w->close = false;
    w->slow = false;
    memset(w->fault_gap_us, 0, sizeof w->fault_gap_us);
    sim_draw(w);
    sim_draw_trace(w);
    sim_tell_start(w);
    begin(w);
    run(w);
    return w->check.violation[0] != '\0' ? w->check.violation : NULL;
}
