/*
 * machine.c - the steps of the contention machine. Together with machine_state.c and
 * machine_reply.c it owns the rules of a contest; it must not know clocks, threads, stores or
 * memory.
 *
 * Every step has the same shape: a belief that has run out ends first, then the event is taken in,
 * then the next request is planned, then the next tick is named. So no order of events can stretch
 * a belief, and no event has to think of requests.
 *
 *     RUNNING, not held   ACQUIRE when due and no callback of a term is owed; READ if it follows
 *     RUNNING, held       GUARD from ttl_at on, with back-off, until lease_until ends the belief
 *     STOPPING            GUARD while on_released runs, RELEASE of the exact record, done;
 *                         a READ before it where a lost reply left the record unknown;
 *                         no RELEASE where the term is to stay on the store
 *
 * Only a belief ends by the clock. A stopping contender no longer believes that it owns. It still
 * renews, without telling anybody, until the store names another owner: so a clean-up that takes
 * longer than the lease can become exclusive again.
 */
#include "core/machine_state.h"

#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define REQUEST_TIMEOUT_MIN_MS 10
#define STANDBY_RESERVATIONS 3 /* see on_reserved */

static const struct simba_owner nobody = SIMBA_OWNER_NONE;

/* ---- Events ---------------------------------------------------------------------------------- */

/* Self-fencing: the belief ends by the clock alone, before the store can grant another
 * contender. */
static void expire(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    if (sb_machine_believes(m) && now_ms >= m->lease_until_ms)
        sb_machine_lose(m, &nobody, now_ms, step);
}

static void on_start(struct sb_machine *m, int64_t now_ms)
{
    SB_CHECK(!m->held && m->in_flight == SIMBA_OP_NONE,
             "a start finds nothing of the last contest");
    sb_machine_set_status(m, SIMBA_STARTING);
    m->generation++;
    m->tells_term = m->callbacks > 0;
    m->claim = SB_CLAIM_NONE;
    m->failures = 0;
    m->touched = false;
    m->woken = false;
    m->give_back = false;
    m->doubt = false;
    m->rival = false;
    m->read_at_ms = SIMBA_INFINITE;
    m->last_code = SIMBA_OK;
    m->owner = nobody;
    m->attempt_at_ms = sb_later(now_ms, m->timing->initial_delay_ms);
}

/* on_released runs first, while the lease is still guarded; the release comes when it has
 * returned. */
static void on_stop(struct sb_machine *m, int64_t now_ms, bool leaves, struct sb_step *step)
{
    SB_CHECK(!m->ends_term && !m->lost, "a stop begins once");
    sb_machine_set_owner(m, &nobody, step);
    step->released |= m->held;
    m->ends_term = step->released;
    m->leaves = leaves && step->released;
    sb_machine_set_status(m, SIMBA_STOPPING);
    m->failures = 0;
    m->stop_at_ms = sb_later(now_ms, m->timing->stop_timeout_ms);
}

/* Only guards can have failed while the callbacks of a stop ran. The release that waited for them
 * is due at once. */
static void on_returned(struct sb_machine *m, unsigned returned)
{
    SB_CHECK(returned <= m->callbacks, "only callbacks that were asked for return");
    m->callbacks -= returned;
    m->tells_term &= m->callbacks > 0; /* merged ones return out of order: wait for all */
    if (m->status == SIMBA_STOPPING && m->callbacks == 0)
        m->failures = 0;
}

static void on_wake(struct sb_machine *m, int64_t now_ms)
{
    if (!sb_machine_is_active(m) || m->held || !m->touched)
        return;
    if (m->in_flight != SIMBA_OP_NONE)
        m->woken = true;
    else
        m->attempt_at_ms = sb_earlier(m->attempt_at_ms, now_ms);
}

/* The waiter before this one may acquire until its reservation ends. After that it is this one's
 * turn. The last of the queue comes in case the first two hang. In a crowd it is told once in the
 * length of a reservation, and so waits for three of them:
 *
 *     told          another release                                    tries
 *       |- reservation -|- reserved for the first -|- the second tries -|
 */
static void on_reserved(struct sb_machine *m, int reservations, int64_t now_ms)
{
    int64_t left_ms = reservations * m->timing->reserve_ms;
    int64_t over_ms = sb_machine_reservation_over_ms(m, left_ms, 1, now_ms);

    if (reservations > 1 && left_ms == 0)
        return; /* without reservations of its own it would come at once, and jump the queue */
    if (!sb_machine_is_active(m) || m->held || !m->touched)
        return;
    if (m->in_flight != SIMBA_OP_NONE)
        m->woken = true; /* its answer may be older */
    else
        m->attempt_at_ms = sb_earlier(m->attempt_at_ms, over_ms);
}

