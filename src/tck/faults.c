/*
 * faults.c - cases in which the store does not answer, answers late or refuses.
 */
#include "tck/kit.h"
#include "tck/probe.h"
#include "tck/shim.h"

#include <inttypes.h>

/* ---- self_fence: who cannot renew lets go by its own clock ----------------------------------- */

enum silence {
    SILENCE_REQUESTS, /* nothing reaches the store */
    SILENCE_REPLIES,  /* everything does, but no answer comes back */
    SILENCE_REFUSED,  /* every request fails */
    SILENCE_COUNT
};

struct fencing {
    struct sb_kit *kit;
    struct sb_shim *shim;
    struct sb_probe *cut_off;
    struct sb_probe *waiter;
};

static void fall_silent(struct sb_shim *shim, enum silence silence)
{
    if (silence == SILENCE_REQUESTS)
        sb_shim_hold_requests(shim, SB_SHIM_ALL);
    else if (silence == SILENCE_REPLIES)
        sb_shim_hold_replies(shim, SB_SHIM_ALL);
    else
        sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
}

/* The heart of the case. The time is read before the question, so that a slow machine cannot make a
 * true "no" look late. */
static bool has_let_go(void *argument)
{
    struct fencing *f = argument;
    int64_t lease_ms = sb_kit_lease_ms(f->kit, SB_KIT_LEASE_PLAIN);
    int64_t end_ms = sb_shim_leased_at_ms(f->shim) + lease_ms;
    int64_t now_ms = simba_now_ms();
    bool owner = simba_contender_is_owner(f->cut_off->contender);

    sb_kit_check(f->kit, !owner || now_ms < end_ms,
                 "the owner still believes %" PRId64 " ms after its lease of %" PRId64
                 " ms has ended",
                 now_ms - end_ms, lease_ms);
    return !owner;
}

static void check_alone(struct sb_probe *probe, const struct simba_state *state)
{
    struct sb_probe *cut_off = probe->user;

    (void)state;
    sb_kit_check(probe->kit, !simba_contender_is_owner(cut_off->contender),
                 "%s began its term while %s believed that it owns", probe->name, cut_off->name);
}

static bool check_larger(struct sb_kit *kit, const char *who, uint64_t fence, uint64_t before)
{
    return sb_kit_check(kit, fence > before, "%s has token %" PRIu64 " after %" PRIu64, who, fence,
                        before);
}

/* One round: won, cut off, let go, the waiter takes over, store answers again, won again. */
static bool run_round(struct fencing *f, enum silence silence, unsigned round)
{
    unsigned terms = 2 * round;
    uint64_t fence = atomic_load(&f->cut_off->fence);

    fall_silent(f->shim, silence);
    if (!sb_probe_start(f->waiter) ||
        !sb_kit_await(f->kit, has_let_go, f, "the owner that is cut off lets go") ||
        !sb_probe_await_released(f->cut_off, terms + 1) ||
        !sb_probe_await_acquired(f->waiter, round + 1) ||
        !check_larger(f->kit, "the waiter", atomic_load(&f->waiter->fence), fence))
        return false;
    sb_kit_check(f->kit, atomic_load(&f->cut_off->acquired) == terms + 1,
                 "a contender won while it was cut off");
    sb_shim_let_go(f->shim);
    if (!sb_probe_stop(f->waiter) || !sb_probe_await_acquired(f->cut_off, terms + 2))
        return false;
    return check_larger(f->kit, "the next term", atomic_load(&f->cut_off->fence),
                        atomic_load(&f->waiter->fence));
}

void sb_case_self_fence(struct sb_kit *kit)
{
    struct fencing f = {.kit = kit};
    simba_client *client =
        sb_kit_client_with_shim(kit, SB_KIT_LEASE_PLAIN, sb_kit_patience_ms(kit), &f.shim);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);

    f.cut_off = sb_probe_create(kit, client, "the one cut off");
    f.waiter = sb_probe_create(kit, other, "the waiter");
    if (f.cut_off == NULL || f.waiter == NULL)
        return;
    f.waiter->in_acquired = check_alone;
    f.waiter->user = f.cut_off;
    for (unsigned round = 0; round < SILENCE_COUNT; round++) {
        if (!sb_probe_start(f.cut_off) || !sb_probe_await_acquired(f.cut_off, 2 * round + 1))
            return;
        if (sb_shim_has_sessions(f.shim)) {
            sb_kit_note(kit, "not applicable: leases are sessions, which end at the store");
            return;
        }
        if (!run_round(&f, (enum silence)round, round) || !sb_probe_stop(f.cut_off))
            return;
    }
}

