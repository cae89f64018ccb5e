/*
 * check.c - the judge of beliefs, tokens and the store's history. Like all judges it sees what can
 * be seen from outside, in true time, and must not look into a machine. The numbers are those of
 * the invariants in docs/internals/simulator.md.
 *
 * A term that was taken away by force, with the store's data or by a contender with the same id is
 * void: nobody can protect it, so it may overlap. But it must end within its lease, and its writes
 * must bounce off the fenced resource. So may a belief that rests on the word of a server which was
 * deposed: it ends within a lease of that.
 */
#include "sim.h"

#include <stdarg.h>
#include <string.h>

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

bool sim_check_believes(const struct sim_world *w, int member)
{
    return w->check.seen[member].until_us > w->now_us;
}

/* Whether the process has run all the time since `since_us`. */
bool sim_check_has_run(const struct sim_world *w, int member, int64_t since_us)
{
    return w->processes[w->members[member].process].paused_until_us < since_us;
}

/* Whether nobody can protect its term. */
static bool is_excused(const struct sim_world *w, int member)
{
    return w->check.seen[member].voided_us != 0 || w->check.seen[member].deposed_us != 0;
}

/* Somebody besides `member` who believes in a term that is not excused, or SIM_NOBODY. */
static int other_believer(const struct sim_world *w, int member)
{
    for (int i = 0; i < w->member_count; i++) {
        if (i != member && sim_check_believes(w, i) && !is_excused(w, i))
            return i;
    }
    return SIM_NOBODY;
}

/* ---- Beliefs and tokens ---------------------------------------------------------------------- */

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
    if (token <= c->last_token && !is_excused(w, member) && !w->options->beyond_drift)
        sim_violate(w, "3: %s has token %llu after %llu", id_of(w, member),
                    (unsigned long long)token, (unsigned long long)c->last_token);
    if (token > c->last_token && seen->deposed_us == 0)
        c->last_token = token;
    seen->last_token = token;
    seen->token = token;
    seen->term = ++c->terms;
    w->counts[SIM_TERMS]++;
    sim_trace(w, "%s believes, token %llu", id_of(w, member), (unsigned long long)token);
}

static void check_overlap(struct sim_world *w, int member)
{
    int other = other_believer(w, member);

    if (other == SIM_NOBODY)
        return;
    w->counts[SIM_OVERLAPS]++;
    if (!w->options->beyond_drift && !is_excused(w, member))
        sim_violate(w, "1: %s and %s believe at the same time", id_of(w, member), id_of(w, other));
}

/* Where a row has no token, and answers of its own were lost, it cannot know which changes were a
 * twin's. */
static bool may_miss_rival(const struct sim_world *w, int member)
{
    return !w->store.tells_fence && sim_has_twins(w) && w->check.seen[member].unsettled > 0;
}

/* A twin's lease may be the longer one, and nobody shortens it. */
static void check_excused(struct sim_world *w, int member, int64_t until_us)
{
    const struct sim_seen *seen = &w->check.seen[member];
    const struct sb_timing *t = &w->members[member].timing;
    int64_t lease_ms = sim_has_twins(w) ? w->lease_ms : t->ttl_ms + t->transition_ms;
    int64_t lease_us = lease_ms * SIM_MS;

    if (w->options->beyond_drift)
        return;
    if (seen->voided_us != 0 && !seen->restored && !may_miss_rival(w, member) &&
        until_us > seen->voided_us + lease_us)
        sim_violate(w, "6: %s renews a lease that was taken away", id_of(w, member));
    if (seen->deposed_us != 0 && until_us > seen->deposed_us + lease_us)
        sim_violate(w, "2: %s believes a server for longer than a lease after that was deposed",
                    id_of(w, member));
}

