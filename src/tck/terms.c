/*
 * terms.c - cases on terms: in which order they follow each other, and their fencing tokens.
 */
#include "tck/kit.h"
#include "tck/probe.h"

#include <inttypes.h>

/* ---- handover_order: the old owner's on_released has returned before the new term begins ----- */

/* Longer than a whole lease: only renewals keep the mutex exclusive for that long. */
static void clean_up_slowly(struct sb_probe *probe, const struct simba_state *state)
{
    struct sb_kit *kit = probe->kit;

    (void)state;
    sb_kit_linger(sb_kit_lease_ms(kit, SB_KIT_LEASE_CALM) + kit->options.ttl_ms);
}

static void check_predecessor(struct sb_probe *probe, const struct simba_state *state)
{
    struct sb_probe *before = probe->user;

    (void)state;
    sb_kit_check(probe->kit, atomic_load(&before->left) == atomic_load(&before->acquired),
                 "%s began its term while on_released of %s was running", probe->name,
                 before->name);
}

void sb_case_handover_order(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sb_probe *first = sb_probe_create(kit, client, "the first");
    struct sb_probe *second = sb_probe_create(kit, other, "the second");

    if (first == NULL || second == NULL)
        return;
    first->in_released = clean_up_slowly;
    second->in_acquired = check_predecessor;
    second->user = first;
    if (sb_probe_start(first) && sb_probe_await_acquired(first, 1) && sb_probe_start(second) &&
        sb_probe_stop(first) && sb_probe_await_acquired(second, 1))
        sb_probe_stop(second);
}

/* ---- fence_grows: every term has a larger token, and keeps it -------------------------------- */

#define TERMS 6
#define RENEWALS 3

struct watch {
    struct sb_kit *kit;
    simba_client *client;
    struct sb_probe *probe;
    uint64_t fence;
    uint64_t renewals; /* enough of them */
};

static uint64_t renewals_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return simba_client_metrics(client, &metrics) == SIMBA_OK ? metrics.renewals : 0;
}

static bool has_renewed_or_changed(void *argument)
{
    struct watch *watch = argument;

    return simba_contender_fence(watch->probe->contender) != watch->fence ||
           renewals_of(watch->client) >= watch->renewals;
}

static bool check_kept(struct sb_kit *kit, simba_client *client, struct sb_probe *probe)
{
    struct watch watch = {kit, client, probe, atomic_load(&probe->fence),
                          renewals_of(client) + RENEWALS};
    uint64_t fence;

    if (!sb_kit_await(kit, has_renewed_or_changed, &watch, "the lease was renewed three times"))
        return false;
    fence = simba_contender_fence(probe->contender);
    return sb_kit_check(kit, fence == watch.fence,
                        "the token went from %" PRIu64 " to %" PRIu64 " within a term", watch.fence,
                        fence);
}

static bool run_larger_term(struct sb_probe *probe, unsigned times, uint64_t *fence)
{
    uint64_t before = *fence;

    if (!sb_probe_start(probe) || !sb_probe_await_acquired(probe, times))
        return false;
    *fence = atomic_load(&probe->fence);
    return sb_kit_check(probe->kit, *fence > before,
                        "the token of the next term is %" PRIu64 " after %" PRIu64, *fence, before);
}

void sb_case_fence_grows(struct sb_kit *kit)
{
    simba_client *clients[2] = {sb_kit_client(kit, SB_KIT_LEASE_CALM),
                                sb_kit_client(kit, SB_KIT_LEASE_CALM)};
    struct sb_probe *probes[2] = {sb_probe_create(kit, clients[0], "the first"),
                                  sb_probe_create(kit, clients[1], "the second")};
    unsigned terms[2] = {0, 0};
    uint64_t fence = 0;

    if (probes[0] == NULL || probes[1] == NULL)
        return;
    /* first, first, second, second, ...: over restarts of one and from one to the other */
    for (unsigned i = 0; i < TERMS; i++) {
        unsigned who = i / 2 % 2;

        if (!run_larger_term(probes[who], ++terms[who], &fence) ||
            (i == 0 && !check_kept(kit, clients[0], probes[0])) || !sb_probe_stop(probes[who]))
            return;
    }
}

/* ---- equal_ids: two contenders with one id do not both own for longer than a renewal --------- */

struct rivals {
    simba_client *clients[2];
    struct sb_probe *probes[2];
    int leader;        /* the one that owns alone; -1: both do, or none */
    uint64_t renewals; /* of its client, when it began to */
};

static bool owns(const struct rivals *r, int which)
{
    return simba_contender_is_owner(r->probes[which]->contender);
}

/* One of them leads through some renewals, and the other does not own meanwhile. Where the store
 * cannot tell the terms of one id apart, both may lose their leases before that. */
static bool one_leads(void *argument)
{
    struct rivals *r = argument;
    bool first = owns(r, 0);
    bool second = owns(r, 1);
    int leader = first == second ? -1 : second ? 1 : 0;

    if (leader < 0 || leader != r->leader) {
        r->leader = leader;
        r->renewals = leader < 0 ? 0 : renewals_of(r->clients[leader]);
        return false;
    }
    return renewals_of(r->clients[leader]) >= r->renewals + RENEWALS;
}

/* A store that has an entry for each contender lets the second wait like any other. */
static bool second_owns_or_waits(void *argument)
{
    struct rivals *r = argument;

    return atomic_load(&r->probes[1]->acquired) > 0 ||
           renewals_of(r->clients[0]) >= r->renewals + RENEWALS;
}

void sb_case_equal_ids(struct sb_kit *kit)
{
    struct rivals r = {.leader = -1};

    for (int i = 0; i < 2; i++) {
        r.clients[i] = sb_kit_client(kit, SB_KIT_LEASE_CALM);
        r.probes[i] = sb_probe_create_with(kit, r.clients[i], i == 0 ? "the first" : "the second",
                                           "tck-twin", SIMBA_UNSET);
    }
    if (r.probes[0] == NULL || r.probes[1] == NULL || !sb_probe_start(r.probes[0]) ||
        !sb_probe_await_acquired(r.probes[0], 1))
        return;
    r.renewals = renewals_of(r.clients[0]);
    if (!sb_probe_start(r.probes[1]) ||
        !sb_kit_await(kit, second_owns_or_waits, &r, "the second owned, or waited") ||
        !sb_kit_await(kit, one_leads, &r, "only one of two contenders with the same id owned"))
        return;
    sb_probe_stop(r.probes[0]);
    sb_probe_stop(r.probes[1]);
}
