/*
 * contract.c - the case that puts requests straight to the backend, past the contention machine,
 * and holds the answers against the list of operations in backend.h.
 *
 * The other cases show that leaders come and go as they should; this one finds what they could only
 * meet by bad luck: a release of somebody else's term, a renewal that makes an owner.
 */
#include "tck/kit.h"
#include "tck/shim.h"

#include <inttypes.h>
#include <string.h>

#define NOBODY ""
#define X "tck-x"
#define Y "tck-y"

struct contract {
    struct sb_kit *kit;
    simba_client *client;
    struct sb_shim *shim;
    int64_t transition_ms;        /* of the leases asked for */
    struct sb_shim_answer answer; /* the last one */
};

static bool ask(struct contract *c, enum simba_op op, const char *id, uint64_t revision)
{
    struct sb_kit *kit = c->kit;
    struct simba_request request = {.op = op,
                                    .mutex = kit->mutex,
                                    .id = id,
                                    .ttl_ms = kit->options.ttl_ms,
                                    .transition_ms = c->transition_ms,
                                    .revision = revision,
                                    .timeout_ms = sb_kit_patience_ms(kit)};
    int code = sb_shim_call(c->shim, &request, 2 * sb_kit_patience_ms(kit), &c->answer);

    return sb_kit_check_ok(kit, code, NULL, "waiting for the backend's answer") &&
           sb_kit_check(kit, c->answer.code == SIMBA_OK, "the backend answered %d: %s",
                        c->answer.code, c->answer.text);
}

/* An owner whose lease is over is as good as nobody. */
static const char *owner_of(const struct sb_shim_answer *answer)
{
    return answer->transition_left_ms > 0 ? answer->owner : NOBODY;
}

/* A release that gives nothing back need not name the owner; every other answer does. */
static bool names_owner(const struct contract *c, enum simba_op op, uint64_t revision,
                        const char *owner)
{
    return (op == SIMBA_OP_RELEASE && revision == 0) || strcmp(owner_of(&c->answer), owner) == 0;
}

/* Asks and compares the owner, in the answer and by a READ behind it. */
static bool expect(struct contract *c, const char *what, enum simba_op op, const char *id,
                   uint64_t revision, const char *owner)
{
    struct sb_shim_answer answer;

    if (!ask(c, op, id, revision))
        return false;
    answer = c->answer;
    if (!sb_kit_check(c->kit, names_owner(c, op, revision, owner),
                      "%s: the answer names '%s' as the owner, not '%s'", what, answer.owner,
                      owner) ||
        !ask(c, SIMBA_OP_READ, NULL, 0) ||
        !sb_kit_check(c->kit, strcmp(owner_of(&c->answer), owner) == 0,
                      "%s: afterwards the owner is '%s', not '%s'", what, c->answer.owner, owner))
        return false;
    c->answer = answer;
    return true;
}

/* A RELEASE says whether it found the record that it names: an owner learns by that of a term that
 * was taken away. */
static bool expect_release(struct contract *c, const char *what, const char *id, uint64_t revision,
                           const char *owner, bool missed)
{
    return expect(c, what, SIMBA_OP_RELEASE, id, revision, owner) &&
           sb_kit_check(c->kit, c->answer.missed == missed, "%s: the answer says that it %s", what,
                        c->answer.missed ? "missed its record" : "found its record");
}

static bool check_larger(struct contract *c, const char *what, uint64_t before)
{
    return sb_kit_check(c->kit, c->answer.revision > before,
                        "%s: revision %" PRIu64 " after %" PRIu64, what, c->answer.revision,
                        before);
}

/* The time left is never more than what was asked for: the owner would believe for too long. */
static bool check_time_left(struct contract *c, const char *what)
{
    int64_t ttl_ms = c->kit->options.ttl_ms;

    if (c->answer.transition_left_ms == SIMBA_INFINITE)
        return true;
    return sb_kit_check(c->kit,
                        c->answer.ttl_left_ms <= ttl_ms &&
                            c->answer.transition_left_ms <= ttl_ms + c->transition_ms &&
                            c->answer.transition_left_ms >= c->answer.ttl_left_ms,
                        "%s: %" PRId64 " ms of ttl and %" PRId64 " ms of the lease are left", what,
                        c->answer.ttl_left_ms, c->answer.transition_left_ms);
}

/* ---- Nobody owns ----------------------------------------------------------------------------- */

