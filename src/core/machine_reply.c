/*
 * machine_reply.c - what the answer to a request means to a contender: it has won, renewed or lost;
 * or it must ask, release or try again later.
 *
 * A release always names the revision of the record. When a lost reply left that unknown, a READ
 * asks first. So a release that reaches the store late can never hit a later term of the same id. A
 * GUARD would renew the record: when the wake-up of the release is lost, the waiters would come a
 * whole lease later.
 *
 * A stop that finds its term gone ends with SIMBA_ELOST: another may have owned while the
 * application still worked. A RELEASE that is sent again says nothing of that where an earlier one
 * may have been carried out.
 *
 * Two contenders may have the same id by mistake. The store then grants each what the other holds.
 * An owner finds out at its next renewal, because the term on the store is not its own; it ends its
 * term, and does not acquire again while its rival lives. It asks by READ, because the store would
 * grant any ACQUIRE.
 *
 * A contender that follows reads, too, while it waits. Such a READ tells of changes between others
 * and changes nothing else: it makes nobody an owner, and the next ACQUIRE comes when it would have
 * come.
 */
#include "core/machine_state.h"

#include "base/check.h"
#include "base/random.h"
#include "core/owner.h"

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000
#define GUARD_RETRY_MIN_MS 5
#define LEASE_GRAIN_MS 2 /* store and contender both count in whole milliseconds */

/* The owner that a reply names. Mine counts from when the request was sent, so that a slow reply
 * shortens the lease; another's counts from now, so that a slow reply does not make us come
 * early. */
static struct simba_owner owner_of(const struct sb_machine *m, const struct sb_event *e)
{
    bool mine = e->answer == SB_ANSWER_MINE;

    SB_CHECK(mine || e->answer == SB_ANSWER_OTHER, "only an answer with an owner names one");
    return sb_owner_in_time_left(e->owner, mine ? e->sent_at_ms : e->now_ms, e->ttl_left_ms,
                                 e->transition_left_ms, m->timing->ttl_ms,
                                 mine ? e->revision : e->fence);
}

/* ---- When to try again ----------------------------------------------------------------------- */

/* Doubles with every failure in a row, half of it random. An owner must try several times within
 * its transition. A contender has time, and so has a stop whose lease has ended. */
static int64_t retry_delay(struct sb_machine *m, int64_t now_ms)
{
    int64_t transition_ms = m->timing->transition_ms;
    bool hurry = m->held && now_ms < m->lease_until_ms;
    int64_t delay = hurry ? sb_max(transition_ms / 32, GUARD_RETRY_MIN_MS) : RETRY_MIN_MS;
    int64_t most = hurry ? sb_max(transition_ms / 8, GUARD_RETRY_MIN_MS) : RETRY_MAX_MS;

    for (unsigned i = 1; i < m->failures && delay < most; i++)
        delay *= 2;
    delay = sb_earlier(delay, most);
    SB_CHECK(delay >= GUARD_RETRY_MIN_MS, "a retry waits");
    return delay / 2 + sb_random_between(sb_random_next(&m->random), 0, delay / 2 + 1);
}

static void retry_later(struct sb_machine *m, int64_t now_ms)
{
    m->failures++;
    m->attempt_at_ms = sb_later(now_ms, retry_delay(m, now_ms));
}

/* Whether the place in the queue decides when to try. It does not if the turn would come after the
 * longest jitter: many waiters before this one may be dead. */
static bool has_turn(const struct sb_timing *t, int64_t place)
{
    int64_t turns_ms = t->jitter_max_ms - LEASE_GRAIN_MS;

    return t->turn_ms > 0 && place > 0 && turns_ms >= 0 && place - 1 <= turns_ms / t->turn_ms;
}

/* When the lease of `owner` is over and the jitter has passed. */
static void wait_for(struct sb_machine *m, const struct simba_owner *owner, int64_t now_ms)
{
    const struct sb_timing *t = m->timing;
    int64_t delay =
        simba_period_contender_delay_ms(owner, now_ms, t->transition_ms, t->jitter_min_ms,
                                        t->jitter_max_ms, sb_random_next(&m->random));

    SB_CHECK(delay >= 0, "no attempt lies in the past");
    m->attempt_at_ms = sb_later(now_ms, delay);
}