/* ---- late_reply: an answer to an earlier start changes nothing ------------------------------- */

/* How long a stop waits for the answer that is held back. */
#define LATE_STOP_TIMEOUT_MS 500

struct late {
    struct sb_kit *kit;
    struct sb_shim *shim;
    simba_client *client;
    simba_client *other;
    unsigned count; /* of answers that should wait */
};

static bool has_held(void *argument)
{
    struct late *late = argument;

    return sb_shim_held_replies(late->shim) >= late->count;
}

static bool await_held(struct late *late, unsigned count)
{
    late->count = count;
    return sb_kit_await(late->kit, has_held, late, "the store has answered an ACQUIRE");
}

/* Delivers an answer and waits until the library must have taken it in: the status, which is asked
 * for and answered behind it on the same client, has come. */
static bool deliver_first(struct late *late)
{
    struct simba_mutex_status status;

    sb_shim_let_go_first(late->shim);
    return sb_kit_look(late->kit, late->client, &status);
}

struct renewal {
    simba_client *client;
    struct sb_probe *probe;
};

static bool has_renewed_or_lost(void *argument)
{
    struct renewal *renewal = argument;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return atomic_load(&renewal->probe->released) > 0 ||
           (simba_client_metrics(renewal->client, &metrics) == SIMBA_OK && metrics.renewals > 0);
}

/* Giving back the first grant must not have taken away the second one: its lease can be renewed. */
static bool check_kept(struct late *late, struct sb_probe *probe)
{
    struct renewal renewal = {late->client, probe};

    return sb_kit_await(late->kit, has_renewed_or_lost, &renewal, "the lease is renewed") &&
           sb_kit_check(late->kit, atomic_load(&probe->released) == 0,
                        "the clean-up of an earlier start released the later one's term");
}

/* The grant of the first start arrives after a stop and a second start. */
static bool check_restart(struct late *late, struct sb_probe *probe)
{
    sb_shim_hold_replies(late->shim, SB_SHIM_OP(SIMBA_OP_ACQUIRE));
    if (!sb_probe_start(probe) || !await_held(late, 1) || !sb_probe_stop_unanswered(probe) ||
        !sb_probe_start(probe) || !await_held(late, 2) || !deliver_first(late))
        return false;
    if (!sb_kit_check(late->kit,
                      atomic_load(&probe->acquired) == 0 &&
                          !simba_contender_is_owner(probe->contender),
                      "a late answer to an earlier start made the contender an owner"))
        return false;
    sb_shim_let_go(late->shim);
    return sb_probe_await_acquired(probe, 1) && check_kept(late, probe) &&
           sb_probe_stop_unanswered(probe) && sb_kit_await_free(late->kit, late->other);
}

/* The grant arrives after the stop. Its lease is so long that only a release can free the mutex. */
static bool check_stopped(struct late *late, struct sb_probe *probe)
{
    sb_shim_hold_replies(late->shim, SB_SHIM_OP(SIMBA_OP_ACQUIRE));
    if (!sb_probe_start(probe) || !await_held(late, 1) || !sb_probe_stop_unanswered(probe))
        return false;
    sb_shim_let_go(late->shim);
    return sb_kit_await_free(late->kit, late->other) &&
           sb_kit_check(late->kit, atomic_load(&probe->acquired) == 0,
                        "a grant after the stop made the contender an owner");
}

void sb_case_late_reply(struct sb_kit *kit)
{
    struct late late = {.kit = kit};

    late.client = sb_kit_client_with_shim(kit, SB_KIT_LEASE_CALM, LATE_STOP_TIMEOUT_MS, &late.shim);
    late.other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sb_probe *restarted = sb_probe_create(kit, late.client, "the restarted");
    struct sb_probe *stopped =
        sb_probe_create_with(kit, late.client, "the stopped", NULL, 4 * sb_kit_patience_ms(kit));
    if (late.other != NULL && restarted != NULL && stopped != NULL &&
        check_restart(&late, restarted))
        check_stopped(&late, stopped);
}
