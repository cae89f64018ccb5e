/*
 * check_told.c - the judge of what the application is told: acquisitions and losses, each once, in
 * order, with the right names and tokens, and in time.
 */
#include "sim.h"

#include <string.h>

static const char *id_of(const struct sim_world *w, int member)
{
    return w->members[member].id;
}

/* Whether a callback of the member runs or is about to. */
static bool is_being_told(const struct sim_member *m)
{
    return m->strand_busy || m->report_queued || m->report.pending;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void check_alternation(struct sim_world *w, int member, const struct sb_report *report)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (seen->phase == SIM_DOWN)
        sim_violate(w, "4: a callback of %s begins after its stop", id_of(w, member));
    if (report->acquired && report->released)
        sim_violate(w, "4: %s is told of an acquisition and a loss at once", id_of(w, member));
    if (report->acquired && seen->acquired_told)
        sim_violate(w, "4: on_acquired of %s runs twice", id_of(w, member));
    if (report->released && !seen->acquired_told)
        sim_violate(w, "4: on_released of %s runs without on_acquired", id_of(w, member));
}

static bool is_me(const struct sim_world *w, int member, const struct simba_owner *owner)
{
    return strcmp(owner->id, id_of(w, member)) == 0 &&
           owner->fence == w->check.seen[member].last_token;
}

/* What a callback is handed continues what the last one was handed. */
static void check_words(struct sim_world *w, int member, const struct sb_report *report)
{
    const struct sim_seen *seen = &w->check.seen[member];
    const struct simba_state *state = &report->state;

    if (strcmp(state->before.id, seen->owner_told) != 0 ||
        (w->members[member].observer && state->before.fence != seen->fence_told))
        sim_violate(w, "4: %s was told of '%s' and now hears that it was '%s'", id_of(w, member),
                    seen->owner_told, state->before.id);
    if (report->acquired && !is_me(w, member, &state->after))
        sim_violate(w, "4: on_acquired of %s tells of no term of its own", id_of(w, member));
    if (report->released && !is_me(w, member, &state->before))
        sim_violate(w, "4: on_released of %s tells of another term", id_of(w, member));
}

void sim_check_callback(struct sim_world *w, int member, const struct sb_report *report)
{
    struct sim_seen *seen = &w->check.seen[member];

    check_alternation(w, member, report);
    check_words(w, member, report);
    seen->acquired_told = report->acquired || (seen->acquired_told && !report->released);
    memcpy(seen->owner_told, report->state.after.id, sizeof seen->owner_told);
    seen->fence_told = report->state.after.fence;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void sim_check_step(struct sim_world *w, int member, const struct sb_event *event,
                    const struct sb_step *step)
{
    const struct sim_member *m = &w->members[member];
    struct sim_seen *seen = &w->check.seen[member];

    if (step->changed) {
        seen->reports++;
        memcpy(seen->owner_named, step->state.after.id, sizeof seen->owner_named);
        seen->fence_named = step->state.after.fence;
    }
    w->counts[SIM_LOSSES] += step->released && event->type != SB_EVENT_STOP;
    if (sim_check_believes(w, member) && !m->habits.mute && !seen->acquired_told &&
        !is_being_told(m))
        sim_violate(w, "4: %s owns and is not told", m->id);
    if (step->stopped)
        sim_check_stopped(w, member, step);
}

/* A contender that loses a lease by the clock is told before the store can grant another. */
void sim_check_losses_told(struct sim_world *w, int granted)
{
    for (int i = 0; i < w->member_count; i++) {
        const struct sim_seen *seen = &w->check.seen[i];

        if (i != granted && seen->acquired_told && !sim_check_believes(w, i) &&
            !is_being_told(&w->members[i]) && seen->voided_us == 0 && seen->deposed_us == 0 &&
            sim_check_has_run(w, i, seen->last_until_us))
            sim_violate(w, "2: the store grants %s before %s is told of its loss",
                        id_of(w, granted), id_of(w, i));
    }
}

/* Once it is known that a term is over, nobody believes in it any more. */
void sim_check_deposed(struct sim_world *w, int member, uint64_t term, const char *why)
{
    if (term != 0 && w->check.seen[member].term == term && sim_check_believes(w, member))
        sim_violate(w, "2: %s believes on after %s", id_of(w, member), why);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static bool names_other(const struct sim_seen *seen, const struct sb_event *event, bool observer)
{
    if (event->answer == SB_ANSWER_NOBODY)
        return seen->owner_named[0] != '\0';
    return strcmp(seen->owner_named, event->owner) != 0 ||
           (observer && seen->fence_named != event->fence);
}

/* What the store said of the owner is what the machine names; an older start's answer says nothing.
 * `before` is how the member stood when the answer came. */
void sim_check_answer_told(struct sim_world *w, const struct sim_request *r,
                           const struct sb_event *event, const struct sim_seen *before)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_seen *seen = &w->check.seen[r->member];

    if (m->observer && r->start != m->starts && seen->reports != before->reports)
        sim_violate(w, "5: %s tells what an older start of it asked", m->id);
    if (!sim_request_is_current(w, r) || seen->phase != SIM_UP)
        return;
    if ((event->answer == SB_ANSWER_OTHER || event->answer == SB_ANSWER_NOBODY) &&
        names_other(seen, event, m->observer))
        sim_violate(w, "9: %s hears that '%s' owns and tells of '%s'", m->id, event->owner,
                    seen->owner_named);
}
