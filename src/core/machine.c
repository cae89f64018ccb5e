/*
 * machine.c - the contention machine. Owns the rules of a contest; must not know clocks, threads,
 * stores or memory.
 *
 * Every step has the same shape: a belief that has run out ends first, then the event is taken in,
 * then the next request is planned, then the deadline is named. So no order of events can stretch a
 * belief, and no event has to think of requests.
 *
 *     RUNNING, not held   ACQUIRE when due and no callback is owed; READ if it follows
 *     RUNNING, held       GUARD from ttl_at on, with back-off, until lease_until ends the belief
 *     STOPPING            GUARD while on_released runs, RELEASE of the exact record, done;
 *                         a READ before it where a lost reply left the record unknown
 *
 * Only a belief ends by the clock. A stopping contender believes in nothing any more; it guards in
 * silence until the store names another owner, so that a clean-up that outlasts a lapse can become
 * exclusive again.
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
 * term, and does not acquire again while its rival lives. It looks by READ, because the store would
 * grant any ACQUIRE.
 *
 * A contender that follows looks by READ, too, while it waits. Such a look tells of changes between
 * others and changes nothing else: it makes nobody an owner, and the next ACQUIRE comes when it
 * would have come.
 */
#include "core/machine.h"

#include "base/check.h"
#include "base/random.h"
#include "core/owner.h"

#include <string.h>

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000
#define GUARD_RETRY_MIN_MS 5
#define REQUEST_TIMEOUT_MIN_MS 10
#define CALLBACKS_MAX 4
#define LEASE_GRAIN_MS 2 /* store and contender both count in whole milliseconds */

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_active(const struct sb_machine *m)
{
    return simba_status_is_active(m->status);
}

static bool believes(const struct sb_machine *m)
{
    return m->held && m->status == SIMBA_RUNNING;
}

/* Whether the record is renewed: for a belief, or for the callbacks of a stop. */
static bool guards(const struct sb_machine *m)
{
    return m->held && (is_active(m) || m->callbacks > 0);
}

/* Whether a stop must learn first which record it is to release, if any. */
static bool asks_before_release(const struct sb_machine *m)
{
    return m->status == SIMBA_STOPPING && m->claim == SB_CLAIM_UNKNOWN;
}

/* Whether it can leave a lease of mine on the store. */
static bool may_renew(enum simba_op op)
{
    return op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;
}

static void set_status(struct sb_machine *m, enum simba_status status)
{
    SB_CHECK(sb_status_may_move(m->status, status), "a status moves as the table says");
    m->status = status;
}

void sb_machine_init(struct sb_machine *m, const struct sb_timing *timing, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->timing = timing;
    m->random = seed;
    m->status = SIMBA_INITIAL;
    m->look_at_ms = SIMBA_INFINITE;
}

void sb_machine_tell_renewals(struct sb_machine *m)
{
    m->tells_renewals = true;
}

void sb_machine_follow(struct sb_machine *m)
{
    m->follows = true;
}

int64_t sb_machine_belief_ms(const struct sb_machine *m)
{
    return believes(m) ? m->lease_until_ms : 0;
}

int64_t sb_machine_ttl_ms(const struct sb_machine *m)
{
    return earliest(m->owner.ttl_at_ms, sb_machine_belief_ms(m));
}

uint64_t sb_machine_fence(const struct sb_machine *m)
{
    return believes(m) ? m->fence : 0;
}

/* ---- What is known of the owner -------------------------------------------------------------- */

/* Takes in the owner, and tells a change once. Several changes within one step are one. A stop has
 * told that nobody owns as far as it knows: what the store says afterwards is not taken in any
 * more. */