/* Only a waiting follower reads: an owner knows the owner, and a start learns it from its first
 * answer. */
static void on_changed(struct sb_machine *m, int64_t now_ms)
{
    if (m->follows && m->status == SIMBA_RUNNING && !m->held)
        m->read_at_ms = sb_earlier(m->read_at_ms, now_ms);
}

/* Requests in flight belong to the session that ended, so a new generation begins. */
static void on_session_lost(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    if (m->status == SIMBA_INITIAL)
        return;
    if (m->in_flight == SIMBA_OP_RELEASE)
        m->ends_term = false; /* perhaps it was given back before */
    sb_machine_find_gone(m);
    m->generation++;
    m->in_flight = SIMBA_OP_NONE;
    m->claim = SB_CLAIM_NONE;
    m->give_back = false;
    m->doubt = false;
    m->rival = false;
    if (m->held)
        sb_machine_lose(m, &nobody, now_ms, step);
    else if (m->touched)
        m->attempt_at_ms = now_ms;
    SB_CHECK(!m->held, "nothing of a lost session is held");
}

static void take_in(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    switch (e->type) {
    case SB_EVENT_START:
        on_start(m, e->now_ms);
        break;
    case SB_EVENT_STOP:
        on_stop(m, e->now_ms, e->leaves, step);
        break;
    case SB_EVENT_REPLY:
        sb_machine_take_reply(m, e, step);
        break;
    case SB_EVENT_WAKE:
        on_wake(m, e->now_ms);
        break;
    case SB_EVENT_CHANGED:
        on_changed(m, e->now_ms);
        break;
    case SB_EVENT_RESERVED:
        on_reserved(m, 1, e->now_ms);
        break;
    case SB_EVENT_STANDBY:
        on_reserved(m, STANDBY_RESERVATIONS, e->now_ms);
        break;
    case SB_EVENT_RETURNED:
        on_returned(m, e->returned);
        break;
    case SB_EVENT_SESSION_LOST:
        on_session_lost(m, e->now_ms, step);
        break;
    case SB_EVENT_TICK:
        break;
    }
}

/* ---- The next request ------------------------------------------------------------------------ */

/* Whether the READ of a follower comes before the next attempt. */
static bool reads_owner(const struct sb_machine *m)
{
    return sb_machine_is_active(m) && !m->held && !m->rival && !m->give_back && m->callbacks == 0 &&
           m->read_at_ms < m->attempt_at_ms;
}

static int64_t request_timeout(const struct sb_machine *m, enum simba_op op, int64_t now_ms)
{
    const struct sb_timing *t = m->timing;
    int64_t timeout = op == SIMBA_OP_GUARD || op == SIMBA_OP_READ
                          ? t->transition_ms / 3
                          : sb_later(t->ttl_ms, t->transition_ms) / 2;

    if (m->status == SIMBA_STOPPING)
        timeout = sb_earlier(timeout, m->stop_at_ms - now_ms);
    if (m->reading)
        timeout = sb_earlier(timeout, m->attempt_at_ms - now_ms); /* no attempt waits for it */
    return sb_max(timeout, REQUEST_TIMEOUT_MIN_MS);
}

static void send_request(struct sb_machine *m, enum simba_op op, int64_t now_ms,
                         struct sb_step *step)
{
    SB_CHECK(m->in_flight == SIMBA_OP_NONE, "one request is under way at a time");
    SB_CHECK(op != SIMBA_OP_GUARD || m->held, "only a holder guards");
    SB_CHECK(op != SIMBA_OP_RELEASE || !sb_machine_believes(m), "no belief is released");
    m->in_flight = op;
    m->touched = true;
    m->woken = false;
    m->reading = op == SIMBA_OP_READ && reads_owner(m);
    m->read_at_ms = SIMBA_INFINITE; /* the answer names the owner */
    m->open += sb_machine_may_renew(op);
    step->request.op = op;
    step->request.generation = m->generation;
    step->request.revision = m->claim == SB_CLAIM_MINE ? m->revision : 0;
    step->request.fence = m->held && op != SIMBA_OP_RELEASE ? m->fence : 0;
    step->request.timeout_ms = request_timeout(m, op, now_ms);
    step->request.shared = m->reading;
}