static bool check_nobody(struct contract *c)
{
    return expect(c, "READ of an unknown mutex", SIMBA_OP_READ, NULL, 0, NOBODY) &&
           expect(c, "GUARD of an unknown mutex", SIMBA_OP_GUARD, X, 0, NOBODY) &&
           expect_release(c, "RELEASE of an unknown mutex", X, 1, NOBODY, true);
}

/* ---- X owns ---------------------------------------------------------------------------------- */

static bool is_listed(struct contract *c)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;
    bool found = false;
    int code =
        simba_client_status(c->client, NULL, sb_kit_patience_ms(c->kit), &list, &count, &error);

    if (!sb_kit_check_ok(c->kit, code, &error, "listing all mutexes"))
        return false;
    for (size_t i = 0; i < count; i++)
        found = found ||
                (strcmp(list[i].mutex, c->kit->mutex) == 0 && strcmp(list[i].owner.id, X) == 0);
    simba_free(list);
    return sb_kit_check(c->kit, found, "LIST does not tell the owner of a mutex");
}

/* A stranger's requests leave the owner alone. Its last one takes it out of the wait queue. */
static bool check_stranger(struct contract *c, uint64_t revision)
{
    return expect(c, "ACQUIRE of a mutex that is owned", SIMBA_OP_ACQUIRE, Y, 0, X) &&
           expect(c, "GUARD by a stranger", SIMBA_OP_GUARD, Y, 0, X) &&
           expect_release(c, "RELEASE by a stranger", Y, revision, X, true);
}

/* So do the owner's own, when they name another record than the present one. */
static bool check_wrong_revision(struct contract *c, uint64_t revision)
{
    return expect_release(c, "RELEASE of a revision to come", X, revision + 1000, X, true) &&
           expect_release(c, "RELEASE without a revision", X, 0, X, false);
}

/* A stop that does not know what it left looks for it, and then releases that revision. */
static bool check_own_look(struct contract *c, uint64_t revision)
{
    return expect(c, "READ by the owner", SIMBA_OP_READ, X, 0, X) &&
           sb_kit_check(c->kit, c->answer.revision == revision,
                        "READ by the owner: revision %" PRIu64 ", not %" PRIu64, c->answer.revision,
                        revision);
}

/* Leaves X as the owner; *ret_revision is the record's. */
static bool check_owned(struct contract *c, uint64_t *ret_revision)
{
    uint64_t first;
    uint64_t guarded;

    if (!expect(c, "ACQUIRE of a free mutex", SIMBA_OP_ACQUIRE, X, 0, X) ||
        !check_larger(c, "ACQUIRE of a free mutex", 0) || !check_time_left(c, "ACQUIRE"))
        return false;
    first = c->answer.revision;
    if (!is_listed(c) || !check_own_look(c, first) || !check_stranger(c, first) ||
        !check_wrong_revision(c, first) ||
        !expect(c, "GUARD by the owner", SIMBA_OP_GUARD, X, 0, X) || !check_time_left(c, "GUARD"))
        return false;
    guarded = c->answer.revision;
    if (!sb_kit_check(c->kit, guarded >= first, "GUARD: revision %" PRIu64 " after %" PRIu64,
                      guarded, first) ||
        (guarded != first && !expect_release(c, "RELEASE of an old revision", X, first, X, true)) ||
        !expect(c, "ACQUIRE by the owner", SIMBA_OP_ACQUIRE, X, 0, X) ||
        !check_larger(c, "ACQUIRE by the owner", guarded) ||
        !expect_release(c, "RELEASE of an old revision", X, guarded, X, true) ||
        !ask(c, SIMBA_OP_READ, NULL, 0))
        return false;
    *ret_revision = c->answer.revision;
    return true;
}

static bool check_released(struct contract *c, uint64_t revision)
{
    return expect_release(c, "RELEASE by the owner", X, revision, NOBODY, false) &&
           expect_release(c, "RELEASE for the second time", X, revision, NOBODY, true) &&
           expect(c, "GUARD after the release", SIMBA_OP_GUARD, X, 0, NOBODY);
}

/* ---- The term is taken away ------------------------------------------------------------------ */

/* Another client takes the mutex from its owner, which has not been told when it gives the mutex
 * back: once while nobody owns, once while the next one does. Leaves nobody as the owner. */