static void set_owner(struct sb_machine *m, const struct simba_owner *owner, struct sb_step *step)
{
    bool is_same = strcmp(m->owner.id, owner->id) == 0;

    if (!is_active(m))
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

/* The owner that a reply names. Mine counts from when the request was sent, so that a slow reply
 * shortens the lease; another's counts from now, so that a slow reply does not make us come
 * early. */
static struct simba_owner owner_of(const struct sb_machine *m, const struct sb_event *e)
{
    bool mine = e->answer == SB_ANSWER_MINE;

    return sb_owner_in_time_left(e->owner, mine ? e->sent_at_ms : e->now_ms, e->ttl_left_ms,
                                 e->transition_left_ms, m->timing->ttl_ms,
                                 mine ? e->revision : e->fence);
}

/* ---- When to try again ----------------------------------------------------------------------- */

/* Doubles with every failure in a row, half of it random. An owner must come back several times
 * within its transition; a contender has time, and so has a stop whose lease has lapsed. */
static int64_t retry_delay(struct sb_machine *m, int64_t now_ms)
{
    int64_t transition_ms = m->timing->transition_ms;
    bool hurry = m->held && now_ms < m->lease_until_ms;
    int64_t delay = hurry ? latest(transition_ms / 32, GUARD_RETRY_MIN_MS) : RETRY_MIN_MS;
    int64_t most = hurry ? latest(transition_ms / 8, GUARD_RETRY_MIN_MS) : RETRY_MAX_MS;

    for (unsigned i = 1; i < m->failures && delay < most; i++)
        delay *= 2;
    delay = earliest(delay, most);
    return delay / 2 + sb_random_between(sb_random_next(&m->random), 0, delay / 2 + 1);
}

static void retry_later(struct sb_machine *m, int64_t now_ms)
{
    m->failures++;
    m->attempt_at_ms = sb_later(now_ms, retry_delay(m, now_ms));
}

/* Whether a place in the queue decides when to come. Not past the end of the jitter: the queue may
 * have many that died, and far back there is no telling. */
static bool has_turn(const struct sb_timing *t, int64_t place)
{
    int64_t turns_ms = t->jitter_max_ms - LEASE_GRAIN_MS;

    return t->turn_ms > 0 && place > 0 && turns_ms >= 0 && place - 1 <= turns_ms / t->turn_ms;
}

/* The first comes when the lease has ended by its own clock, the others a turn after each other.
 * Where the store's clock is slower it comes too early, is told how long the lease still lasts, and
 * comes again. Nobody waits for those before it: they may be dead. */
static void take_turn(struct sb_machine *m, int64_t place, int64_t now_ms)
{
    int64_t after_ms = LEASE_GRAIN_MS + (place - 1) * m->timing->turn_ms;

    m->attempt_at_ms = latest(now_ms, sb_later(m->owner.transition_at_ms, after_ms));
}

/* When the lease of `owner` is over and the jitter has passed. */
static void wait_for(struct sb_machine *m, const struct simba_owner *owner, int64_t now_ms)
{
    const struct sb_timing *t = m->timing;
    int64_t delay =
        simba_period_contender_delay_ms(owner, now_ms, t->transition_ms, t->jitter_min_ms,
                                        t->jitter_max_ms, sb_random_next(&m->random));

    m->attempt_at_ms = sb_later(now_ms, delay);
}

static void contend_later(struct sb_machine *m, int64_t place, int64_t now_ms)
{
    if (has_turn(m->timing, place))
        take_turn(m, place, now_ms);
    else
        wait_for(m, &m->owner, now_ms);
}

/* Where the store does not tell when to look. */
static void look_later(struct sb_machine *m, int64_t now_ms)
{
    if (m->follows && m->timing->look_ms > 0)
        m->look_at_ms = earliest(m->look_at_ms, sb_later(now_ms, m->timing->look_ms));
}

/* ---- Winning, renewing, losing --------------------------------------------------------------- */

static void win(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner me = owner_of(m, e);

    m->look_at_ms = SIMBA_INFINITE;
    SB_CHECK(m->callbacks == 0, "nobody wins while callbacks of its last term run");
    m->held = true;
    m->fence = e->revision;
    m->attempt_at_ms = me.ttl_at_ms;
    set_owner(m, &me, step);
    step->acquired = true;
}

/* A stopping contender has told that it does not own any more; it guards in silence. A proof that
 * is older than the ttl says nothing new: the next guard waits as after a failure, or it would
 * follow at once, again and again. */
static void renew(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner me = owner_of(m, e);
    bool is_news = me.ttl_at_ms > e->now_ms;

    if (is_news) {
        m->failures = 0;
        m->attempt_at_ms = me.ttl_at_ms;
    } else {
        retry_later(m, e->now_ms);
    }
    me.fence = m->fence;
    if (m->status != SIMBA_RUNNING)
        return;
    set_owner(m, &me, step);
    step->renewed = is_news && m->tells_renewals;
    if (step->renewed) {
        step->state.before = me;
        step->state.after = me;
    }
}

/* The term ends without our asking for it, in favour of `owner`. */
static void lose(struct sb_machine *m, const struct simba_owner *owner, int64_t now_ms,
                 struct sb_step *step)
{
    m->held = false;
    m->failures = 0;
    m->attempt_at_ms = now_ms;
    set_owner(m, owner, step);
    step->released |= m->status == SIMBA_RUNNING;
}

/* Self-fencing: the belief ends by the clock alone, before the store can grant anybody else. */
static void expire(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    if (believes(m) && now_ms >= m->lease_until_ms)
        lose(m, &nobody, now_ms, step);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* A stop that is given up says so: a callback may still run. A loss is told rather than that the
 * wait queue could not be left: a place there runs out by itself, but another may have owned while
 * the application worked. */
static void finish(struct sb_machine *m, int code, struct sb_step *step)
{
    set_status(m, SIMBA_INITIAL);
    m->held = false;
    m->in_flight = SIMBA_OP_NONE;
    step->stopped = true;
    step->stop_code = m->lost && code != SIMBA_ETIMEDOUT ? SIMBA_ELOST : code;
    m->ends_term = false;
    m->lost = false;
}

/* The store does not have the term that a stop ends. */
static void find_gone(struct sb_machine *m)
{
    m->lost |= m->ends_term;
    m->ends_term = false;
}

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

/* Looks again when the rival's lease is over; it may be renewed by then. */
static void wait_for_rival(struct sb_machine *m, const struct sb_event *e)
{
    const struct sb_timing *t = m->timing;
    int64_t lease_ms = sb_later(t->ttl_ms, t->transition_ms);
    struct simba_owner rival =
        sb_owner_in_time_left(e->owner, e->now_ms, e->ttl_left_ms,
                              earliest(e->transition_left_ms, lease_ms), t->ttl_ms, e->fence);

    m->rival = true;
    m->failures = 0;
    wait_for(m, &rival, e->now_ms);
}

/* The application is told of nobody: it could not tell its rival from itself. What an older
 * generation of my own has acquired is given back; it is no rival. */
static void on_foreign(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    m->claim = m->doubt ? SB_CLAIM_UNKNOWN : SB_CLAIM_NONE;
    find_gone(m);
    if (m->held)
        lose(m, &nobody, e->now_ms, step);
    if (e->fence != 0 && e->fence == m->stray) {
        m->claim = SB_CLAIM_MINE;
        m->revision = e->revision;
        m->claimed = e->fence;
        m->give_back = true;
        return;
    }
    wait_for_rival(m, e);
    if (m->status == SIMBA_STOPPING && e->op == SIMBA_OP_RELEASE && m->callbacks == 0 && !m->doubt)
        finish(m, SIMBA_OK, step);
}

/* Every own change of the record adds 1, where revisions count: what is known to have happened
 * cannot happen again. */
static void settle(struct sb_machine *m, const struct sb_event *e)
{
    uint64_t changes =
        e->answer == SB_ANSWER_MINE && e->revision_counts && m->held && e->revision > m->revision
            ? e->revision - m->revision
            : 1;

    m->open -= changes < m->open ? changes : m->open;
}

static void on_mine(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    int64_t until_ms = sb_later(e->sent_at_ms, e->transition_left_ms);

    if (until_ms != SIMBA_INFINITE)
        until_ms = sb_later(until_ms, -m->timing->margin_ms);
    if (e->op == SIMBA_OP_RELEASE && has_foreign_change(m, e))
        find_gone(m); /* a rival may have acquired it */
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

    if (e->answer == SB_ANSWER_OTHER)
        owner = owner_of(m, e);
    m->claim = SB_CLAIM_NONE;
    if (e->op == SIMBA_OP_RELEASE && !e->missed)
        m->ends_term = false;
    if (has_lapsed(m, e)) {
        m->claim = SB_CLAIM_MINE;
        m->revision = e->revision;
    } else {
        find_gone(m);
    }
    if (m->doubt)
        m->claim = SB_CLAIM_UNKNOWN;
    m->rival = false;
    /* An ACQUIRE that made nobody the owner is tried again with a back-off, as if it had failed. */
    if (e->op != SIMBA_OP_ACQUIRE || e->answer == SB_ANSWER_OTHER)
        m->failures = 0;
    if (m->status == SIMBA_STOPPING && e->op == SIMBA_OP_RELEASE && m->callbacks == 0 &&
        !m->doubt) {
        finish(m, SIMBA_OK, step); /* a grant may be given back while a callback still runs */
    } else if (m->held) {
        lose(m, &owner, e->now_ms, step);
    } else {
        set_owner(m, &owner, step);
    }
    if (e->op != SIMBA_OP_ACQUIRE || m->woken || m->doubt)
        m->attempt_at_ms = e->now_ms; /* only an ACQUIRE takes a place in the wait queue */
    else if (e->answer == SB_ANSWER_OTHER)
        contend_later(m, e->place, e->now_ms);
    else
        retry_later(m, e->now_ms);
    look_later(m, e->now_ms);
}

/* The answer to the look of a contender that follows. It came after the answers before it and
 * before those behind it, because one request is under way at a time: so what is told is in order.
 * Where it names me, an ACQUIRE of mine has come late, or a rival has my id: the next ACQUIRE finds
 * out. A mutex that is free is left to the waiter that the store has woken. */
static void on_look(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    m->last_code = e->code;
    if (e->answer == SB_ANSWER_FAILED || e->answer == SB_ANSWER_UNKNOWN) {
        int64_t delay_ms =
            sb_random_between(sb_random_next(&m->random), RETRY_MAX_MS / 2, RETRY_MAX_MS);

        m->look_at_ms = earliest(m->look_at_ms, sb_later(e->now_ms, delay_ms));
    } else if (e->answer != SB_ANSWER_MINE) {
        if (e->answer == SB_ANSWER_OTHER)
            owner = owner_of(m, e);
        set_owner(m, &owner, step);
        step->confirmed = false; /* without a change the state stays as the last callback told it */
    }
    look_later(m, e->now_ms);
    if (m->woken)
        m->attempt_at_ms = e->now_ms;
    m->doubt = false; /* it was about the answer to an ACQUIRE */
}

static void on_failure(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    m->last_code = e->code;
    if (m->status == SIMBA_STOPPING && m->claim == SB_CLAIM_NONE && e->op == SIMBA_OP_RELEASE) {
        finish(m, e->code, step); /* only the wait queue was to be left */
        return;
    }
    if (e->answer == SB_ANSWER_UNKNOWN && may_renew(e->op))
        m->claim = SB_CLAIM_UNKNOWN;
    if (e->answer == SB_ANSWER_UNKNOWN && e->op == SIMBA_OP_RELEASE)
        m->ends_term = false; /* perhaps that gave it back, and the next one finds nothing */
    retry_later(m, e->now_ms);
}

/* Whether the record that a grant to an older generation names can be that of a term which is
 * guarded, or will be when the attempt under way is answered: the older request may have been
 * carried out last. */
static bool may_be_needed(const struct sb_machine *m)
{
    return guards(m) || (is_active(m) && m->in_flight == SIMBA_OP_ACQUIRE);
}

/* A reply of an older generation changes nothing here, but what it left on the store is given back.
 * Where a newer term may live in that record it stays. In any case the newer generation does not
 * know any more what the store has of it, and asks when it stops. What a guard or a look has found
 * is used only while nothing newer runs, which could be what it found. */
static void on_stale_reply(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    bool idle = m->status == SIMBA_INITIAL;
    bool mine = e->answer == SB_ANSWER_MINE && !finds_other_term(e);
    bool news = e->op == SIMBA_OP_ACQUIRE && (mine || e->answer == SB_ANSWER_UNKNOWN);

    if (may_renew(e->op) && e->answer != SB_ANSWER_UNKNOWN &&
        (idle || e->answer == SB_ANSWER_FAILED))
        settle(m, e); /* otherwise it may have changed the record of the term that runs by now */
    if (mine && ((news && !may_be_needed(m)) || (e->op == SIMBA_OP_GUARD && idle) ||
                 (e->op == SIMBA_OP_READ && idle && !m->rival && !m->looking))) {
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

static void on_reply(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    bool answered = e->answer != SB_ANSWER_FAILED && e->answer != SB_ANSWER_UNKNOWN;
    bool foreign;

    if (e->generation != m->generation || e->op != m->in_flight) {
        on_stale_reply(m, e, step);
        return;
    }
    m->in_flight = SIMBA_OP_NONE;
    if (e->op == SIMBA_OP_READ && m->looking) {
        on_look(m, e, step);
        return;
    }
    if (e->op == SIMBA_OP_RELEASE)
        m->give_back = false;
    foreign = e->answer == SB_ANSWER_MINE && is_foreign(m, e);
    if (may_renew(e->op) && e->answer != SB_ANSWER_UNKNOWN)
        settle(m, e);
    if (!answered) {
        on_failure(m, e, step);
        return;
    }
    m->last_code = SIMBA_OK;
    if (m->status == SIMBA_STARTING)
        set_status(m, SIMBA_RUNNING);
    if (foreign)
        on_foreign(m, e, step);
    else if (e->answer != SB_ANSWER_MINE)
        on_not_mine(m, e, step);
    else if (e->op == SIMBA_OP_READ && !asks_before_release(m))
        wait_for_rival(m, e);
    else
        on_mine(m, e, step);
    m->doubt = false;
}

/* ---- The other events ------------------------------------------------------------------------ */

static void on_start(struct sb_machine *m, int64_t now_ms)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    set_status(m, SIMBA_STARTING);
    m->generation++;
    m->claim = SB_CLAIM_NONE;
    m->failures = 0;
    m->touched = false;
    m->woken = false;
    m->give_back = false;
    m->doubt = false;
    m->rival = false;
    m->look_at_ms = SIMBA_INFINITE;
    m->last_code = SIMBA_OK;
    m->owner = nobody;
    m->attempt_at_ms = sb_later(now_ms, m->timing->initial_delay_ms);
}

/* on_released runs first, while the lease is still guarded; the release comes when it has
 * returned. */
static void on_stop(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    set_owner(m, &nobody, step);
    step->released |= m->held;
    m->ends_term = step->released;
    set_status(m, SIMBA_STOPPING);
    m->failures = 0;
    m->stop_at_ms = sb_later(now_ms, m->timing->stop_timeout_ms);
}

/* What failed under a stop's callbacks were guards; the release that they held up is due at
 * once. */
static void on_returned(struct sb_machine *m, unsigned returned)
{
    SB_CHECK(returned <= m->callbacks, "only callbacks that were asked for return");
    m->callbacks -= returned;
    if (m->status == SIMBA_STOPPING && m->callbacks == 0)
        m->failures = 0;
}

static void on_wake(struct sb_machine *m, int64_t now_ms)
{
    if (!is_active(m) || m->held || !m->touched)
        return;
    if (m->in_flight != SIMBA_OP_NONE)
        m->woken = true;
    else
        m->attempt_at_ms = earliest(m->attempt_at_ms, now_ms);
}

/* An owner knows who owns, and a start will be told. */
static void on_changed(struct sb_machine *m, int64_t now_ms)
{
    if (m->follows && m->status == SIMBA_RUNNING && !m->held)
        m->look_at_ms = earliest(m->look_at_ms, now_ms);
}

/* Whatever is still in flight belongs to the session that ended, hence the new generation. */
static void on_session_lost(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;

    if (m->status == SIMBA_INITIAL)
        return;
    if (m->in_flight == SIMBA_OP_RELEASE)
        m->ends_term = false; /* perhaps it was given back before */
    find_gone(m);
    m->generation++;
    m->in_flight = SIMBA_OP_NONE;
    m->claim = SB_CLAIM_NONE;
    m->give_back = false;
    m->doubt = false;
    m->rival = false;
    if (m->held)
        lose(m, &nobody, now_ms, step);
    else if (m->touched)
        m->attempt_at_ms = now_ms;
}

static void take_in(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    switch (e->type) {
    case SB_EVENT_START:
        on_start(m, e->now_ms);
        break;
    case SB_EVENT_STOP:
        on_stop(m, e->now_ms, step);
        break;
    case SB_EVENT_REPLY:
        on_reply(m, e, step);
        break;
    case SB_EVENT_WAKE:
        on_wake(m, e->now_ms);
        break;
    case SB_EVENT_CHANGED:
        on_changed(m, e->now_ms);
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

static int64_t request_timeout(const struct sb_machine *m, enum simba_op op, int64_t now_ms)
{
    const struct sb_timing *t = m->timing;
    int64_t timeout = op == SIMBA_OP_GUARD || op == SIMBA_OP_READ
                          ? t->transition_ms / 3
                          : sb_later(t->ttl_ms, t->transition_ms) / 2;

    if (m->status == SIMBA_STOPPING)
        timeout = earliest(timeout, m->stop_at_ms - now_ms);
    if (m->looking)
        timeout = earliest(timeout, m->attempt_at_ms - now_ms); /* no attempt waits for a look */
    return latest(timeout, REQUEST_TIMEOUT_MIN_MS);
}

/* Whether a look comes before the next attempt. */
static bool looks(const struct sb_machine *m)
{
    return is_active(m) && !m->held && !m->rival && !m->give_back &&
           m->look_at_ms < m->attempt_at_ms;
}

static void send(struct sb_machine *m, enum simba_op op, int64_t now_ms, struct sb_step *step)
{
    m->in_flight = op;
    m->touched = true;
    m->woken = false;
    m->looking = op == SIMBA_OP_READ && looks(m);
    m->look_at_ms = SIMBA_INFINITE; /* the answer names the owner */
    m->open += may_renew(op);
    step->request.op = op;
    step->request.generation = m->generation;
    step->request.revision = m->claim == SB_CLAIM_MINE ? m->revision : 0;
    step->request.fence = m->held && op != SIMBA_OP_RELEASE ? m->fence : 0;
    step->request.timeout_ms = request_timeout(m, op, now_ms);
}

/* Which request stands next, whenever it is due; SIMBA_OP_NONE while a callback must return
 * first. */
static enum simba_op next_op(const struct sb_machine *m)
{
    if (guards(m))
        return SIMBA_OP_GUARD;
    if (m->give_back)
        return SIMBA_OP_RELEASE;
    if (m->callbacks > 0)
        return SIMBA_OP_NONE;
    if (is_active(m))
        return m->rival || looks(m) ? SIMBA_OP_READ : SIMBA_OP_ACQUIRE;
    return asks_before_release(m) ? SIMBA_OP_READ : SIMBA_OP_RELEASE;
}

/* When it is due. The last requests of a stop wait for nothing but the back-off. */
static int64_t next_at(const struct sb_machine *m)
{
    if (m->status == SIMBA_STOPPING && m->callbacks == 0 && m->failures == 0)
        return 0;
    return looks(m) ? m->look_at_ms : m->attempt_at_ms;
}

static void plan(struct sb_machine *m, int64_t now_ms, struct sb_step *step)
{
    enum simba_op op;

    if (m->status == SIMBA_STOPPING) {
        if (now_ms >= m->stop_at_ms) {
            finish(m, SIMBA_ETIMEDOUT, step);
            return;
        }
        if (!m->touched && m->claim == SB_CLAIM_NONE && m->callbacks == 0) {
            finish(m, SIMBA_OK, step); /* nothing was asked, and nothing older came to light */
            return;
        }
    }
    if (m->status == SIMBA_INITIAL || m->in_flight != SIMBA_OP_NONE ||
        step->request.op != SIMBA_OP_NONE)
        return;
    if (m->attempt_at_ms <= now_ms)
        m->look_at_ms = SIMBA_INFINITE; /* an attempt is a look, too */
    op = next_op(m);
    if (op != SIMBA_OP_NONE && next_at(m) <= now_ms)
        send(m, op, now_ms, step);
}

static int64_t deadline(const struct sb_machine *m)
{
    int64_t at_ms = SIMBA_INFINITE;

    if (m->status == SIMBA_INITIAL)
        return at_ms;
    if (believes(m))
        at_ms = m->lease_until_ms;
    if (m->status == SIMBA_STOPPING)
        at_ms = earliest(at_ms, m->stop_at_ms);
    if (m->in_flight == SIMBA_OP_NONE && next_op(m) != SIMBA_OP_NONE)
        at_ms = earliest(at_ms, next_at(m));
    return at_ms;
}

int sb_machine_step(struct sb_machine *m, const struct sb_event *e, struct sb_step *step)
{
    const char *broken;

    memset(step, 0, sizeof *step);
    if ((e->type == SB_EVENT_START && !sb_status_may_move(m->status, SIMBA_STARTING)) ||
        (e->type == SB_EVENT_STOP && !sb_status_may_move(m->status, SIMBA_STOPPING))) {
        step->deadline_ms = deadline(m);
        return SIMBA_ESTATE;
    }
    expire(m, e->now_ms, step);
    take_in(m, e, step);
    if (step->changed || step->renewed)
        m->callbacks++;
    plan(m, e->now_ms, step);
    step->deadline_ms = deadline(m);
    SB_CHECK(!(step->acquired && step->released), "a step tells of a win or of a loss, not both");
    SB_CHECK(!(step->changed && (step->renewed || step->confirmed)),
             "a step tells of a change or of none, not both");
    broken = sb_machine_broken_rule(m);
    SB_CHECK(broken == NULL, broken);
    return SIMBA_OK;
}

/* ---- Invariants ------------------------------------------------------------------------------ */

const char *sb_machine_broken_rule(const struct sb_machine *m)
{
    if (m->status == SIMBA_INITIAL && (m->held || m->in_flight != SIMBA_OP_NONE))
        return "a stopped machine holds nothing and waits for nothing";
    if (m->status == SIMBA_STARTING && m->held)
        return "nobody owns before the store has answered";
    if (m->held && m->claim == SB_CLAIM_NONE)
        return "who holds has a record on the store";
    if (m->held && m->fence == 0)
        return "every term has a token";
    if (m->held && m->claim == SB_CLAIM_MINE && m->revision < m->fence)
        return "a record's revision never goes below the term's token";
    if (m->callbacks > CALLBACKS_MAX)
        return "at most an acquisition, its loss, the next owner and a stop are owed to the "
               "application";
    if (m->give_back && (m->held || m->claim != SB_CLAIM_MINE))
        return "only a record that is not believed in is given back";
    if (m->look_at_ms != SIMBA_INFINITE && (!m->follows || m->held))
        return "only a contender that follows looks, and only while it waits";
    if (believes(m) && m->owner.id[0] == '\0')
        return "who holds is known as the owner";
    if ((m->ends_term || m->lost) && m->status != SIMBA_STOPPING)
        return "only a stop ends a term";
    return NULL;
}