/* A belief lasts no longer than the store's answers allow, nor does its ttl. */
static void check_proved(struct sim_world *w, int member, int64_t until_us, int64_t ttl_us)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (until_us > seen->proved_us)
        sim_violate(w, "2: %s believes for longer than its lease has been proved",
                    id_of(w, member));
    if (ttl_us > seen->proved_ttl_us || ttl_us > until_us)
        sim_violate(w, "2: the ttl of %s lasts longer than it was given", id_of(w, member));
}

void sim_check_belief(struct sim_world *w, int member, int64_t until_us, int64_t ttl_us,
                      uint64_t token)
{
    struct sim_seen *seen = &w->check.seen[member];
    bool news = until_us != seen->until_us;

    if (until_us <= w->now_us) {
        if (seen->until_us != 0)
            sim_check_belief_ended(w, member);
        seen->until_us = 0;
        return;
    }
    if (!sim_check_believes(w, member))
        begin_term(w, member, token);
    else if (token != seen->token)
        sim_violate(w, "3: %s changes its token from %llu to %llu within a term", id_of(w, member),
                    (unsigned long long)seen->token, (unsigned long long)token);
    seen->until_us = until_us;
    seen->last_until_us = until_us;
    seen->ttl_us = ttl_us;
    check_proved(w, member, until_us, ttl_us);
    if (news) {
        check_excused(w, member, until_us);
        sim_check_guard_wanted(w, member, ttl_us);
    }
    check_overlap(w, member);
}

/* The store has answered that the member owns. */
void sim_check_proof(struct sim_world *w, int member, int64_t until_us, int64_t ttl_us)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (seen->proved_us < until_us)
        seen->proved_us = until_us;
    if (seen->proved_ttl_us < ttl_us)
        seen->proved_ttl_us = ttl_us;
    if (!seen->handing_over)
        return;
    seen->kept_until_us = until_us;
    sim_check_guard_wanted(w, member, ttl_us);
}

/* ---- The store's history --------------------------------------------------------------------- */

void sim_check_grant(struct sim_world *w, int member, uint64_t revision, bool old)
{
    struct sim_check *c = &w->check;
    struct sim_seen *seen = &c->seen[member];
    int other = other_believer(w, member);

    if (!w->options->beyond_drift && seen->deposed_us == 0) {
        if (other != SIM_NOBODY)
            sim_violate(w, "2: the store grants %s while %s believes", id_of(w, member),
                        id_of(w, other));
        sim_check_losses_told(w, member);
        sim_check_guards(w, member);
    }
    /* An old request may bring back what was taken away while the term is believed in. The machine
     * cannot tell; the tokens of others in between are larger than its own. */
    if (seen->voided_us != 0 && old)
        seen->restored = true;
    if (revision <= c->last_grant)
        sim_violate(w, "3: the store's revision goes back");
    c->last_grant = revision;
    seen->grants[seen->grant_count++ % SIM_GRANTS] = revision;
}

/* `owner` is the member whose term it is: a probe renews any of its id, and so does a row that does
 * not know tokens. */
void sim_check_renewal(struct sim_world *w, int member, int owner, bool foreign)
{
    int other = other_believer(w, member);

    w->counts[SIM_RENEWALS]++;
    if (foreign && w->store.tells_fence)
        sim_violate(w, "6: a guard of %s renews another term than its own", id_of(w, member));
    if (foreign || owner != member || w->check.seen[member].deposed_us != 0)
        return;
    if (other != SIM_NOBODY && !w->options->beyond_drift)
        sim_violate(w, "2: the store renews %s while %s believes", id_of(w, member),
                    id_of(w, other));
}

void sim_check_release(struct sim_world *w, int member)
{
    const struct sim_seen *seen = &w->check.seen[member];

    if (is_excused(w, member))
        return;
    if (sim_check_believes(w, member))
        sim_violate(w, "6: the record of %s is released while it believes", id_of(w, member));
    if (seen->handing_over && seen->kept_until_us > w->now_us)
        sim_violate(w, "hand-over: the record of %s is released before on_released has returned",
                    id_of(w, member));
}

