/*
 * fault.c - what goes wrong besides the network. Each kind strikes again and again until the faults
 * heal; whatever lasts is over by then.
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

/* Whether anybody is there to be struck. */
static bool is_busy(const struct sim_world *w, int process)
{
    for (int i = 0; i < w->member_count; i++) {
        if (w->members[i].process == process && w->check.seen[i].phase != SIM_DOWN)
            return true;
    }
    return false;
}

static void count(struct sim_world *w, enum sim_fault fault, bool struck)
{
    w->counts[SIM_FAULTS + fault] += struck;
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

static void end_process(struct sim_world *w, int process)
{
    struct sim_process *p = &w->processes[process];

    p->life++;
    p->paused_until_us = 0;
    p->session = 0;
    p->proved_ms = 0;
    p->known_us = 0;
    for (int i = 0; i < w->member_count; i++) {
        if (w->members[i].process != process)
            continue;
        sim_tell(w, "crash", i, "%s", "");
        sim_check_crashed(w, i);
        sim_member_reset(w, i);
    }
}

/* The process dies and another one takes its place, with the same ids. */
static void crash(struct sim_world *w, int process)
{
    if (w->processes[process].dead)
        return;
    sim_trace(w, "p%d crashes", process);
    end_process(w, process);
    for (int i = 0; i < w->member_count; i++) {
        if (w->members[i].process != process)
            continue;
        sim_after(w, sim_roll(w, 0, RESTART_US), SIM_APP, i, 0);
        sim_after(w, sim_roll(w, 0, RESTART_US), SIM_WRITE, i, 0);
    }
    if (w->store.kind == SIM_SESSION)
        sim_after(w, 0, SIM_PING, process, 0);
}

/* Whether a contender lives elsewhere. */
static bool is_dispensable(const struct sim_world *w, int process)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (!m->observer && m->process != process && !w->processes[m->process].dead)
            return true;
    }
    return false;
}

static bool kill_process(struct sim_world *w, int process)
{
    if (w->processes[process].dead || !is_dispensable(w, process))
        return false;
    sim_trace(w, "p%d dies", process);
    end_process(w, process);
    w->processes[process].dead = true;
    return true;
}

/* The worst moment: the owner has perhaps just renewed its lease when the faults heal. */
void sim_fault_kill_owner(struct sim_world *w)
{
    int owner = sim_store_owner(w);

    if (owner != SIM_NOBODY && kill_process(w, w->members[owner].process))
        w->counts[SIM_OWNERS_KILLED]++;
}

static void take_down(struct sim_world *w)
{
    w->store.down_until_us = draw_end(w);
    sim_trace(w, "store: down until %lld", (long long)(w->store.down_until_us / SIM_MS));
}

/* Faults of the store. */
static void strike_store(struct sim_world *w, enum sim_fault fault)
{
    bool owned = sim_store_owner(w) != SIM_NOBODY;

    count(w, fault, owned);
    if (fault != SIM_FAULT_FORCE_RELEASE)
        take_down(w);
    if (fault == SIM_FAULT_DATA_LOSS)
        sim_store_lose_data(w);
    if (fault == SIM_FAULT_FORCE_RELEASE)
        sim_store_force_release(w);
}

/* Only a store of replicas has another server to offer. */
static void depose(struct sim_world *w)
{
    if (w->store.deposed_until_us > w->now_us)
        return;
    count(w, SIM_FAULT_DEPOSE, sim_store_owner(w) != SIM_NOBODY);
    w->store.deposed_until_us = draw_end(w);
    sim_store_depose(w);
    sim_after(w, w->store.deposed_until_us - w->now_us, SIM_REJOIN, 0, 0);
}

static void strike_host(struct sim_world *w)
{
    int process = draw_process(w);

    count(w, SIM_FAULT_SUSPEND, is_busy(w, process));
    suspend(w, w->processes[process].host, draw_end(w));
}

static void strike(struct sim_world *w, enum sim_fault fault)
{
    int process = draw_process(w);

    switch (fault) {
    case SIM_FAULT_PARTITION:
        count(w, fault, is_busy(w, process));
        cut(w, process, draw_end(w));
        break;
    case SIM_FAULT_PAUSE:
        count(w, fault, is_busy(w, process));
        pause(w, process, draw_end(w));
        break;
    case SIM_FAULT_SUSPEND:
        strike_host(w);
        break;
    case SIM_FAULT_CRASH:
        count(w, fault, is_busy(w, process));
        crash(w, process);
        break;
    case SIM_FAULT_DEATH:
        count(w, fault, is_busy(w, process) && kill_process(w, process));
        break;
    case SIM_FAULT_STORE_DOWN:
    case SIM_FAULT_DATA_LOSS:
    case SIM_FAULT_FORCE_RELEASE:
        strike_store(w, fault);
        break;
    case SIM_FAULT_FALSE_WAKE:
        count(w, fault, is_busy(w, process));
        sim_net_wake(w, (int)sim_roll(w, 0, w->member_count));
        break;
    case SIM_FAULT_DEPOSE:
        depose(w);
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
    strike(w, fault);
    sim_fault_plan(w, fault);
}