/* The first comes when the lease has ended by its own clock, the others a turn after each other. If
 * the store's clock is slower, the waiter comes too early, is told how long the lease still lasts,
 * and comes again. No waiter waits for those before it: they may be dead. */
static void take_turn(struct sb_machine *m, int64_t place, int64_t now_ms)
{
    int64_t after_ms = LEASE_GRAIN_MS + (place - 1) * m->timing->turn_ms;

    SB_CHECK(after_ms >= 0 && after_ms <= m->timing->jitter_max_ms,
             "no turn comes after the largest jitter");
    m->attempt_at_ms = sb_max(now_ms, sb_later(m->owner.transition_at_ms, after_ms));
}

int64_t sb_machine_reservation_over_ms(const struct sb_machine *m, int64_t left_ms, int64_t place,
                                       int64_t now_ms)
{
    int64_t turns_ms = place == 1                   ? 0
                       : has_turn(m->timing, place) ? (place - 1) * m->timing->turn_ms
                                                    : sb_max(m->timing->jitter_max_ms, 0);

    return sb_later(now_ms, sb_later(left_ms, LEASE_GRAIN_MS + turns_ms));
}

static void contend_later(struct sb_machine *m, int64_t place, int64_t now_ms)
{
    SB_CHECK(!m->held, "an owner does not contend");
    if (has_turn(m->timing, place))
        take_turn(m, place, now_ms);
    else
        wait_for(m, &m->owner, now_ms);
}

/* Where the store does not tell of changes. */
static void read_later(struct sb_machine *m, int64_t now_ms)
{
    SB_CHECK(!m->held, "an owner does not read");
    if (m->follows && m->timing->read_ms > 0)
        m->read_at_ms = sb_earlier(m->read_at_ms, sb_later(now_ms, m->timing->read_ms));
}

/* ---- Winning and renewing -------------------------------------------------------------------- */

static void win(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner me = owner_of(m, e);

    SB_CHECK(!m->tells_term, "nobody wins while callbacks of its last term run");
    SB_CHECK(!m->held && m->claim == SB_CLAIM_MINE, "a term begins once, with its record");
    SB_CHECK(e->now_ms < m->lease_until_ms, "a grant that is over is not believed");
    m->read_at_ms = SIMBA_INFINITE;
    m->held = true;
    m->fence = e->revision;
    m->attempt_at_ms = me.ttl_at_ms;
    sb_machine_set_owner(m, &me, step);
    step->acquired = true;
}

/* A stopping contender has told the application that it no longer owns, so its renewals are not
 * told. A proof that is older than the ttl proves nothing new. The next guard then waits as after a
 * failure; otherwise guards would follow each other without a pause. */
static void renew(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner me = owner_of(m, e);
    bool is_news = me.ttl_at_ms > e->now_ms;

    SB_CHECK(m->held && m->claim == SB_CLAIM_MINE, "only a term that is held is renewed");
    if (is_news) {
        m->failures = 0;
        m->attempt_at_ms = me.ttl_at_ms;
    } else {
        retry_later(m, e->now_ms);
    }
    me.fence = m->fence;
    if (m->status != SIMBA_RUNNING)
        return;
    sb_machine_set_owner(m, &me, step);
    step->renewed = is_news && m->tells_renewals;
    if (step->renewed) {
        step->state.before = me;
        step->state.after = me;
    }
}

/* ---- Whose record it is ---------------------------------------------------------------------- */

static bool finds_other_term(const struct sb_event *e)
{
    return e->named != 0 && e->fence != 0 && e->fence != e->named;
}

/* Whether the record, which has no token, was changed by another contender with my id, as far as
 * counting tells. */
static bool has_foreign_change(const struct sb_machine *m, const struct sb_event *e)
{
    return e->fence == 0 && e->revision_counts && e->revision > m->revision &&
           e->revision - m->revision > m->open;
}

/* Whether the record that a reply calls mine is of another term than the one that I know: a rival
 * with my id has acquired it. A RELEASE may also find what a late ACQUIRE of my own has left, as
 * long as one can be under way. For a GUARD, or a READ of a stop, that makes no difference: it is
 * not the term that was named.
 *
 *     revision   10        11         12         13      told: 10, now 13; two of mine are open,
 *                 |- open --|-- open --|- GUARD --|      and this GUARD is one of them: one change
 *                                                        was not mine
 */