void sim_check_voided(struct sim_world *w, int member)
{
    struct sim_seen *seen = &w->check.seen[member];

    if (sim_check_believes(w, member))
        w->counts[SIM_VOIDED]++;
    seen->voided_us = w->now_us;
    seen->voided_to = w->check.last_grant;
}

/* ---- Contenders with the same id ------------------------------------------------------------- */

/* Whether a member could tell that what its guard found is not its own: the store says so, or it
 * knows the outcome of all that it has asked. */
static bool could_know(const struct sim_world *w, const struct sim_request *r)
{
    return w->store.tells_fence || w->check.seen[r->member].unsettled == 0;
}

/* Where changes are only counted, a twin's guard looks as if that had taken the term, and so does a
 * late one of a life before, which had the same id. */
bool sim_check_may_mistake(const struct sim_world *w, const struct sim_request *r)
{
    return !w->store.tells_fence && r->fence != 0 && (r->life > 0 || sim_has_twins(w));
}

/* What it found may be its own, of a request whose outcome it does not know. It leaves that alone
 * as it leaves a rival's, and it runs out by itself. */
static void excuse_stray(struct sim_world *w, const struct sim_request *r)
{
    struct sim_record *record = &w->store.record;

    bool known = r->reply_fence == w->check.seen[r->member].stray;

    if (record->owner.member == r->member &&
        (!w->store.tells_fence || (record->fence == r->reply_fence && !known)))
        record->owner.given_up = true;
}

/* Whether the member has guarded or looked for its term, and was told that its id owns. */
static bool finds_own_id(const struct sim_world *w, const struct sim_request *r,
                         const struct sb_event *event)
{
    return sim_request_is_current(w, r) && !w->members[r->member].observer &&
           event->answer == SB_ANSWER_MINE && r->fence != 0;
}

/* Before the answer is taken in for a stop, which may end with it; behind it for a belief that ends
 * with it. */
void sim_check_excused(struct sim_world *w, const struct sim_request *r,
                       const struct sb_event *event)
{
    if (!finds_own_id(w, r, event))
        return;
    if (r->foreign)
        excuse_stray(w, r);
    else if (sim_check_may_mistake(w, r) && w->store.record.owner.member == r->member &&
             !sim_check_believes(w, r->member))
        w->store.record.owner.given_up = true;
}

/* A guard that finds another term of its id ends the belief; one that renews its own does not. */
void sim_check_foreign(struct sim_world *w, const struct sim_request *r,
                       const struct sb_event *event, const struct sim_seen *before)
{
    const struct sim_seen *seen = &w->check.seen[r->member];
    bool believed = before->until_us > w->now_us && before->term == r->term;

    if (!finds_own_id(w, r, event))
        return;
    sim_check_excused(w, r, event);
    if (r->foreign) {
        w->counts[SIM_FOREIGN]++;
        if (could_know(w, r))
            sim_check_deposed(w, r->member, r->term, "its guard found another term of its id");
    } else if (!sim_check_may_mistake(w, r) && believed && before->phase == SIM_UP &&
               r->as_of_ms == 0 && seen->proved_us > w->now_us &&
               !sim_check_believes(w, r->member)) {
        sim_violate(w, "10: %s gives up a lease that was renewed", id_of(w, r->member));
    }
}

void sim_check_write(struct sim_world *w, uint64_t token, uint64_t term)
{
    struct sim_check *c = &w->check;

    if (token < c->resource_token) {
        w->counts[SIM_REFUSED_WRITES]++;
        return;
    }
    w->counts[SIM_WRITES]++;
    if (token == c->resource_token && term != c->resource_term)
        sim_violate(w, "fence: the resource takes writes of two terms with token %llu",
                    (unsigned long long)token);
    c->resource_token = token;
    c->resource_term = term;
}
