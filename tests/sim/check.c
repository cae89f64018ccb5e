/*
 * check.c - the judge. It sees beliefs in true time, callbacks, tokens and the store's history, and must not
 * look into a machine. The numbers are those of the invariants in docs/testing.md.
 *
 * A term that was taken away by force or with the store's data is void: nobody can protect it, so it may
 * overlap. But it must end within its lease, and its writes must bounce off the fenced resource.
 */
#include "sim.h"

#include <stdarg.h>
#include <string.h>

#define STOP_LATE_US (10 * SIM_MS)

void sim_violate(struct sim_world *w, const char *format, ...)
{
    va_list arguments;

    if (w->check.violation[0] != '\0')
        return; /* the first one tells the story */
    va_start(arguments, format);
    vsnprintf(w->check.violation, sizeof w->check.violation, format, arguments);
    va_end(arguments);
    sim_trace(w, "VIOLATION %s", w->check.violation);
}

static const char *id_of(const struct sim_world *w, int member)
{
    return w->members[member].id;
}

static bool believes(const struct sim_world *w, int member)
{
    return w->check.seen[member].until_us > w->now_us;
}

/* Somebody besides `member` who believes in a term that is not void, or SIM_NOBODY. */
static int other_believer(const struct sim_world *w, int member)
{
    for (int i = 0; i < w->member_count; i++) {
        if (i != member && believes(w, i) && w->check.seen[i].voided_us == 0)
            return i;
    }
    return SIM_NOBODY;
}

/* ---- Beliefs and tokens ----------------------------------------------------------------------- */

static bool was_granted(const struct sim_seen *seen, uint64_t token)
{
    for (size_t i = 0; i < SIM_GRANTS; i++) {
        if (seen->grants[i] == token)
            return true;
    }
    return false;
}

static void begin_term(struct sim_world *w, int member, uint64_t token)
{
    struct sim_check *c = &w->check;
    struct sim_seen *seen = &c->seen[member];

    if (token > seen->voided_to) {
        seen->voided_us = 0;
        seen->restored = false;
    }
    if (token <= seen->last_token)
        sim_violate(w, "8: %s believes anew with its old token %llu", id_of(w, member),
                    (unsigned long long)token);
    if (!was_granted(seen, token))
        sim_violate(w, "3: %s believes with token %llu, which the store did not give it",
                    id_of(w, member), (unsigned long long)token);
    if (token <= c->last_token && seen->voided_us == 0 && !w->options->beyond_drift)
        sim_violate(w, "3: %s has token %llu after %llu", id_of(w, member),
                    (unsigned long long)token, (unsigned long long)c->last_token);
    if (token > c->last_token)
        c->last_token = token;
    seen->last_token = token;
    seen->token = token;
    seen->term = ++c->terms;
    w->counts.terms++;
    sim_trace(w, "%s believes, token %llu", id_of(w, member), (unsigned long long)token);
}

static void check_overlap(struct sim_world *w, int member)
{
    int other = other_believer(w, member);

    if (other == SIM_NOBODY)
        return;
    w->counts.overlaps++;
    if (!w->options->beyond_drift && w->check.seen[member].voided_us == 0)
        sim_violate(w, "1: %s and %s believe at the same time", id_of(w, member), id_of(w, other));
}

static void check_voided(struct sim_world *w, int member, int64_t until_us)
{
    const struct sim_seen *seen = &w->check.seen[member];
    const struct sb_timing *t = &w->members[member].timing;
    int64_t lease_us = (t->ttl_ms + t->transition_ms) * SIM_MS;

    if (seen->voided_us != 0 && !seen->restored && !w->options->beyond_drift &&
        until_us > seen->voided_us + lease_us)
        sim_violate(w, "6: %s renews a lease that was taken away", id_of(w, member));
}

void sim_check_belief(struct sim_world *w, int member, int64_t until_us, uint64_t token)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (until_us <= w->now_us) {
        seen->until_us = 0;
        return;
    }
    if (!believes(w, member))
        begin_term(w, member, token);
    else if (token != seen->token)
        sim_violate(w, "3: %s changes its token from %llu to %llu within a term", id_of(w, member),
                    (unsigned long long)seen->token, (unsigned long long)token);
    if (until_us != seen->until_us) {
        check_voided(w, member, until_us);
        seen->tried = false;
    }
    seen->until_us = until_us;
    seen->loss_due_us = until_us;
    check_overlap(w, member);
}

void sim_check_ttl(struct sim_world *w, int member, int64_t ttl_us)
{
    if (ttl_us > 0)
        w->check.seen[member].ttl_us = ttl_us;
}

void sim_check_sent(struct sim_world *w, int member)
{
    w->check.seen[member].tried = true;
}

