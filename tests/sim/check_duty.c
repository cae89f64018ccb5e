/*
 * check_duty.c - the judge of what a contender owes: guards in time and often enough, stops within
 * their bound, nothing left behind, and no more requests than it takes.
 */
#include "sim.h"

#include <string.h>

#define LATE_US (5 * SIM_MS) /* of a timer and a step */
#define STOP_LATE_US (10 * SIM_MS)
#define FIRST_TURN_MS 2 /* after the end of the lease */
#define RETRY_MOST_MS 1000
#define GUARD_RETRY_LEAST_MS 5
#define GUARD_TIMEOUT_LEAST_MS 10
#define GUARDS_MOST 80     /* in a lease */
#define REQUESTS_EARLY 400 /* of contenders who come before a lease ends */

static const char *id_of(const struct sim_world *w, int member)
{
    return w->members[member].id;
}

/* The longest back-off of a guard. It is that of a contender when a lease has lapsed under a
 * stop. */
static int64_t retry_us(const struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];
    int64_t delay_ms = w->members[member].timing.transition_ms / 8;

    if (delay_ms < GUARD_RETRY_LEAST_MS)
        delay_ms = GUARD_RETRY_LEAST_MS;
    if (seen->handing_over && seen->kept_until_us <= w->now_us)
        delay_ms = RETRY_MOST_MS;
    return sim_clock_most_us(w, delay_ms) + LATE_US;
}

/* ---- Guards ---------------------------------------------------------------------------------- */

/* A lease has been proved: the next guard is due when its ttl is over, or soon if it is over
 * already. */
void sim_check_guard_wanted(struct sim_world *w, int member, int64_t ttl_us)
{
    struct sim_seen *seen = &w->check.seen[member];
    int64_t soon_us = w->now_us + retry_us(w, member);

    seen->guard_from_us = w->now_us;
    seen->guard_due_us = ttl_us > w->now_us ? ttl_us + LATE_US : soon_us;
}

/* A guard has failed: it is tried again with a back-off. */
static void want_guard_again(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->guard_from_us = w->now_us;
    seen->guard_due_us = w->now_us + retry_us(w, member);
}

static bool wants_guard(const struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];

    return seen->handing_over || seen->last_until_us > seen->guard_due_us;
}

static void check_guard(struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (seen->guard_from_us == 0 || seen->guard_due_us >= w->now_us || w->options->beyond_drift ||
        !wants_guard(w, member) || !sim_check_has_run(w, member, seen->guard_from_us))
        return;
    if (seen->handing_over)
        sim_violate(w, "hand-over: %s does not guard while its on_released runs", id_of(w, member));
    else
        sim_violate(w, "10: %s does not try to renew its lease in time", id_of(w, member));
}

void sim_check_guards(struct sim_world *w, int granted)
{
    for (int i = 0; i < w->member_count; i++) {
        if (i != granted)
            check_guard(w, i);
    }
}

