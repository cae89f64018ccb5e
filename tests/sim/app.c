/*
 * app.c - the application around a contender: when it starts and stops, how long its callbacks
 * take, and what it does while it believes. It must not look into the machine.
 */
#include "sim.h"

#include <string.h>

#define WRITE_GAP_US (400 * SIM_MS)
#define RESOURCE_DELAY_US (300 * SIM_MS)
#define TURN_LEAST_US 500
#define CALM_US (3 * SIM_MS)

/* A call that does not fit the status must be refused and change nothing, the deadline included. */
static void try_illegal(struct sim_world *w, int member, enum sb_event_type type)
{
    struct sim_member *m = &w->members[member];
    struct sim_member before = *m;
    struct sb_event event = {.type = type, .now_ms = sim_process_ms(w, m->process)};
    struct sb_step step;
    int code = m->observer ? sb_observer_step(&m->machine.observer, &event, &step)
                           : sb_machine_step(&m->machine.contender, &event, &step);

    w->counts[SIM_ILLEGAL_CALLS]++;
    if (code != SIMBA_ESTATE || memcmp(&before.machine, &m->machine, sizeof before.machine) != 0 ||
        step.request.op != SIMBA_OP_NONE || step.changed || step.stopped ||
        step.deadline_ms != m->deadline_ms)
        sim_violate(w, "lifecycle: %s took a call that does not fit its status", m->id);
}

void sim_app_start(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];

    if (sim_member_status(m) != SIMBA_INITIAL) {
        try_illegal(w, member, SB_EVENT_START);
        return;
    }
    m->starts++;
    m->generation++;
    sim_trace(w, "%s start %u", m->id, m->starts);
    sim_check_started(w, member);
    sim_member_event(w, member, SB_EVENT_START);
}

void sim_app_stop(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];

    if (!simba_status_is_active(sim_member_status(m))) {
        try_illegal(w, member, SB_EVENT_STOP);
        return;
    }
    sim_trace(w, "%s stop", m->id);
    sim_check_stopping(w, member);
    sim_member_event(w, member, SB_EVENT_STOP);
}

void sim_app_next_turn(struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];
    bool active = simba_status_is_active(sim_member_status(m));
    int64_t most_us = active ? m->habits.run_us : m->habits.rest_us;

    if (m->habits.run_us > 0)
        sim_after(w, TURN_LEAST_US + sim_roll(w, 0, most_us), SIM_APP, member, 0);
}

/* The storms end when the faults do. */
void sim_app_turn(struct sim_world *w, int member)
{
    if (w->healed)
        return;
    if (sim_member_status(&w->members[member]) == SIMBA_INITIAL)
        sim_app_start(w, member);
    else
        sim_app_stop(w, member);
    sim_app_next_turn(w, member);
}

int64_t sim_app_callback_us(struct sim_world *w, int member)
{
    const struct sim_habits *h = &w->members[member].habits;

    if (w->healed)
        return sim_roll(w, 0, CALM_US);
    if (sim_chance(w, h->stop_inside_permille)) {
        w->counts[SIM_STOPS_INSIDE]++;
        sim_after(w, sim_roll(w, 0, h->callback_us), SIM_STOP, member, 0);
    }
    if (sim_chance(w, h->stuck_permille)) {
        w->counts[SIM_STUCK_CALLBACKS]++;
        return SIM_NEVER;
    }
    if (sim_chance(w, h->slow_permille)) {
        int64_t most_us = w->heal_us - w->now_us;
        int64_t takes_us = sim_roll(w, 0, 2 * w->lease_ms * SIM_MS);

        w->counts[SIM_SLOW_CALLBACKS]++;
        return takes_us < most_us ? takes_us : most_us;
    }
    return sim_roll(w, 0, h->callback_us);
}

/* A leader writes with its token. The write may reach the resource long after the belief has
 * ended. */
void sim_app_write(struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];
    int64_t delay_us = sim_chance(w, 100) ? RESOURCE_DELAY_US * 10 : RESOURCE_DELAY_US;
    int64_t gap_us = w->slow ? w->lease_ms * SIM_MS / 4 : WRITE_GAP_US;

    if (seen->until_us > w->now_us) {
        sim_trace(w, "%s writes with token %llu", w->members[member].id,
                  (unsigned long long)seen->token);
        sim_after(w, sim_roll(w, 0, delay_us), SIM_RESOURCE, (int)seen->term, seen->token);
    }
    if (!w->over)
        sim_after(w, sim_roll(w, 1, 2 * gap_us), SIM_WRITE, member, 0);
}