/* Whether the process has run all the time since `since_us`. */
static bool has_run_since(const struct sim_world *w, int member, int64_t since_us)
{
    return w->processes[w->members[member].process].paused_until_us < since_us;
}

/* A lease that runs out has been renewed in vain, whatever the callbacks do. */
static void check_effort(struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (!seen->tried && has_run_since(w, member, seen->ttl_us) && !w->options->beyond_drift)
        sim_violate(w, "10: %s let its lease run out without trying to renew it", id_of(w, member));
}

/* Whoever loses a lease by the clock is told before the store can grant another. */
static void check_told(struct sim_world *w, int granted)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_seen *seen = &w->check.seen[i];

        if (i != granted && seen->loss_due_us != 0 && seen->loss_due_us < w->now_us &&
            seen->voided_us == 0 && has_run_since(w, i, seen->loss_due_us))
            sim_violate(w, "2: the store grants %s before %s is told of its loss",
                        id_of(w, granted), id_of(w, i));
    }
}

void sim_check_crashed(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->until_us = 0;
    seen->acquired_told = false;
    seen->handing_over = false;
    seen->stopped = true;
    seen->loss_due_us = 0;
    seen->stop_by_us = 0;
    seen->owner_told[0] = '\0';
}

/* ---- The store's history ---------------------------------------------------------------------- */

/* `revision` 0: the mutex fell to it, and it has not asked for it yet. */
void sim_check_grant(struct sim_world *w, int member, uint64_t revision, bool old)
{
    struct sim_check *c = &w->check;
    struct sim_seen *seen = &c->seen[member];
    int other = other_believer(w, member);

    if (!w->options->beyond_drift) {
        if (other != SIM_NOBODY)
            sim_violate(w, "2: the store grants %s while %s believes", id_of(w, member),
                        id_of(w, other));
        check_told(w, member);
    }
    /* An old request may bring back what was taken away while the term is believed in. The machine cannot
     * tell; the tokens of others in between are larger than its own. */
    if (seen->voided_us != 0 && old)
        seen->restored = true;
    if (revision == 0)
        return;
    if (revision <= c->last_grant)
        sim_violate(w, "3: the store's revision goes back");
    c->last_grant = revision;
    seen->grants[seen->grant_count++ % SIM_GRANTS] = revision;
}

void sim_check_renewal(struct sim_world *w, int member)
{
    int other = other_believer(w, member);

    w->counts.renewals++;
    if (other != SIM_NOBODY && !w->options->beyond_drift)
        sim_violate(w, "2: the store renews %s while %s believes", id_of(w, member),
                    id_of(w, other));
}

void sim_check_release(struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (seen->voided_us != 0)
        return;
    if (believes(w, member))
        sim_violate(w, "6: the record of %s is released while it believes", id_of(w, member));
    if (seen->handing_over && seen->kept_until_us > w->now_us)
        sim_violate(w, "hand-over: the record of %s is released before on_released has returned",
                    id_of(w, member));
}

void sim_check_voided(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (believes(w, member))
        w->counts.voided++;
    seen->voided_us = w->now_us;
    seen->voided_to = w->check.last_grant;
}

void sim_check_write(struct sim_world *w, uint64_t token, uint64_t term)
{
    struct sim_check *c = &w->check;

    if (token < c->resource_token) {
        w->counts.refused_writes++;
        return;
    }
    w->counts.writes++;
    if (token == c->resource_token && term != c->resource_term)
        sim_violate(w, "fence: the resource takes writes of two terms with token %llu",
                    (unsigned long long)token);
    c->resource_token = token;
    c->resource_term = term;
}

/* ---- Callbacks and stops ---------------------------------------------------------------------- */

void sim_check_callback(struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];
    struct sim_seen *seen = &w->check.seen[member];

    if (seen->stopped)
        sim_violate(w, "4: a callback of %s begins after its stop", m->id);
    if (m->report_acquired && m->report_released)
        sim_violate(w, "4: %s is told of an acquisition and a loss at once", m->id);
    if (m->report_acquired && seen->acquired_told)
        sim_violate(w, "4: on_acquired of %s runs twice", m->id);
    if (m->report_released && !seen->acquired_told)
        sim_violate(w, "4: on_released of %s runs without on_acquired", m->id);
    seen->acquired_told = m->report_acquired || (seen->acquired_told && !m->report_released);
    memcpy(seen->owner_told, m->report.after.id, sizeof seen->owner_told);
}

void sim_check_lane_idle(struct sim_world *w, int member)
{
    w->check.seen[member].handing_over = false;
}

void sim_check_started(struct sim_world *w, int member)
{
    w->check.seen[member].stopped = false;
}