static bool is_foreign(const struct sb_machine *m, const struct sb_event *e)
{
    SB_CHECK(e->answer == SB_ANSWER_MINE, "only a record of my id can be a rival's");
    if (e->op == SIMBA_OP_RELEASE)
        return m->rival ||
               (e->fence != 0 && m->claimed != 0 && e->fence != m->claimed && m->open == 0);
    if (e->named == 0)
        return false;
    if (e->revision < e->named)
        return true; /* a term never has a smaller revision than its token */
    if (e->fence != 0)
        return e->fence != e->named;
    return has_foreign_change(m, e);
}

/* Whether the record that nobody owns any more is of the term that a stop ends: its lease has run
 * out, and no other term has followed. A late GUARD may even bring it back. The RELEASE that names
 * it tells whether it was there until then. */
static bool has_lapsed(const struct sb_machine *m, const struct sb_event *e)
{
    uint64_t own_changes = e->revision_counts ? m->open : 0;

    if (!m->ends_term || e->answer != SB_ANSWER_NOBODY || e->op == SIMBA_OP_RELEASE ||
        e->revision < m->revision)
        return false;
    return e->fence != 0 ? e->fence == m->fence : e->revision - m->revision <= own_changes;
}

/* Reads again when the rival's lease is over; it may be renewed by then. */
static void wait_for_rival(struct sb_machine *m, const struct sb_event *e)
{
    const struct sb_timing *t = m->timing;
    int64_t lease_ms = sb_later(t->ttl_ms, t->transition_ms);
    struct simba_owner rival =
        sb_owner_in_time_left(e->owner, e->now_ms, e->ttl_left_ms,
                              sb_earlier(e->transition_left_ms, lease_ms), t->ttl_ms, e->fence);

    SB_CHECK(!m->held, "a contender that waits for its rival holds nothing");
    m->rival = true;
    m->failures = 0;
    wait_for(m, &rival, e->now_ms);
}

/* The application is told that nobody owns, because it could not tell the rival from itself. What
 * an older generation of this contender has acquired is released; it is no rival. */
