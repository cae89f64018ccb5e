/*
 * check_live.c - the judge of liveness: a leader within the bound once the faults have healed, who
 * stays, and nothing left in the end.
 */
#include "sim.h"

#include <string.h>

bool sim_check_could_lead(const struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];

    return !m->observer && !m->stuck && w->check.seen[member].phase == SIM_UP;
}

/* Twins that only count changes take each other's for a third one's, and may both let go. */
static bool takes_turns_in_vain(const struct sim_world *w)
{
    return sim_has_twins(w) && !w->store.tells_fence;
}

void sim_check_demand(struct sim_world *w)
{
    bool candidate = false;

    w->check.leader = SIM_NOBODY;
    if (w->options->beyond_drift)
        return; /* an owner's clock may run too slow to renew in time */
    for (int i = 0; i < w->member_count; i++) {
        candidate |= sim_check_could_lead(w, i);
        if (sim_check_believes(w, i))
            w->check.leader = i;
    }
    if (candidate && w->check.leader == SIM_NOBODY && !takes_turns_in_vain(w))
        sim_violate(w, "9: nobody leads, long after all faults have healed");
    if (sim_has_twins(w))
        w->check.leader = SIM_NOBODY; /* the other one may come at any time */
    if (w->check.leader != SIM_NOBODY)
        w->check.leader_term = w->check.seen[w->check.leader].term;
}

/* Nothing is broken any more: who led when it was demanded leads on, and the observers know it. */
void sim_check_finale(struct sim_world *w)
{
    int leader = w->check.leader;

    if (leader == SIM_NOBODY)
        return;
    if (!sim_check_believes(w, leader) || w->check.seen[leader].term != w->check.leader_term)
        sim_violate(w, "10: %s lost its lease on a good day", w->members[leader].id);
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];

        if (m->observer && !m->stuck && w->check.seen[i].phase == SIM_UP &&
            strcmp(w->check.seen[i].owner_told, w->members[leader].id) != 0)
            sim_violate(w, "9: %s does not see who leads", m->id);
    }
}

void sim_check_end(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_member *m = &w->members[i];
        const struct sim_seen *seen = &w->check.seen[i];

        if (seen->phase != SIM_DOWN)
            sim_violate(w, "7: %s does not stop", m->id);
        if (!seen->asked_to_stop || m->stuck)
            continue;
        if (seen->stop_code == SIMBA_ELOST && (sim_has_twins(w) || w->options->beyond_drift))
            continue; /* a twin has its term, or the lease ended first */
        if (seen->stop_code != SIMBA_OK)
            sim_violate(w, "7: on a good day the stop of %s fails with %d", m->id, seen->stop_code);
        if (!m->observer && sim_store_has_left(w, i, m->starts))
            sim_violate(w, "7: %s has left something on the store", m->id);
    }
}