/* Whoever still owns when it is stopped hands over: its on_released returns before anybody else owns. */
void sim_check_stopping(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];
    int64_t timeout_us = w->members[member].timing.stop_timeout_ms * SIM_MS;

    seen->handing_over = believes(w, member);
    seen->kept_until_us = seen->until_us;
    seen->stop_by_us = w->now_us + timeout_us * 3 / 2 + STOP_LATE_US;
}

/* It still guards then, in silence. What its guards do not prove any more need not be kept. */
void sim_check_kept(struct sim_world *w, int member, int64_t until_us)
{
    w->check.seen[member].kept_until_us = until_us;
}

/* A process that does not run cannot stop in time. */
void sim_check_paused(struct sim_world *w, int process, int64_t until_us)
{
    for (int i = 0; i < w->member_count; i++) {
        struct sim_seen *seen = &w->check.seen[i];

        if (w->members[i].process == process && seen->stop_by_us != 0 &&
            seen->stop_by_us < until_us + STOP_LATE_US)
            seen->stop_by_us = until_us + STOP_LATE_US;
    }
}

static void check_stopped(struct sim_world *w, int member, const struct sb_step *step)
{
    const struct sim_member *m = &w->members[member];
    struct sim_seen *seen = &w->check.seen[member];

    if (w->now_us > seen->stop_by_us)
        sim_violate(w, "7: the stop of %s takes longer than its bound", m->id);
    if (step->deadline_ms != SIMBA_INFINITE)
        sim_violate(w, "7: %s leaves a timer behind", m->id);
    if (step->stop_code == SIMBA_OK && m->lane_busy)
        sim_violate(w, "4: the stop of %s returns while a callback runs", m->id);
    if (step->stop_code == SIMBA_OK && !m->observer && sim_store_has_left(w, member, m->starts))
        sim_violate(w, "7: %s leaves something on the store", m->id);
    if (step->stop_code == SIMBA_OK)
        w->counts.stops_ok++;
    else
        w->counts.stops_failed++;
    seen->stop_code = step->stop_code;
    seen->handing_over = false;
    seen->acquired_told = false;
    seen->stopped = true;
    seen->stop_by_us = 0;
}

void sim_check_step(struct sim_world *w, int member, const struct sb_event *event,
                    const struct sb_step *step)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (step->released) {
        w->counts.losses += event->type != SB_EVENT_STOP;
        if (seen->loss_due_us <= w->now_us)
            check_effort(w, member);
        seen->loss_due_us = 0;
    }
    if (step->stopped && seen->acquired_told && step->stop_code == SIMBA_OK)
        sim_violate(w, "4: %s stopped without on_released", id_of(w, member));
    if (step->stopped)
        check_stopped(w, member, step);
}

/* ---- Liveness -------------------------------------------------------------------------------- */

static bool could_lead(const struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];

    return !m->observer && !m->stuck && simba_status_is_active(sim_member_status(m));
}

void sim_check_demand(struct sim_world *w)
{
    bool candidate = false;

    w->check.leader = SIM_NOBODY;
    if (w->options->beyond_drift)
        return; /* an owner's clock may run too slow to renew in time */
    for (int i = 0; i < w->member_count; i++) {
        candidate |= could_lead(w, i);
        if (believes(w, i))
            w->check.leader = i;
    }
    if (candidate && w->check.leader == SIM_NOBODY)
        sim_violate(w, "9: nobody leads, long after all faults have healed");
    if (w->check.leader != SIM_NOBODY)
        w->check.leader_term = w->check.seen[w->check.leader].term;
}

/* Nothing is broken any more: who led when it was demanded leads on, and the observers know it. */
void sim_check_finale(struct sim_world *w)
{
    int leader = w->check.leader;

    if (leader == SIM_NOBODY)
        return;
    if (!believes(w, leader) || w->check.seen[leader].term != w->check.leader_term)
        sim_violate(w, "10: %s lost its lease on a good day", id_of(w, leader));
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (m->observer && !m->stuck && sim_member_status(m) == SIMBA_RUNNING &&
            strcmp(w->check.seen[i].owner_told, id_of(w, leader)) != 0)
            sim_violate(w, "9: %s does not see who leads", m->id);
    }
}

void sim_check_end(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];
        const struct sim_seen *seen = &w->check.seen[i];

        if (seen->stop_by_us != 0)
            sim_violate(w, "7: %s does not stop", m->id);
        if (!seen->asked_to_stop || m->stuck)
            continue;
        if (seen->stop_code != SIMBA_OK)
            sim_violate(w, "7: on a good day the stop of %s fails with %d", m->id, seen->stop_code);
        if (!m->observer && sim_store_has_left(w, i, m->starts))
            sim_violate(w, "7: %s has left something on the store", m->id);
    }
}