static void on_foreign(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    SB_CHECK(e->op == SIMBA_OP_RELEASE || e->named != 0, "only a term that was named has a rival");
    m->claim = m->doubt ? SB_CLAIM_UNKNOWN : SB_CLAIM_NONE;
    sb_machine_find_gone(m);
    if (m->held)
        sb_machine_lose(m, &nobody, e->now_ms, step);
    if (e->fence != 0 && e->fence == m->stray) {
        m->claim = SB_CLAIM_MINE;
        m->revision = e->revision;
        m->claimed = e->fence;
        m->give_back = true;
        return;
    }
    wait_for_rival(m, e);
    if (m->status == SIMBA_STOPPING && e->op == SIMBA_OP_RELEASE && m->callbacks == 0 && !m->doubt)
        sb_machine_finish(m, SIMBA_OK, step);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Where revisions count, each change by this contender adds 1. A change that is known to have
 * happened is not expected again. */
static void settle(struct sb_machine *m, const struct sb_event *e)
{
    uint64_t changes =
        e->answer == SB_ANSWER_MINE && e->revision_counts && m->held && e->revision > m->revision
            ? e->revision - m->revision
            : 1;

    SB_CHECK(sb_machine_may_renew(e->op), "only an ACQUIRE or a GUARD changes a record");
    m->open -= changes < m->open ? changes : m->open;
}

static void on_mine(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    int64_t until_ms = sb_later(e->sent_at_ms, e->transition_left_ms);

    SB_CHECK(e->revision != 0, "a record of mine has a revision");
    SB_CHECK(m->status != SIMBA_STARTING, "an answer ends the start");
    if (until_ms != SIMBA_INFINITE)
        until_ms = sb_later(until_ms, -m->timing->margin_ms);
    if (e->op == SIMBA_OP_RELEASE && has_foreign_change(m, e))
        sb_machine_find_gone(m); /* a rival may have acquired it */
    m->claim = SB_CLAIM_MINE;
    m->revision = e->revision;
    m->claimed = e->fence;
    if (e->op == SIMBA_OP_READ)
        m->held = false; /* a stop has asked, and releases what it found */
    if (e->op == SIMBA_OP_RELEASE) {
        m->held = false;
        retry_later(m, e->now_ms); /* a late acquire of ours has raised the revision meanwhile */
        return;
    }
    if (m->held) {
        m->lease_until_ms = until_ms;
        renew(m, e, step);
        return;
    }
    m->failures = 0;
    if (m->status == SIMBA_RUNNING) {
        if (e->op == SIMBA_OP_ACQUIRE && e->now_ms < until_ms) {
            m->lease_until_ms = until_ms;
            win(m, e, step);
        } else {
            m->give_back = true; /* it came too late to be believed */
            m->attempt_at_ms = e->now_ms;
        }
    }
}

static void on_not_mine(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    SB_CHECK(e->answer == SB_ANSWER_OTHER || e->answer == SB_ANSWER_NOBODY,
             "the store names another owner, or none");
    if (e->answer == SB_ANSWER_OTHER)
        owner = owner_of(m, e);
    m->claim = SB_CLAIM_NONE;
    if (has_lapsed(m, e)) {
        m->claim = SB_CLAIM_MINE;
        m->revision = e->revision;
    } else {
        sb_machine_find_gone(m);
    }
    if (m->doubt)
        m->claim = SB_CLAIM_UNKNOWN;
    m->rival = false;
    /* An ACQUIRE that made nobody the owner is tried again with a back-off, as if it had failed. */
    if (e->op != SIMBA_OP_ACQUIRE || e->answer == SB_ANSWER_OTHER || e->reserved_left_ms > 0)
        m->failures = 0;
    if (m->status == SIMBA_STOPPING && e->op == SIMBA_OP_RELEASE && m->callbacks == 0 &&
        !m->doubt) {
        /* Without callbacks: the machine may release a grant while a callback still runs. */
        sb_machine_finish(m, SIMBA_OK, step);
    } else if (m->held) {
        sb_machine_lose(m, &owner, e->now_ms, step);
    } else {
        sb_machine_set_owner(m, &owner, step);
    }
    if (e->op != SIMBA_OP_ACQUIRE || m->woken || m->doubt)
        m->attempt_at_ms = e->now_ms; /* only an ACQUIRE takes a place in the wait queue */
    else if (e->answer == SB_ANSWER_OTHER)
        contend_later(m, e->place, e->now_ms);
    else if (e->reserved_left_ms > 0)
        m->attempt_at_ms =
            sb_machine_reservation_over_ms(m, e->reserved_left_ms, e->place, e->now_ms);
    else
        retry_later(m, e->now_ms);
    read_later(m, e->now_ms);
}

/* The answer to the READ of a contender that follows. It came after the answers before it and
 * before those behind it, because one request is under way at a time: so what is told is in order.
 * Where it names me, an ACQUIRE of mine has come late, or a rival has my id: the next ACQUIRE finds
 * out. A mutex that is free is left to the waiter that the store has woken. */
static void on_owner_read(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    SB_CHECK(!m->held && m->follows,
             "only a contender that follows reads, and only while it waits");
    m->last_code = e->code;
    if (e->answer == SB_ANSWER_FAILED || e->answer == SB_ANSWER_UNKNOWN) {
        int64_t delay_ms =
            sb_random_between(sb_random_next(&m->random), RETRY_MAX_MS / 2, RETRY_MAX_MS);

        m->read_at_ms = sb_earlier(m->read_at_ms, sb_later(e->now_ms, delay_ms));
    } else if (e->answer != SB_ANSWER_MINE) {
        if (e->answer == SB_ANSWER_OTHER)
            owner = owner_of(m, e);
        sb_machine_set_owner(m, &owner, step);
        step->confirmed = false; /* without a change the state stays as the last callback told it */
    }
    read_later(m, e->now_ms);
    if (m->woken)
        m->attempt_at_ms = e->now_ms;
    m->doubt = false; /* it was about the answer to an ACQUIRE */
}

static void on_failure(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    SB_CHECK(e->code != SIMBA_OK, "a failure has a code");
    m->last_code = e->code;
    if (m->status == SIMBA_STOPPING && m->claim == SB_CLAIM_NONE && e->op == SIMBA_OP_RELEASE) {
        sb_machine_finish(m, e->code, step); /* only the wait queue was to be left */
        return;
    }
    if (e->answer == SB_ANSWER_UNKNOWN && sb_machine_may_renew(e->op))
        m->claim = SB_CLAIM_UNKNOWN;
    if (e->answer == SB_ANSWER_UNKNOWN && e->op == SIMBA_OP_RELEASE)
        m->ends_term = false; /* perhaps that gave it back, and the next one finds nothing */
    retry_later(m, e->now_ms);
}

/* ---- Older generations ----------------------------------------------------------------------- */

/* Whether the record that a grant to an older generation names can be that of a term which is
 * guarded, or will be when the attempt under way is answered: the older request may have been
 * carried out last. */
static bool may_be_needed(const struct sb_machine *m)
{
    return sb_machine_guards(m) || (sb_machine_is_active(m) && m->in_flight == SIMBA_OP_ACQUIRE);
}

/* A reply of an older generation changes nothing here, but what it left on the store is given back.
 * Where a newer term may live in that record it stays. In any case the newer generation does not
 * know any more what the store has of it, and asks when it stops. What a guard or a READ has found
 * is used only while nothing newer runs, which could be what it found. */
static void on_stale_reply(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    bool idle = m->status == SIMBA_INITIAL;
    bool mine = e->answer == SB_ANSWER_MINE && !finds_other_term(e);
    bool news = e->op == SIMBA_OP_ACQUIRE && (mine || e->answer == SB_ANSWER_UNKNOWN);

    SB_CHECK((int32_t)(m->generation - e->generation) >= 0, "no answer is of a later generation");
    if (sb_machine_may_renew(e->op) && e->answer != SB_ANSWER_UNKNOWN &&
        (idle || e->answer == SB_ANSWER_FAILED))
        settle(m, e); /* otherwise it may have changed the record of the term that runs by now */
    if (mine && ((news && !may_be_needed(m)) || (e->op == SIMBA_OP_GUARD && idle) ||
                 (e->op == SIMBA_OP_READ && idle && !m->rival && !m->reading))) {
        step->request.op = SIMBA_OP_RELEASE;
        step->request.revision = e->revision;
    } else if (news && idle) {
        step->request.op = SIMBA_OP_READ;
    }
    if (news && mine && m->stray < e->revision)
        m->stray = e->revision;
    step->request.generation = e->generation;
    step->request.timeout_ms = sb_later(m->timing->ttl_ms, m->timing->transition_ms) / 2;
    if (news && !idle) {
        m->doubt = m->in_flight != SIMBA_OP_NONE;
        if (m->claim == SB_CLAIM_NONE)
            m->claim = SB_CLAIM_UNKNOWN;
    }
}

void sb_machine_take_reply(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    bool answered = e->answer != SB_ANSWER_FAILED && e->answer != SB_ANSWER_UNKNOWN;
    bool foreign;

    SB_CHECK(e->op != SIMBA_OP_NONE, "an answer is to a request");
    SB_CHECK(e->named == 0 || e->op == SIMBA_OP_GUARD || e->op == SIMBA_OP_READ,
             "only a GUARD or a READ names a term");
    if (e->generation != m->generation || e->op != m->in_flight) {
        on_stale_reply(m, e, step);
        return;
    }
    SB_CHECK(m->status != SIMBA_INITIAL, "a stopped machine waits for no answer");
    m->in_flight = SIMBA_OP_NONE;
    if (e->op == SIMBA_OP_READ && m->reading) {
        on_owner_read(m, e, step);
        return;
    }
    if (e->op == SIMBA_OP_RELEASE) {
        m->give_back = false;
        if (answered && !e->missed)
            m->ends_term = false; /* released, whatever the record says now */
    }
    foreign = e->answer == SB_ANSWER_MINE && is_foreign(m, e);
    if (sb_machine_may_renew(e->op) && e->answer != SB_ANSWER_UNKNOWN)
        settle(m, e);
    if (!answered) {
        on_failure(m, e, step);
        return;
    }
    m->last_code = SIMBA_OK;
    if (m->status == SIMBA_STARTING)
        sb_machine_set_status(m, SIMBA_RUNNING);
    if (foreign)
        on_foreign(m, e, step);
    else if (e->answer != SB_ANSWER_MINE)
        on_not_mine(m, e, step);
    else if (e->op == SIMBA_OP_READ && !sb_machine_asks_before_release(m))
        wait_for_rival(m, e);
    else
        on_mine(m, e, step);
    m->doubt = false;
}
