/*
 * driver.c - the duties of a driver as conditions on events, and the contract of a step as
 * assertions on its answer.
 */
#include "driver.h"

#include "base/time.h"

#include <string.h>

/* Callbacks that are owed between two steps (duty 4). A step may add one; then the driver tells
 * that one was merged before anything else happens, or, where it has no memory for the request of
 * the step, that this has failed. */
#define OWED_MAX 2

static bool believes(const struct sb_machine *m)
{
    return sb_machine_belief_ms(m) != 0 || (m->held && m->status == SIMBA_RUNNING);
}

static bool is_me(const struct simba_owner *owner)
{
    return owner->id[0] == PROVE_ME[0];
}

static bool is_active(enum simba_status status)
{
    return status == SIMBA_STARTING || status == SIMBA_RUNNING;
}

void driver_init(struct driver *d)
{
    d->last_ms = prove_between(0, PROVE_NOW_MAX_MS);
    d->named = 0;
}

bool driver_fits(const struct sb_machine *m, const struct driver *d)
{
    if (m->callbacks > OWED_MAX + 2)
        return false;
    if (is_active(m->status) && is_me(&m->owner) != believes(m))
        return false;
    if (m->in_flight == SIMBA_OP_GUARD && d->named == 0)
        return false;
    if ((m->in_flight == SIMBA_OP_ACQUIRE || m->in_flight == SIMBA_OP_RELEASE) && d->named != 0)
        return false;
    if ((m->in_flight == SIMBA_OP_GUARD || m->in_flight == SIMBA_OP_READ) && m->held &&
        d->named != m->fence)
        return false;
    if (m->in_flight == SIMBA_OP_READ && m->status != SIMBA_STOPPING && d->named != 0)
        return false;
    return true;
}

