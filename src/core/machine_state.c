/*
 * machine_state.c - the state of a contention machine: how it is made, what it tells its driver,
 * the moves that several events make, and the rules that hold after every step.
 */
#include "core/machine_state.h"

#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define CALLBACKS_MAX 4

void sb_machine_init(struct sb_machine *m, const struct sb_timing *timing, uint64_t seed)
{
    SB_CHECK(timing->ttl_ms > 0 && timing->transition_ms >= 0, "a lease lasts for some time");
    SB_CHECK(timing->margin_ms > 0, "a lease has a margin for clocks that drift");
    SB_CHECK(timing->jitter_min_ms <= timing->jitter_max_ms, "a jitter has its bounds in order");
    SB_CHECK(timing->initial_delay_ms >= 0 && timing->stop_timeout_ms >= 0 &&
                 timing->turn_ms >= 0 && timing->reserve_ms >= 0 && timing->read_ms >= 0,
             "no time to wait is negative");
    memset(m, 0, sizeof *m);
    m->timing = timing;
    m->random = seed;
    m->status = SIMBA_INITIAL;
    m->read_at_ms = SIMBA_INFINITE;
}

void sb_machine_tell_renewals(struct sb_machine *m)
{
    SB_CHECK(m->generation == 0, "renewals are asked for before the first step");
    m->tells_renewals = true;
}

void sb_machine_follow(struct sb_machine *m)
{
    SB_CHECK(m->generation == 0, "a contender follows from the first step on, or never");
    m->follows = true;
}

int64_t sb_machine_belief_ms(const struct sb_machine *m)
{
    return sb_machine_believes(m) ? m->lease_until_ms : 0;
}

int64_t sb_machine_ttl_ms(const struct sb_machine *m)
{
    return sb_earlier(m->owner.ttl_at_ms, sb_machine_belief_ms(m));
}

uint64_t sb_machine_fence(const struct sb_machine *m)
{
    SB_CHECK(!sb_machine_believes(m) || m->fence != 0, "every term has a token");
    return sb_machine_believes(m) ? m->fence : 0;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

void sb_machine_set_status(struct sb_machine *m, enum simba_status status)
{
    SB_CHECK(sb_status_may_move(m->status, status), "a status moves as the table says");
    m->status = status;
}

void sb_machine_set_owner(struct sb_machine *m, const struct simba_owner *owner,
                          struct sb_step *step)
{
    bool is_same = strcmp(m->owner.id, owner->id) == 0;

    SB_CHECK(owner->id[0] != '\0' || owner->fence == 0, "nobody has no token");
    if (!sb_machine_is_active(m))
        return;
    step->confirmed = is_same && !step->changed;
    if (!is_same) {
        if (!step->changed) {
            step->changed = true;
            step->state.before = m->owner;
        }
        step->state.after = *owner;
    }
    m->owner = *owner;
}

void sb_machine_lose(struct sb_machine *m, const struct simba_owner *owner, int64_t now_ms,
                     struct sb_step *step)
{
    SB_CHECK(m->held, "only a holder loses");
    SB_CHECK(!step->acquired, "a term that a step begins does not end in it");
    m->held = false;
    m->failures = 0;
    m->attempt_at_ms = now_ms;
    sb_machine_set_owner(m, owner, step);
    step->released |= m->status == SIMBA_RUNNING;
}

void sb_machine_finish(struct sb_machine *m, int code, struct sb_step *step)
{
    SB_CHECK(!step->stopped, "a stop ends once");
    SB_CHECK(m->callbacks == 0 || code == SIMBA_ETIMEDOUT,
             "only a stop that is given up ends under a callback");
    sb_machine_set_status(m, SIMBA_INITIAL);
    m->held = false;
    m->in_flight = SIMBA_OP_NONE;
    step->stopped = true;
    step->stop_code = m->lost && code != SIMBA_ETIMEDOUT ? SIMBA_ELOST : code;
    m->ends_term = false;
    m->lost = false;
    m->leaves = false;
}

void sb_machine_find_gone(struct sb_machine *m)
{
    SB_CHECK(!m->ends_term || m->status == SIMBA_STOPPING, "only a stop ends a term");
    m->lost |= m->ends_term;
    m->ends_term = false;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

const char *sb_machine_broken_rule(const struct sb_machine *m)
{
    if (m->status == SIMBA_INITIAL && (m->held || m->in_flight != SIMBA_OP_NONE))
        return "a stopped machine holds nothing and waits for nothing";
    if (m->status == SIMBA_STARTING && m->held)
        return "nobody owns before the store has answered";
    if (m->held && m->claim == SB_CLAIM_NONE)
        return "a holder has a record on the store";
    if (m->held && m->fence == 0)
        return "every term has a token";
    if (m->held && m->claim == SB_CLAIM_MINE && m->revision < m->fence)
        return "a record's revision never goes below the term's token";
    if (m->callbacks > CALLBACKS_MAX)
        return "at most an acquisition, its loss, the next owner and a stop are owed to the "
               "application";
    if (m->give_back && (m->held || m->claim != SB_CLAIM_MINE))
        return "only a record that is not believed in is given back";
    if (m->give_back && m->in_flight != SIMBA_OP_NONE && m->in_flight != SIMBA_OP_RELEASE)
        return "what is given back is released before anything else is asked for";
    if (m->read_at_ms != SIMBA_INFINITE && (!m->follows || m->held))
        return "only a contender that follows reads, and only while it waits";
    if (m->reading && m->in_flight == SIMBA_OP_READ && (!m->follows || m->held))
        return "a READ of a follower is under way only while it waits";
    if (sb_machine_believes(m) && m->owner.id[0] == '\0')
        return "a holder is known as the owner";
    if ((m->held || m->in_flight != SIMBA_OP_NONE) && !m->touched)
        return "what is held or awaited was asked for";
    if (m->in_flight == SIMBA_OP_ACQUIRE && (m->held || m->rival))
        return "neither an owner nor a contender that waits for its rival acquires";
    if (m->in_flight == SIMBA_OP_ACQUIRE && sb_machine_is_active(m) && m->tells_term)
        return "a contender acquires when the callbacks of its last term have returned";
    if (m->in_flight == SIMBA_OP_RELEASE && sb_machine_is_active(m) && !m->give_back)
        return "an active contender releases only what it gives back";
    if (m->in_flight == SIMBA_OP_RELEASE && m->claim == SB_CLAIM_NONE && m->callbacks > 0)
        return "the wait queue is left when the callbacks have returned";
    if (m->in_flight == SIMBA_OP_READ && m->held && !sb_machine_asks_before_release(m))
        return "a holder reads only when a stop does not know its record";
    if (m->tells_term && m->callbacks == 0)
        return "only callbacks that are owed tell of a term";
    if (m->rival && m->held)
        return "a contender that waits for its rival holds nothing";
    if ((m->held || m->ends_term || m->claim == SB_CLAIM_MINE) && m->revision == 0)
        return "a record that is known has a revision";
    if ((m->ends_term || m->lost || m->leaves) && m->status != SIMBA_STOPPING)
        return "only a stop ends a term";
    return NULL;
}
