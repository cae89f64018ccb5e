/*
 * fault.c - what goes wrong besides the network. Each kind strikes again and again until the faults heal;
 * whatever lasts is over by then.
 */
#include "sim.h"

#define RESTART_US (500 * SIM_MS)

static int64_t draw_end(struct sim_world *w)
{
    int64_t end_us = w->now_us + sim_roll(w, 1, 3 * w->lease_ms * SIM_MS);

    return end_us < w->heal_us ? end_us : w->heal_us;
}

static int draw_process(struct sim_world *w)
{
    return (int)sim_roll(w, 0, w->process_count);
}

static void pause(struct sim_world *w, int process, int64_t until_us)
{
    struct sim_process *p = &w->processes[process];

    if (p->paused_until_us < until_us)
        p->paused_until_us = until_us;
    sim_check_paused(w, process, until_us);
    sim_trace(w, "p%d pauses until %lld", process, (long long)(until_us / SIM_MS));
}

static void suspend(struct sim_world *w, int host, int64_t until_us)
{
    for (int i = 0; i < w->process_count; i++) {
        if (w->processes[i].host == host)
            pause(w, i, until_us);
    }
}

static void cut(struct sim_world *w, int process, int64_t until_us)
{
    w->processes[process].cut_until_us = until_us;
    sim_trace(w, "p%d is cut off until %lld", process, (long long)(until_us / SIM_MS));
}

/* The process dies and another one takes its place, with the same ids. */
static void crash(struct sim_world *w, int process)
{
    struct sim_process *p = &w->processes[process];

    sim_trace(w, "p%d crashes", process);
    p->life++;
    p->paused_until_us = 0;
    p->session = 0;
    p->proved_ms = 0;
    p->known_us = 0;
    for (int i = 0; i < w->member_count; i++) {
        if (w->members[i].process != process)
            continue;
        sim_check_crashed(w, i);
        sim_member_reset(w, i);
        sim_after(w, sim_roll(w, 0, RESTART_US), SIM_APP, i, 0);
        sim_after(w, sim_roll(w, 0, RESTART_US), SIM_WRITE, i, 0);
    }
    if (w->store.kind == SIM_SESSION)
        sim_after(w, 0, SIM_PING, process, 0);
}

static void take_down(struct sim_world *w)
{
    w->store.down_until_us = draw_end(w);
    sim_trace(w, "store: down until %lld", (long long)(w->store.down_until_us / SIM_MS));
}

static void strike(struct sim_world *w, enum sim_fault fault)
{
    switch (fault) {
    case SIM_FAULT_PARTITION:
        cut(w, draw_process(w), draw_end(w));
        break;
    case SIM_FAULT_PAUSE:
        pause(w, draw_process(w), draw_end(w));
        break;
    case SIM_FAULT_SUSPEND:
        suspend(w, (int)sim_roll(w, 0, w->host_count), draw_end(w));
        break;
    case SIM_FAULT_CRASH:
        crash(w, draw_process(w));
        break;
    case SIM_FAULT_STORE_DOWN:
        take_down(w);
        break;
    case SIM_FAULT_DATA_LOSS:
        take_down(w);
        sim_store_lose_data(w);
        break;
    case SIM_FAULT_FORCE_RELEASE:
        sim_store_force_release(w);
        break;
    case SIM_FAULT_FALSE_WAKE:
        sim_net_wake(w, (int)sim_roll(w, 0, w->member_count));
        break;
    case SIM_FAULT_COUNT:
        break;
    }
}

void sim_fault_plan(struct sim_world *w, enum sim_fault fault)
{
    if (w->fault_gap_us[fault] > 0)
        sim_after(w, sim_roll(w, 1, 2 * w->fault_gap_us[fault]), SIM_FAULT, (int)fault, 0);
}

void sim_fault_strike(struct sim_world *w, enum sim_fault fault)
{
    if (w->healed)
        return;
    w->counts.faults[fault]++;
    strike(w, fault);
    sim_fault_plan(w, fault);
}