void driver_any_state(struct sb_machine *m, const struct sb_timing *timing, struct driver *d)
{
    m->timing = timing;
    m->status = PROVE_STATUS;
    m->claim = (enum sb_claim)prove_between(SB_CLAIM_NONE, SB_CLAIM_UNKNOWN);
    m->in_flight = PROVE_IN_FLIGHT;
    m->generation = PROVE_GENERATION;
    m->callbacks = nondet_unsigned();
    m->failures = nondet_unsigned();
    m->tells_term = prove_any_bool();
    m->held = prove_any_bool();
    m->touched = prove_any_bool();
    m->woken = prove_any_bool();
    m->give_back = prove_any_bool();
    m->tells_renewals = prove_any_bool();
    m->follows = prove_any_bool();
    m->reading = prove_any_bool();
    m->doubt = prove_any_bool();
    m->rival = prove_any_bool();
    m->ends_term = prove_any_bool();
    m->lost = prove_any_bool();
    m->leaves = prove_any_bool();
    m->last_code = nondet_int();
    m->attempt_at_ms = nondet_int64();
    m->read_at_ms = nondet_int64();
    m->lease_until_ms = nondet_int64();
    m->stop_at_ms = nondet_int64();
    m->fence = nondet_uint64();
    m->revision = nondet_uint64();
    m->claimed = nondet_uint64();
    m->stray = nondet_uint64();
    m->open = nondet_uint64();
    m->random = nondet_uint64();
    m->owner = prove_any_owner();
    d->last_ms = prove_between(0, PROVE_NOW_MAX_MS);
    d->named = nondet_uint64();
    PROVE_GIVEN(sb_machine_broken_rule(m) == NULL && driver_fits(m, d));
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Requests of an older generation, or of a start that has ended, may still be answered: any of
 * them, at any time. */
static bool is_stale(const struct sb_machine *m, const struct sb_event *e)
{
    return (int32_t)(m->generation - e->generation) >= 0 &&
           (e->generation != m->generation || m->status == SIMBA_INITIAL);
}

static const char *any_name(enum sb_answer answer)
{
    if (answer == SB_ANSWER_MINE)
        return PROVE_ME;
    if (answer == SB_ANSWER_OTHER)
        return prove_any_bool() ? "a" : "b";
    return "";
}

static void any_reply(const struct sb_machine *m, const struct driver *d, struct sb_event *e)
{
    bool expected = PROVE_EXPECTED;
    bool answered;

    e->op = PROVE_OP;
    e->answer = PROVE_ANSWER;
    answered = e->answer != SB_ANSWER_FAILED && e->answer != SB_ANSWER_UNKNOWN;
    if (expected) {
        e->generation = m->generation;
        e->named = d->named;
        PROVE_GIVEN(m->in_flight == PROVE_OP);
    } else {
        e->generation = PROVE_OLDER;
        e->named = nondet_uint64();
        PROVE_GIVEN(is_stale(m, e));
        PROVE_GIVEN(e->named == 0 || e->op == SIMBA_OP_GUARD || e->op == SIMBA_OP_READ);
        PROVE_GIVEN(e->named != 0 || e->op != SIMBA_OP_GUARD);
    }
    e->code = nondet_int();
    PROVE_GIVEN((e->code == SIMBA_OK) == answered);
    PROVE_GIVEN(m->callbacks <= OWED_MAX || (e->answer == SB_ANSWER_FAILED && expected));
    e->sent_at_ms = prove_between(0, e->now_ms); /* duty 3: or an earlier proof */
    e->owner = any_name(e->answer);
    e->ttl_left_ms = nondet_int64();
    e->transition_left_ms = nondet_int64();
    PROVE_GIVEN(e->transition_left_ms >= 0 || e->answer == SB_ANSWER_NOBODY || !answered);
    e->revision = nondet_uint64();
    PROVE_GIVEN(e->revision != 0 || e->answer != SB_ANSWER_MINE);
    e->revision_counts = prove_any_bool();
    e->fence = nondet_uint64();
    e->place = nondet_int64();
    e->missed = prove_any_bool();
    e->reserved_left_ms = nondet_int64();
}

struct sb_event driver_any_event(const struct sb_machine *m, const struct driver *d)
{
    struct sb_event e;

    e.type = PROVE_EVENT;
    e.now_ms = prove_between(d->last_ms, PROVE_NOW_MAX_MS); /* duty 1 */
    e.returned = nondet_unsigned();
    PROVE_GIVEN(e.type != SB_EVENT_RETURNED ||
                (e.returned > 0 && e.returned <= m->callbacks)); /* duty 4 */
    PROVE_GIVEN(m->callbacks <= OWED_MAX || e.type == SB_EVENT_RETURNED ||
                (m->callbacks == OWED_MAX + 1 && e.type == SB_EVENT_REPLY));
    e.leaves = prove_any_bool();
    if (e.type == SB_EVENT_REPLY)
        any_reply(m, d, &e);
    return e;
}

/* ---- The contract ---------------------------------------------------------------------------- */

/* Whether the event answers the request in flight. */
static bool is_in_time(const struct sb_machine *before, const struct sb_event *e)
{
    return e->type == SB_EVENT_REPLY && e->generation == before->generation &&
           e->op == before->in_flight;
}

static bool names_no_record_of_mine(const struct sb_event *e)
{
    return e->answer == SB_ANSWER_OTHER || e->answer == SB_ANSWER_NOBODY;
}

/* a + b - c without an overflow, but for the times that never come. */
static bool is_within(int64_t until_ms, int64_t sent_at_ms, int64_t left_ms, int64_t margin_ms)
{
    __int128 most = (__int128)sent_at_ms + left_ms;

    if (most >= SIMBA_INFINITE)
        return true; /* no lease, or one that never ends */
    return until_ms <= most - margin_ms;
}

static void check_belief(const struct sb_machine *before, const struct sb_machine *m,
                         const struct sb_event *e, const struct sb_step *step)
{
    bool renewed =
        believes(m) && (!believes(before) || m->lease_until_ms != before->lease_until_ms);

    if (renewed) {
        PROVE_THAT(is_in_time(before, e) && e->answer == SB_ANSWER_MINE &&
                       (e->op == SIMBA_OP_ACQUIRE || e->op == SIMBA_OP_GUARD),
                   "only a grant of this generation makes or stretches a belief");
        PROVE_THAT(is_within(m->lease_until_ms, e->sent_at_ms, e->transition_left_ms,
                             m->timing->margin_ms),
                   "a belief counts from the sending of the request and ends a margin early");
    }
    PROVE_THAT(!believes(before) || !believes(m) || before->lease_until_ms > e->now_ms,
               "a belief that has run out ends before the event is taken in");
    PROVE_THAT(!believes(before) || !believes(m) || before->fence == m->fence,
               "a term keeps its token");
    PROVE_THAT(!is_in_time(before, e) || !names_no_record_of_mine(e) || !believes(m),
               "an answer that names another owner, or none, ends the belief");
    PROVE_THAT(!is_in_time(before, e) || e->op != SIMBA_OP_GUARD || e->answer != SB_ANSWER_MINE ||
                   e->fence == 0 || e->fence == e->named || !believes(m),
               "an answer that names another term ends the belief");
    PROVE_THAT(step->acquired == (!believes(before) && believes(m)), "each win is told, once");
    PROVE_THAT(step->released == (believes(before) && !believes(m)), "each loss is told, once");
    PROVE_THAT(!step->acquired || (step->changed && step->state.after.fence == e->revision &&
                                   step->state.after.fence == sb_machine_fence(m)),
               "a win is told with the token that the store gave");
    PROVE_THAT(!step->acquired || m->lease_until_ms > e->now_ms, "no win is over when it is told");
    PROVE_THAT(!(step->acquired || step->renewed) || before->callbacks == 0 || !step->acquired ||
                   !before->tells_term,
               "no term begins while callbacks of the last one run");
}

static void check_request(const struct sb_machine *before, const struct sb_machine *m,
                          const struct sb_event *e, const struct sb_step *step)
{
    bool answers_older = e->type == SB_EVENT_REPLY && (step->request.generation != m->generation ||
                                                       before->status == SIMBA_INITIAL);

    if (step->request.op == SIMBA_OP_NONE)
        return;
    PROVE_THAT(step->request.timeout_ms > 0, "a request has time");
    if (answers_older) {
        PROVE_THAT(step->request.generation == e->generation,
                   "what an older start left is given back under its generation");
        PROVE_THAT(step->request.op == SIMBA_OP_READ ||
                       (step->request.op == SIMBA_OP_RELEASE && step->request.revision != 0 &&
                        step->request.revision == e->revision),
                   "no release without a revision");
        return;
    }
    PROVE_THAT(before->in_flight == SIMBA_OP_NONE || is_in_time(before, e) ||
                   e->type == SB_EVENT_SESSION_LOST,
               "at most one request is in flight");
    PROVE_THAT(step->request.generation == m->generation && step->request.op == m->in_flight,
               "the request that is sent is the one that is waited for");
    PROVE_THAT(!step->stopped && m->status != SIMBA_INITIAL, "a stopped machine asks for nothing");
    PROVE_THAT(step->request.op != SIMBA_OP_RELEASE || m->claim != SB_CLAIM_UNKNOWN,
               "no release without a revision");
    PROVE_THAT(step->request.op != SIMBA_OP_RELEASE || m->claim != SB_CLAIM_MINE ||
                   step->request.revision == m->revision,
               "no release without a revision");
    PROVE_THAT(step->request.op != SIMBA_OP_RELEASE || !believes(m), "no belief is released");
    PROVE_THAT(step->request.op != SIMBA_OP_GUARD ||
                   (m->held && step->request.fence == m->fence && m->fence != 0),
               "a guard names its term");
    PROVE_THAT(step->request.op != SIMBA_OP_ACQUIRE || is_active(m->status),
               "only an active contender acquires");
    PROVE_THAT(step->request.op != SIMBA_OP_GUARD ||
                   step->request.timeout_ms <= sb_max(m->timing->transition_ms / 2, 10),
               "a guard that is not answered leaves room for another");
    PROVE_THAT(step->request.op != SIMBA_OP_RELEASE || m->callbacks == 0 || m->give_back,
               "a term is released when its callbacks have returned");
}

/* What may be on the store of this contender is not forgotten. */
static void check_record(const struct sb_machine *before, const struct sb_machine *m,
                         const struct sb_event *e, const struct sb_step *step)
{
    bool in_time = is_in_time(before, e);
    bool late_acquire =
        e->type == SB_EVENT_REPLY && before->status == SIMBA_INITIAL && e->op == SIMBA_OP_ACQUIRE;

    PROVE_THAT(!in_time || e->answer != SB_ANSWER_UNKNOWN || m->status == SIMBA_INITIAL ||
                   (e->op != SIMBA_OP_ACQUIRE && e->op != SIMBA_OP_GUARD) ||
                   m->claim == SB_CLAIM_UNKNOWN,
               "a lost answer leaves the record unknown");
    PROVE_THAT(!late_acquire || e->answer != SB_ANSWER_MINE || step->request.op == SIMBA_OP_RELEASE,
               "a stopped machine gives back what a late answer names");
    PROVE_THAT(!late_acquire || e->answer != SB_ANSWER_UNKNOWN || step->request.op == SIMBA_OP_READ,
               "a stopped machine asks what an unknown ACQUIRE has left");
    PROVE_THAT(!in_time || !names_no_record_of_mine(e) ||
                   (e->op == SIMBA_OP_READ && before->reading) || !m->rival,
               "a rival that is gone is waited for no longer");
}

/* Answers to requests of an older generation are recognised by its number. */
static void check_generation(const struct sb_machine *before, const struct sb_machine *m,
                             const struct sb_event *e)
{
    bool begins = e->type == SB_EVENT_START ||
                  (e->type == SB_EVENT_SESSION_LOST && before->status != SIMBA_INITIAL);

    PROVE_THAT(m->generation == before->generation + begins,
               "a start and the loss of a session begin a generation, and nothing else does");
}

static void check_stop(const struct sb_machine *before, const struct sb_machine *m,
                       const struct sb_event *e, const struct sb_step *step)
{
    bool by_clock = e->type != SB_EVENT_REPLY && e->type != SB_EVENT_SESSION_LOST;
    bool in_full = step->stopped && step->stop_code != SIMBA_ETIMEDOUT && !before->leaves &&
                   !(e->type == SB_EVENT_STOP && e->leaves);
    bool by_release = is_in_time(before, e) && e->op == SIMBA_OP_RELEASE;

    PROVE_THAT(step->stopped == (before->status != SIMBA_INITIAL && m->status == SIMBA_INITIAL),
               "the end of each stop is told, once");
    PROVE_THAT(e->type != SB_EVENT_STOP ||
                   is_within(m->stop_at_ms, e->now_ms, m->timing->stop_timeout_ms, 0),
               "a stop begins with its bound");
    PROVE_THAT(before->status != SIMBA_STOPPING || m->stop_at_ms == before->stop_at_ms,
               "a stop keeps its bound");
    PROVE_THAT(before->status != SIMBA_STOPPING || !by_clock || step->stopped ||
                   m->held == before->held,
               "a stop guards its term until the store, or the loss of the session, ends it");
    PROVE_THAT(!in_full || m->claim == SB_CLAIM_NONE, "a stop in time leaves no record behind");
    PROVE_THAT(!in_full || !m->touched || by_release, "a stop in time leaves the wait queue");
    PROVE_THAT(!step->stopped || step->stop_code != SIMBA_OK ||
                   !(before->lost ||
                     (before->ends_term && by_release && e->code == SIMBA_OK && e->missed)),
               "a stop whose term was gone says so");
}

/* What failed is tried again after a pause: an owner several times within its transition, all
 * others within a second. */
static void check_back_off(const struct sb_machine *before, const struct sb_machine *m,
                           const struct sb_event *e)
{
    bool failed = is_in_time(before, e) && e->code != SIMBA_OK && m->status != SIMBA_INITIAL &&
                  !(e->op == SIMBA_OP_READ && before->reading);
    bool hurry = m->held && e->now_ms < m->lease_until_ms;
    int64_t most_ms = hurry ? sb_max(m->timing->transition_ms / 8, 5) : 1000;

    PROVE_THAT(!failed || m->attempt_at_ms >= e->now_ms + (hurry ? 2 : 25),
               "what failed is tried again after a pause");
    PROVE_THAT(!failed || m->attempt_at_ms <= e->now_ms + most_ms + 1,
               "what failed is tried again soon");
}

static void check_deadline(const struct sb_machine *m, const struct sb_event *e,
                           const struct sb_step *step)
{
    PROVE_THAT(m->status != SIMBA_INITIAL || step->deadline_ms == SIMBA_INFINITE,
               "nothing is planned after a stop");
    PROVE_THAT(e->type != SB_EVENT_TICK || step->deadline_ms > e->now_ms,
               "a tick leaves no work for now");
    PROVE_THAT(!believes(m) || step->deadline_ms <= m->lease_until_ms,
               "the next tick comes when the belief ends, or before");
    PROVE_THAT(m->status != SIMBA_STOPPING || step->deadline_ms <= m->stop_at_ms,
               "the next tick comes when the stop gives up, or before");
    PROVE_THAT(!m->held || m->in_flight != SIMBA_OP_NONE ||
                   step->deadline_ms <= sb_max(m->attempt_at_ms, e->now_ms),
               "a holder that waits for no answer has a time for its next request");
}

void driver_step(struct driver *d, struct sb_machine *m, const struct sb_event *e)
{
    struct sb_machine before = *m;
    struct sb_step step;
    int code = sb_machine_step(m, e, &step);

    d->last_ms = e->now_ms;
    if (code != SIMBA_OK) {
        PROVE_THAT(code == SIMBA_ESTATE && !step.changed && !step.stopped &&
                       step.request.op == SIMBA_OP_NONE && m->status == before.status &&
                       m->held == before.held && m->in_flight == before.in_flight &&
                       m->callbacks == before.callbacks && m->generation == before.generation,
                   "a call that does not fit changes nothing");
        check_deadline(m, e, &step);
        return;
    }
    PROVE_THAT(sb_machine_broken_rule(m) == NULL, "every step keeps the rules");
    check_belief(&before, m, e, &step);
    check_request(&before, m, e, &step);
    check_record(&before, m, e, &step);
    check_generation(&before, m, e);
    check_stop(&before, m, e, &step);
    check_back_off(&before, m, e);
    check_deadline(m, e, &step);
    if (step.request.op != SIMBA_OP_NONE && step.request.generation == m->generation &&
        m->in_flight == step.request.op)
        d->named = step.request.fence;
    PROVE_THAT(driver_fits(m, d), "machine and driver fit together after every step");
}