/* The next request, due now or later; SIMBA_OP_NONE while a callback must return first. */
static enum simba_op next_op(const struct sb_machine *m)
{
    SB_CHECK(m->status != SIMBA_INITIAL, "a stopped machine asks for nothing");
    if (sb_machine_guards(m))
        return SIMBA_OP_GUARD;
    if (m->give_back)
        return SIMBA_OP_RELEASE;
    if (m->tells_term || (m->callbacks > 0 && !sb_machine_is_active(m)))
        return SIMBA_OP_NONE;
    if (sb_machine_is_active(m))
        return m->rival || reads_owner(m) ? SIMBA_OP_READ : SIMBA_OP_ACQUIRE;
    return sb_machine_asks_before_release(m) ? SIMBA_OP_READ : SIMBA_OP_RELEASE;
}

/* When that request is due. The last requests of a stop wait for the back-off only. */
static int64_t next_at(const struct sb_machine *m)
{
    if (m->status == SIMBA_STOPPING && m->callbacks == 0 && m->failures == 0)
        return 0;
    return reads_owner(m) ? m->read_at_ms : m->attempt_at_ms;
}

static void plan(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    enum simba_op op;

    if (m->status == SIMBA_STOPPING) {
        if (now_ms >= m->stop_at_ms) {
            sb_machine_finish(m, SIMBA_ETIMEDOUT, step);
            return;
        }
        if (!m->touched && m->claim == SB_CLAIM_NONE && m->callbacks == 0) {
            /* Nothing was asked, and nothing older came to light. */
            sb_machine_finish(m, SIMBA_OK, step);
            return;
        }
        if (m->leaves && m->in_flight == SIMBA_OP_NONE && m->callbacks == 0) {
            /* The answer to a GUARD is waited for: later it would be given back. */
            sb_machine_finish(m, m->held ? SIMBA_OK : SIMBA_ELOST, step);
            return;
        }
    }
    if (m->status == SIMBA_INITIAL || m->in_flight != SIMBA_OP_NONE ||
        step->request.op != SIMBA_OP_NONE)
        return;
    if (m->attempt_at_ms <= now_ms)
        m->read_at_ms = SIMBA_INFINITE; /* an attempt names the owner, too */
    op = next_op(m);
    if (op != SIMBA_OP_NONE && next_at(m) <= now_ms)
        send_request(m, op, now_ms, step);
}

/* The next tick: when the machine must be stepped, even if nothing happens. */
static int64_t deadline(const struct sb_machine *m)
{
    int64_t at_ms = SIMBA_INFINITE;

    if (m->status == SIMBA_INITIAL)
        return at_ms;
    if (sb_machine_believes(m))
        at_ms = m->lease_until_ms;
    if (m->status == SIMBA_STOPPING)
        at_ms = sb_earlier(at_ms, m->stop_at_ms);
    if (m->in_flight == SIMBA_OP_NONE && next_op(m) != SIMBA_OP_NONE)
        at_ms = sb_earlier(at_ms, next_at(m));
    return at_ms;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

int sb_machine_step(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    uint32_t generation = m->generation;
    const char *broken;

    memset(step, 0, sizeof *step);
    if ((e->type == SB_EVENT_START && !sb_status_may_move(m->status, SIMBA_STARTING)) ||
        (e->type == SB_EVENT_STOP && !sb_status_may_move(m->status, SIMBA_STOPPING))) {
        step->deadline_ms = deadline(m);
        return SIMBA_ESTATE;
    }
    expire(m, e->now_ms, step);
    take_in(m, e, step);
    if (step->changed || step->renewed) {
        m->callbacks++;
        m->tells_term |= step->acquired || step->released || step->renewed;
    }
    plan(m, e->now_ms, step);
    step->deadline_ms = deadline(m);
    SB_CHECK(!(step->acquired && step->released), "a step tells of a win or of a loss, not both");
    SB_CHECK(!(step->changed && (step->renewed || step->confirmed)),
             "a step tells of a change or of none, not both");
    SB_CHECK(!(step->acquired || step->renewed) || sb_machine_believes(m),
             "a win or a renewal that is told is believed");
    SB_CHECK(!step->released || !sb_machine_believes(m), "a loss that is told is not believed");
    SB_CHECK(!step->stopped || m->status == SIMBA_INITIAL, "a stop that is told is complete");
    SB_CHECK(step->request.op == SIMBA_OP_NONE || step->request.timeout_ms > 0,
             "a request has time");
    SB_CHECK(m->generation - generation <= 1, "a step begins one generation at most");
    broken = sb_machine_broken_rule(m);
    SB_CHECK(broken == NULL, broken);
    return SIMBA_OK;
}
