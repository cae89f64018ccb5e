/*
 * member.c - drives one machine, with the duties that core/machine.h lists and in the order in
 * which the runtime does them: untold changes return at once, nothing begins after a stop.
 */
#include "sim.h"

#include <string.h>

#define TIMER_LATE_US (2 * SIM_MS)
#define DISPATCH_US (1 * SIM_MS)
#define POST_US 500

enum simba_status sim_member_status(const struct sim_member *m)
{
    return m->observer ? m->machine.observer.status : m->machine.contender.status;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void queue_report(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];

    if (!m->report.pending || m->report_queued)
        return;
    m->report_queued = true;
    if (!m->strand_busy)
        sim_after(w, sim_roll(w, 0, DISPATCH_US), SIM_BEGIN, member, 0);
}

static void run_callback(struct sim_world *w, int member, const struct sb_report *report)
{
    struct sim_member *m = &w->members[member];
    int64_t takes_us = sim_app_callback_us(w, member);

    sim_trace(w, "%s callback '%s' -> '%s'%s%s%s", m->id, report->state.before.id,
              report->state.after.id, report->acquired ? " acquired" : "",
              report->released ? " released" : "", takes_us == SIM_NEVER ? ", never returns" : "");
    sim_check_callback(w, member, report);
    m->strand_busy = true;
    if (takes_us == SIM_NEVER)
        m->stuck = true;
    else
        sim_after(w, takes_us, SIM_RETURN, member, 0);
}

void sim_member_begin(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];
    struct sb_report report = sb_report_take(&m->report);

    m->report_queued = false;
    if (report.pending)
        run_callback(w, member, &report);
}

/* The strand goes on at once; the machine is told through the inbox of its loop. */
void sim_member_return(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];

    m->strand_busy = false;
    if (m->report_queued)
        sim_after(w, sim_roll(w, 0, DISPATCH_US), SIM_BEGIN, member, 0);
    else
        sim_check_strand_idle(w, member);
    if (m->returned++ == 0)
        sim_after(w, sim_roll(w, 0, POST_US), SIM_RETURNED, member, 0);
}

void sim_member_returned(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];
    struct sb_event returned = {.type = SB_EVENT_RETURNED,
                                .now_ms = sim_process_ms(w, m->process),
                                .returned = m->returned};

    m->returned = 0;
    sim_check_prod(w, member);
    sim_member_drive(w, member, &returned);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void arm_timer(struct sim_world *w, int member, int64_t deadline_ms)
{
    struct sim_member *m = &w->members[member];
    int64_t at_us = sim_clock_true_us(&w->clocks[w->processes[m->process].host], deadline_ms);

    m->timer++;
    m->deadline_ms = deadline_ms;
    if (at_us == SIM_NEVER)
        return;
    if (at_us < w->now_us)
        at_us = w->now_us;
    sim_after(w, at_us - w->now_us + sim_roll(w, 0, TIMER_LATE_US), SIM_TICK, member, m->timer);
}

static void show_belief(struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];
    const struct sim_clock *clock = &w->clocks[w->processes[m->process].host];
    const struct sb_machine *machine = &m->machine.contender;

    if (m->observer)
        return;
    sim_check_belief(w, member, sim_clock_true_us(clock, sb_machine_belief_ms(machine)),
                     sim_clock_true_us(clock, sb_machine_ttl_ms(machine)),
                     sb_machine_fence(machine));
}

static void tell_stop(const struct sim_world *w, int member, const struct sb_event *event)
{
    const struct sim_member *m = &w->members[member];

    if (event->type == SB_EVENT_STOP && simba_status_is_active(sim_member_status(m)))
        sim_tell(w, "stop", member, "%s", "");
}

static void tell_step(const struct sim_world *w, int member, const struct sb_step *step)
{
    const struct sim_member *m = &w->members[member];
    const struct sb_machine *machine = &m->machine.contender;

    if (step->stopped)
        sim_tell(w, "stopped", member, "%s", "");
    if (!m->observer)
        sim_tell(w, "mind", member, " left=%lld token=%llu",
                 (long long)(sb_machine_belief_ms(machine) - sim_process_ms(w, m->process)),
                 (unsigned long long)sb_machine_fence(machine));
}

static void trace_step(const struct sim_world *w, int member, const struct sb_step *step)
{
    const struct sim_member *m = &w->members[member];

    if (w->options->trace == NULL)
        return;
    if (step->changed)
        sim_trace(w, "%s sees '%s' -> '%s'%s%s", m->id, step->state.before.id, step->state.after.id,
                  step->acquired ? ", acquired" : "", step->released ? ", released" : "");
    if (step->stopped)
        sim_trace(w, "%s stopped with %d", m->id, step->stop_code);
}

/* One step and all that it asks for. */
void sim_member_drive(struct sim_world *w, int member, const struct sb_event *event)
{
    struct sim_member *m = &w->members[member];
    struct sb_step step;
    unsigned untold;

    tell_stop(w, member, event);
    if (m->observer)
        sb_observer_step(&m->machine.observer, event, &step);
    else
        sb_machine_step(&m->machine.contender, event, &step);
    trace_step(w, member, &step);
    tell_step(w, member, &step);
    show_belief(w, member);
    untold = sb_report_keep(&m->report, &step);
    if (step.stopped || m->habits.mute)
        untold += sb_report_drop(&m->report);
    m->listening &= !step.stopped;
    sim_check_step(w, member, event, &step);
    arm_timer(w, member, step.deadline_ms);
    queue_report(w, member);
    w->counts[SIM_LOOKS] += step.request.op == SIMBA_OP_READ && m->follows;
    if (step.request.op != SIMBA_OP_NONE)
        sim_net_send(w, member, &step);
    if (untold > 0) {
        struct sb_event returned = {
            .type = SB_EVENT_RETURNED, .now_ms = event->now_ms, .returned = untold};
        sim_member_drive(w, member, &returned);
    }
}

void sim_member_event(struct sim_world *w, int member, enum sb_event_type type)
{
    struct sb_event event = {.type = type, .now_ms = sim_process_ms(w, w->members[member].process)};

    if (type == SB_EVENT_START)
        w->members[member].listening = true;
    if (type != SB_EVENT_TICK)
        sim_check_prod(w, member);
    sim_member_drive(w, member, &event);
}

void sim_member_tick(struct sim_world *w, int member, uint32_t timer)
{
    if (timer == w->members[member].timer)
        sim_member_event(w, member, SB_EVENT_TICK);
}

/* A new process begins with a new machine under the old id. */
void sim_member_reset(struct sim_world *w, int member)
{
    struct sim_member *m = &w->members[member];
    uint64_t seed = (uint64_t)sim_roll(w, 0, INT64_MAX);

    if (m->observer)
        sb_observer_init(&m->machine.observer, &m->timing, sim_roll(w, w->slow ? 400 : 20, 1000),
                         seed);
    else
        sb_machine_init(&m->machine.contender, &m->timing, seed);
    if (!m->observer && seed % 2 == 0)
        sb_machine_tell_renewals(&m->machine.contender);
    if (m->follows)
        sb_machine_follow(&m->machine.contender);
    m->timer++;
    m->generation = 0;
    m->deadline_ms = SIMBA_INFINITE;
    m->listening = false;
    m->told_revision = 0;
    m->report_queued = false;
    m->report.pending = false;
    m->strand_busy = false;
    m->returned = 0;
    m->stuck = false;
}