void sim_check_belief_ended(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (seen->handing_over)
        return; /* it goes on guarding */
    check_guard(w, member);
    seen->guard_from_us = 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Something from outside that may well be answered with a request. */
void sim_check_prod(struct sim_world *w, int member)
{
    w->check.seen[member].prods++;
    w->check.seen[member].prodded = true;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

/* Who is told its place comes when the lease has ended and those before it have had their turns.
 * Past the end of the jitter there are no turns. */
static void await_turn(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_clock *clock = &w->clocks[w->processes[m->process].host];
    int64_t after_ms = (r->place - 1) * m->timing.turn_ms;

    if (FIRST_TURN_MS + after_ms <= m->timing.jitter_max_ms)
        w->check.seen[r->member].turn_us = sim_clock_true_us(
            clock, sim_process_ms(w, m->process) + r->transition_left_ms + after_ms);
}

/* What is reserved for another is left to that one until then. */
static void await_reservation(struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_clock *clock = &w->clocks[w->processes[m->process].host];

    w->check.seen[r->member].turn_us =
        sim_clock_true_us(clock, sim_process_ms(w, m->process) + r->reserved_left_ms);
}

/* A contender that was prodded may come at once, and so it may when the answers to what it asked
 * then were lost. */
static void check_turn(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (seen->turn_us == 0)
        return;
    if (!seen->prodded && w->now_us < seen->turn_us)
        sim_violate(w, "10: %s does not wait for its turn", id_of(w, member));
    seen->turn_us = 0;
    seen->prodded = false;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void count_request(struct sim_world *w, int member, enum simba_op op)
{
    const struct sim_member *m = &w->members[member];
    struct sim_seen *seen = &w->check.seen[member];
    int64_t lease_us = (m->timing.ttl_ms + m->timing.transition_ms) * SIM_MS;

    if (w->now_us - seen->burst_us > lease_us) {
        seen->burst_us = w->now_us;
        seen->burst = 0;
        seen->burst_guards = 0;
        seen->prods = 0;
    }
    seen->burst += op != SIMBA_OP_READ || m->timing.read_ms == 0; /* those come by the clock */
    seen->burst_guards += op == SIMBA_OP_GUARD;
    if (m->observer)
        return;
    if (seen->burst_guards > GUARDS_MOST + 2 * seen->prods ||
        seen->burst > GUARDS_MOST + REQUESTS_EARLY + 2 * seen->prods)
        sim_violate(w, "10: %s sends %lld requests within a lease", m->id, (long long)seen->burst);
}

/* A contender that was told of a rival leaves that one's term alone, and waits for its end. */
static void check_rival(struct sim_world *w, int member, const struct sb_step *step)
{
    const struct sim_seen *seen = &w->check.seen[member];
    enum simba_op op = step->request.op;

    if (op == SIMBA_OP_GUARD && (step->request.fence == 0 || (sim_check_believes(w, member) &&
                                                              step->request.fence != seen->token)))
        sim_violate(w, "6: %s does not name the term that it guards", id_of(w, member));
    if (seen->rival && step->request.generation == w->members[member].generation &&
        (op == SIMBA_OP_ACQUIRE || (op == SIMBA_OP_RELEASE && step->request.revision != 0)))
        sim_violate(w, "6: %s takes what another contender with its id holds", id_of(w, member));
}

void sim_check_sent(struct sim_world *w, int member, const struct sb_step *step)
{
    const struct sim_member *m = &w->members[member];
    struct sim_seen *seen = &w->check.seen[member];
    enum simba_op op = step->request.op;
    int64_t timeout_ms = step->request.timeout_ms;

    count_request(w, member, op);
    if (!m->observer)
        check_rival(w, member, step);
    seen->unsettled += op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;
    if (op == SIMBA_OP_GUARD) {
        check_guard(w, member);
        seen->guard_from_us = 0;
        if (timeout_ms > m->timing.transition_ms / 2 && timeout_ms > GUARD_TIMEOUT_LEAST_MS &&
            sim_check_believes(w, member))
            sim_violate(w, "10: %s waits so long for a guard that no other one fits in", m->id);
    }
    if (op == SIMBA_OP_READ)
        seen->probes++;
    if (op == SIMBA_OP_ACQUIRE)
        check_turn(w, member);
    if (op == SIMBA_OP_RELEASE && step->request.revision != 0)
        seen->released = step->request.revision;
    seen->releasing |= op == SIMBA_OP_RELEASE && step->request.generation == m->generation;
}

void sim_check_answered(struct sim_world *w, const struct sim_request *r, enum sb_answer answer)
{
    struct sim_seen *seen = &w->check.seen[r->member];

    if (seen->acquiring == r->serial)
        seen->acquiring = 0;
    if (r->op == SIMBA_OP_RELEASE && sim_request_is_current(w, r)) {
        seen->releasing = false;
        seen->unclear |= answer == SB_ANSWER_UNKNOWN;
    }
    if ((r->op == SIMBA_OP_ACQUIRE || r->op == SIMBA_OP_GUARD) &&
        (answer == SB_ANSWER_FAILED ||
         (answer != SB_ANSWER_UNKNOWN && sim_request_is_current(w, r))))
        seen->unsettled--;
    if (!r->deposed && w->processes[w->members[r->member].process].confirmed_ms == 0 &&
        answer == SB_ANSWER_MINE && sim_request_is_current(w, r))
        seen->deposed_us = 0;
    if (!sim_request_is_current(w, r))
        seen->prodded = true;
    else if (r->op == SIMBA_OP_ACQUIRE && answer == SB_ANSWER_OTHER && r->place > 0)
        await_turn(w, r);
    else if (r->op == SIMBA_OP_ACQUIRE && answer == SB_ANSWER_NOBODY && r->reserved_left_ms > 0)
        await_reservation(w, r);
    if (r->op == SIMBA_OP_ACQUIRE && sim_request_is_current(w, r))
        seen->waits = answer == SB_ANSWER_OTHER || r->reserved_left_ms > 0;
    if (r->op == SIMBA_OP_ACQUIRE && answer == SB_ANSWER_MINE &&
        (!sim_request_is_current(w, r) || seen->phase == SIM_DOWN) &&
        seen->stray < r->reply_revision)
        seen->stray = r->reply_revision;
    if (!sim_request_is_current(w, r)) {
        if (r->op == SIMBA_OP_ACQUIRE) {
            seen->rival = false; /* it may have been no rival, but an older start of its own */
            seen->doubt = true;
        }
        return;
    }
    if (answer == SB_ANSWER_OTHER || answer == SB_ANSWER_NOBODY)
        seen->rival = false;
    if (r->fence == 0)
        return;
    seen->rival |= answer == SB_ANSWER_MINE && r->foreign && r->reply_fence != 0 &&
                   r->reply_fence != seen->stray && !seen->doubt;
    seen->doubt &= answer == SB_ANSWER_FAILED || answer == SB_ANSWER_UNKNOWN;
    if (answer == SB_ANSWER_FAILED || answer == SB_ANSWER_UNKNOWN) {
        if (seen->handing_over || sim_check_believes(w, r->member))
            want_guard_again(w, r->member);
    } else if (answer != SB_ANSWER_MINE || r->foreign || sim_check_may_mistake(w, r)) {
        seen->guard_from_us = 0;
        seen->kept_until_us = 0;
    }
}

/* What is granted and not believed in is given back at once, unless what was asked since may own
 * the record; an acquire of which nobody knows is asked about when nothing newer runs. `before` is
 * how the member stood when the answer came: a stop that ends with it has told that something may
 * be left. */
void sim_check_given_back(struct sim_world *w, const struct sim_request *r,
                          const struct sb_event *event, const struct sim_seen *before)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_seen *seen = &w->check.seen[r->member];
    bool idle = before->phase == SIM_DOWN;
    bool old = r->start != m->starts || idle;

    if (m->observer || r->deposed || r->session != w->processes[m->process].session ||
        sim_check_believes(w, r->member) || before->phase == SIM_ENDING)
        return;
    if (event->answer == SB_ANSWER_MINE && !r->foreign && !sim_check_may_mistake(w, r) &&
        seen->acquiring == 0 && (r->op == SIMBA_OP_ACQUIRE || r->op == SIMBA_OP_GUARD) &&
        (!old || r->op == SIMBA_OP_ACQUIRE || idle)) {
        w->counts[SIM_LATE_GRANTS]++;
        if (seen->released != r->reply_revision)
            sim_violate(w, "7: %s does not give back what came too late", m->id);
    }
    if (event->answer == SB_ANSWER_UNKNOWN && r->op == SIMBA_OP_ACQUIRE && idle &&
        seen->probes == before->probes)
        sim_violate(w, "7: %s does not ask what became of its acquire", m->id);
}

void sim_check_woken(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->woken |= seen->acquiring != 0;
}

/* The one before has a reservation's time, and not more, and those further in front have three: a
 * contender that waits, and is free to ask, comes then. */
void sim_check_reserved(struct sim_world *w, int member, int reservations)
{
    const struct sim_member *m = &w->members[member];
    const struct sim_seen *seen = &w->check.seen[member];
    bool owed = m->strand_busy || m->report_queued || m->returned > 0;
    int64_t latest_ms =
        sim_process_ms(w, m->process) + reservations * m->timing.reserve_ms + FIRST_TURN_MS;

    if (m->observer || m->follows || owed || seen->rival || seen->acquiring != 0)
        return;
    if (seen->phase == SIM_UP && seen->waits && !sim_check_believes(w, member) &&
        m->deadline_ms > latest_ms)
        sim_violate(w, "9: %s does not come when the reservation before it is over", m->id);
}

/* The answer may be older than the wake-up that came while it was under way: a contender that is
 * free to asks again. */
void sim_check_wake_kept(struct sim_world *w, const struct sim_request *r,
                         const struct sb_event *event, const struct sim_seen *before)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_seen *seen = &w->check.seen[r->member];
    bool owed = m->strand_busy || m->report_queued || m->returned > 0;

    if (before->acquiring == r->serial && before->woken && seen->phase == SIM_UP && !owed &&
        (event->answer == SB_ANSWER_OTHER || event->answer == SB_ANSWER_NOBODY) &&
        sim_request_is_current(w, r) && seen->acquiring == 0 && !w->network.no_memory)
        sim_violate(w, "9: %s forgets that it was woken", m->id);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

void sim_check_started(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->phase = SIM_UP;
    seen->acquiring = 0;
    seen->waits = false;
    seen->rival = false;
    seen->acquired_told = false;
    seen->owner_told[0] = '\0';
    seen->fence_told = 0;
    seen->owner_named[0] = '\0';
    seen->fence_named = 0;
    sim_check_prod(w, member);
}

/* A contender that still owns when it is stopped hands over: its on_released returns before anybody
 * else owns. */
void sim_check_stopping(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->phase = SIM_ENDING;
    seen->ending = sim_check_believes(w, member) ? seen->token : 0;
    seen->releasing = false;
    seen->gave_back = false;
    seen->gave_term_back = false;
    seen->unclear = false;
    seen->handing_over = sim_check_believes(w, member) && !w->members[member].habits.mute;
    seen->kept_until_us = seen->until_us;
    seen->stop_from_us = w->now_us;
    seen->stop_by_us =
        w->now_us + sim_clock_most_us(w, w->members[member].timing.stop_timeout_ms) + STOP_LATE_US;
    if (!seen->handing_over)
        seen->guard_from_us = 0;
    sim_check_prod(w, member);
}

static void end_hand_over(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (!seen->handing_over)
        return;
    check_guard(w, member);
    seen->handing_over = false;
    seen->guard_from_us = 0;
}

void sim_check_strand_idle(struct sim_world *w, int member)
{
    end_hand_over(w, member);
}

/* A process that does not run cannot stop in time. */
void sim_check_paused(struct sim_world *w, int process, int64_t until_us)
{
    for (int i = 0; i < w->member_count; i++) {
        struct sim_seen *seen = &w->check.seen[i];

        if (w->members[i].process == process && seen->stop_by_us < until_us + STOP_LATE_US)
            seen->stop_by_us = until_us + STOP_LATE_US;
    }
}

static void check_timing(struct sim_world *w, int member, int code)
{
    const struct sim_seen *seen = &w->check.seen[member];
    int64_t timeout_us = w->members[member].timing.stop_timeout_ms * SIM_MS;
    int64_t least_us = w->options->beyond_drift ? timeout_us * 3 / 4 : timeout_us * 98 / 100;

    if (w->now_us > seen->stop_by_us)
        sim_violate(w, "7: the stop of %s takes longer than its bound", id_of(w, member));
    if (code == SIMBA_ETIMEDOUT && w->now_us < seen->stop_from_us + least_us - SIM_MS)
        sim_violate(w, "7: the stop of %s gives up before its time", id_of(w, member));
}

/* A late acquire of its own may have made another term of the record. A twin's is taken for that
 * while one can be under way, and where there is no token. */
void sim_check_gave_back(struct sim_world *w, struct sim_request *r, int owner, uint64_t token)
{
    struct sim_seen *seen = &w->check.seen[r->member];

    r->gave_back = true;
    if (seen->phase != SIM_ENDING || r->start != w->members[r->member].starts)
        return;
    seen->gave_back |= owner == r->member || !w->store.tells_fence || seen->unsettled > 0;
    seen->gave_term_back |= token == seen->ending;
}

/* A stop that ends well has had its term until it gave it back, as far as anybody can tell. */
static void check_loss(struct sim_world *w, int member, int code)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (code == SIMBA_OK && seen->ending != 0 && !seen->gave_back && !seen->unclear)
        sim_violate(w, "7: the stop of %s hides that its term was gone", id_of(w, member));
    if (code == SIMBA_ELOST && seen->gave_term_back && w->store.tells_fence)
        sim_violate(w, "7: the stop of %s tells of a loss and has given its term back",
                    id_of(w, member));
}

static void check_complete(struct sim_world *w, int member)
{
    const struct sim_member *m = &w->members[member];

    if (m->strand_busy)
        sim_violate(w, "4: the stop of %s returns while a callback runs", m->id);
    if (w->check.seen[member].acquired_told)
        sim_violate(w, "4: %s stopped without on_released", m->id);
    if (!m->observer && sim_store_has_left(w, member, m->starts))
        sim_violate(w, "7: %s leaves something on the store", m->id);
}

void sim_check_stopped(struct sim_world *w, int member, const struct sb_step *step)
{
    struct sim_seen *seen = &w->check.seen[member];
    bool lost = step->stop_code == SIMBA_ELOST;
    bool ok = step->stop_code == SIMBA_OK;

    end_hand_over(w, member);
    check_timing(w, member, step->stop_code);
    if (step->deadline_ms != SIMBA_INFINITE)
        sim_violate(w, "7: %s leaves a timer behind", id_of(w, member));
    if (ok || lost)
        check_complete(w, member);
    if (!w->members[member].observer)
        check_loss(w, member, step->stop_code);
    w->counts[ok ? SIM_STOPS_OK : lost ? SIM_STOPS_LOST : SIM_STOPS_FAILED]++;
    seen->phase = SIM_DOWN;
    seen->stop_code = step->stop_code;
    seen->acquired_told = false;
}

void sim_check_crashed(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->phase = SIM_DOWN;
    seen->until_us = 0;
    seen->unsettled = 0;
    seen->guard_from_us = 0;
    seen->acquired_told = false;
    seen->handing_over = false;
}

/* With the session goes all that it asked for and all that it could guard. */
void sim_check_expelled(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    seen->acquiring = 0;
    seen->unclear |= seen->releasing;
    seen->rival = false;
    seen->guard_from_us = 0;
    seen->kept_until_us = 0;
}