static bool check_taken_away(struct contract *c, simba_client *other, bool is_owned_again)
{
    struct sb_kit *kit = c->kit;
    struct simba_owner taken = SIMBA_OWNER_NONE;
    struct simba_error error;
    uint64_t first;
    int code;

    if (!expect(c, "ACQUIRE of a free mutex", SIMBA_OP_ACQUIRE, X, 0, X))
        return false;
    first = c->answer.revision;
    code = simba_client_force_release(other, kit->mutex, sb_kit_patience_ms(kit), &taken, &error);
    if (!sb_kit_check_ok(kit, code, &error, "taking the mutex from its owner") ||
        !sb_kit_check(kit, strcmp(taken.id, X) == 0, "it was taken from '%s'", taken.id))
        return false;
    if (!is_owned_again)
        return expect_release(c, "RELEASE of what was taken away", X, first, NOBODY, true);
    return expect(c, "ACQUIRE of what was taken away", SIMBA_OP_ACQUIRE, Y, 0, Y) &&
           expect_release(c, "RELEASE of what another has", X, first, Y, true) &&
           ask(c, SIMBA_OP_READ, NULL, 0) &&
           expect_release(c, "RELEASE by the next owner", Y, c->answer.revision, NOBODY, false);
}

/* ---- The lease runs out ---------------------------------------------------------------------- */

struct takeover {
    struct contract *contract;
    bool broken;
};

static bool has_taken_over(void *argument)
{
    struct takeover *takeover = argument;
    struct contract *c = takeover->contract;

    takeover->broken = !ask(c, SIMBA_OP_ACQUIRE, X, 0);
    return takeover->broken || strcmp(c->answer.owner, X) == 0;
}

/* Y owns and is silent. X tries all the time, and wins when the lease has ended, not before. */
static bool check_takeover(struct contract *c, uint64_t before)
{
    int64_t lease_ms = sb_kit_lease_ms(c->kit, SB_KIT_LEASE_PLAIN);
    int64_t end_ms = simba_now_ms() + lease_ms - simba_drift_margin_ms(lease_ms);
    struct takeover takeover = {c, false};
    uint64_t revision;

    if (!expect(c, "ACQUIRE by the next owner", SIMBA_OP_ACQUIRE, Y, 0, Y) ||
        !check_larger(c, "ACQUIRE by the next owner", before))
        return false;
    revision = c->answer.revision;
    if (!sb_kit_await(c->kit, has_taken_over, &takeover, "a lease that nobody renews ends") ||
        takeover.broken || !check_larger(c, "ACQUIRE after the end of a lease", revision))
        return false;
    return sb_kit_check(c->kit, simba_now_ms() >= end_ms,
                        "a lease was taken over before it had ended") &&
           expect(c, "GUARD by the owner before", SIMBA_OP_GUARD, Y, 0, X) &&
           expect_release(c, "RELEASE by the owner before", Y, revision, X, true);
}

/* Nothing left is not the end yet: a store may round, and renew within the millisecond. */
static bool has_ended(void *argument)
{
    struct contract *c = argument;

    return ask(c, SIMBA_OP_READ, NULL, 0) &&
           (strcmp(c->answer.owner, NOBODY) == 0 || c->answer.transition_left_ms < 0);
}

/* X owns; its lease ends and nobody takes over: a renewal comes too late all the same. */
static bool check_late_guard(struct contract *c)
{
    return sb_kit_await(c->kit, has_ended, c, "a lease that nobody renews ends") &&
           expect(c, "GUARD after the end of the lease", SIMBA_OP_GUARD, X, 0, NOBODY);
}

void sb_case_contract(struct sb_kit *kit)
{
    struct contract c = {.kit = kit};
    simba_client *other;
    uint64_t revision = 0;

    c.client = sb_kit_client_with_shim(kit, SB_KIT_LEASE_CALM, sb_kit_patience_ms(kit), &c.shim);
    c.transition_ms = sb_kit_lease_ms(kit, SB_KIT_LEASE_CALM) - kit->options.ttl_ms;
    if (c.client == NULL || !check_nobody(&c) || !check_owned(&c, &revision) ||
        !check_released(&c, revision))
        return;
    other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    if (other == NULL || !check_taken_away(&c, other, false) || !check_taken_away(&c, other, true))
        return;
    c.transition_ms = kit->options.transition_ms;
    if (sb_shim_has_sessions(c.shim))
        sb_kit_note(kit, "leases are sessions: none was let run out");
    else if (check_takeover(&c, revision))
        check_late_guard(&c);
}
