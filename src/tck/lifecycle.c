/*
 * lifecycle.c - cases on the life of one contender: it starts, leads, renews, stops, starts again.
 */
#include "tck/kit.h"
#include "tck/probe.h"

#include <inttypes.h>
#include <string.h>

/* ---- start: becomes the owner, and gives the mutex back when it stops ------------------------ */

static void check_is_owner(struct sb_probe *probe, const struct simba_state *state)
{
    const simba_contender *contender = probe->contender;

    sb_kit_check(probe->kit, simba_contender_is_owner(contender),
                 "%s: not the owner inside on_acquired", probe->name);
    sb_kit_check(probe->kit, simba_contender_fence(contender) == state->after.fence,
                 "%s: the token differs from the one that on_acquired was told", probe->name);
}

static void check_is_not_owner(struct sb_probe *probe, const struct simba_state *state)
{
    (void)state;
    sb_kit_check(probe->kit, !simba_contender_is_owner(probe->contender),
                 "%s: still the owner inside on_released", probe->name);
}

static bool check_store_knows(struct sb_kit *kit, simba_client *client, struct sb_probe *probe)
{
    struct simba_mutex_status status;

    return sb_kit_look(kit, client, &status) &&
           sb_kit_check(kit, strcmp(status.owner.id, simba_contender_id(probe->contender)) == 0,
                        "%s owns, but the store says '%s'", probe->name, status.owner.id);
}

/* A lease so long that only a release can free the mutex within the case. */
void sb_case_start(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sb_probe *probe =
        sb_probe_create_with(kit, client, "the contender", NULL, 4 * sb_kit_patience_ms(kit));
    struct simba_mutex_status status;

    if (probe == NULL)
        return;
    probe->in_acquired = check_is_owner;
    probe->in_released = check_is_not_owner;
    if (!sb_kit_check(kit, simba_contender_status(probe->contender) == SIMBA_INITIAL,
                      "a new contender is not INITIAL") ||
        !sb_probe_start(probe) || !sb_probe_await_acquired(probe, 1))
        return;
    if (!sb_kit_check(kit, simba_contender_status(probe->contender) == SIMBA_RUNNING,
                      "an owner is not RUNNING") ||
        !check_store_knows(kit, client, probe) || !sb_probe_stop(probe))
        return;
    sb_kit_check(kit, atomic_load(&probe->released) == 1, "on_released ran %u times for one term",
                 atomic_load(&probe->released));
    /* The stop has returned: the mutex is free now, not at the end of the lease. */
    if (sb_kit_look(kit, client, &status))
        sb_kit_check(kit, status.owner.id[0] == '\0', "the store names '%s' after the stop",
                     status.owner.id);
}

/* ---- restart: a contender that stopped can start again --------------------------------------- */

#define RESTARTS 4

static bool run_term(struct sb_kit *kit, struct sb_probe *probe, unsigned term)
{
    struct simba_error error;

    if (!sb_probe_start(probe) ||
        !sb_kit_check(kit, simba_contender_start(probe->contender, &error) == SIMBA_ESTATE,
                      "a contender could be started twice") ||
        !sb_probe_await_acquired(probe, term) || !sb_probe_stop(probe))
        return false;
    return sb_kit_check(kit, atomic_load(&probe->released) == term,
                        "on_released ran %u times in %u terms", atomic_load(&probe->released),
                        term) &&
           sb_kit_check(kit, simba_contender_stop(probe->contender, &error) == SIMBA_ESTATE,
                        "a contender could be stopped twice");
}

void sb_case_restart(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sb_probe *probe = sb_probe_create(kit, client, "the contender");

    for (unsigned term = 1; probe != NULL && term <= RESTARTS; term++)
        if (!run_term(kit, probe, term))
            return;
}

/* ---- guard: an owner stays the owner for as long as it renews -------------------------------- */

struct pair {
    struct sb_probe *owner;
    struct sb_probe *waiter;
};

static bool owner_changed(void *argument)
{
    struct pair *pair = argument;

    return atomic_load(&pair->owner->released) > 0 || atomic_load(&pair->waiter->acquired) > 0 ||
           !simba_contender_is_owner(pair->owner->contender);
}

static void check_renewals(struct sb_kit *kit, simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    int code = simba_client_metrics(client, &metrics);

    if (!sb_kit_check_ok(kit, code, NULL, "reading the metrics"))
        return;
    sb_kit_check(kit, metrics.renewals >= 2, "%" PRIu64 " renewals in two leases",
                 metrics.renewals);
    sb_kit_note(kit, "%" PRIu64 " renewals", metrics.renewals);
}

void sb_case_guard(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    int64_t two_leases_ms = 2 * sb_kit_lease_ms(kit, SB_KIT_LEASE_CALM);
    struct pair pair = {.owner = sb_probe_create(kit, client, "the owner"),
                        .waiter = sb_probe_create(kit, other, "the waiter")};

    if (pair.owner == NULL || pair.waiter == NULL || !sb_probe_start(pair.owner) ||
        !sb_probe_await_acquired(pair.owner, 1) || !sb_probe_start(pair.waiter))
        return;
    if (!sb_kit_check(kit, !sb_kit_wait(owner_changed, &pair, two_leases_ms),
                      "the owner lost the mutex while it renewed its lease"))
        return;
    check_renewals(kit, client);
    /* And the waiter was there all the time: it takes over as soon as it may. */
    if (sb_probe_stop(pair.owner) && sb_probe_await_acquired(pair.waiter, 1))
        sb_probe_stop(pair.waiter);
}

/* ---- stop_in_callback: a callback may stop or close its own contender ------------------------ */

static void stop_from_inside(struct sb_probe *probe, const struct simba_state *state)
{
    struct simba_error error;
    int code = simba_contender_stop(probe->contender, &error);

    (void)state;
    sb_kit_check_ok(probe->kit, code, &error, "stopping inside on_acquired");
    sb_kit_check(probe->kit, !simba_contender_is_owner(probe->contender),
                 "still the owner after a stop inside on_acquired");
}

/* The stop is under way already, so a second one is refused; what counts is that it returns. */
static void stop_again_from_inside(struct sb_probe *probe, const struct simba_state *state)
{
    struct simba_error error;
    int code = simba_contender_stop(probe->contender, &error);

    (void)state;
    sb_kit_check(probe->kit, code == SIMBA_ESTATE, "a second stop inside on_released: %d", code);
}

static bool is_initial(void *argument)
{
    struct sb_probe *probe = argument;

    return simba_contender_status(probe->contender) == SIMBA_INITIAL;
}

struct closing {
    simba_contender *contender;
    atomic_bool closed;
};

static void close_from_inside(void *user, const struct simba_state *state)
{
    struct closing *closing = user;

    (void)state;
    simba_contender_close(closing->contender);
    atomic_store(&closing->closed, true);
}

static bool is_closed(void *argument)
{
    struct closing *closing = argument;

    return atomic_load(&closing->closed);
}

static void check_close_inside(struct sb_kit *kit, simba_client *client)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct closing closing = {0};
    struct simba_error error;

    options.mutex = kit->mutex;
    options.on_acquired = close_from_inside;
    options.user = &closing;
    int code = simba_contender_create(client, &options, &closing.contender, &error);
    if (code == SIMBA_OK)
        code = simba_contender_start(closing.contender, &error);
    if (sb_kit_check_ok(kit, code, &error, "starting a contender") &&
        sb_kit_await(kit, is_closed, &closing, "a close inside on_acquired returns"))
        sb_kit_await_free(kit, client);
}

void sb_case_stop_in_callback(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sb_probe *probe = sb_probe_create(kit, client, "the contender");

    if (probe == NULL)
        return;
    probe->in_acquired = stop_from_inside;
    probe->in_released = stop_again_from_inside;
    for (unsigned term = 1; term <= 2; term++) {
        if (!sb_probe_start(probe) || !sb_probe_await_released(probe, term) ||
            !sb_kit_await(kit, is_initial, probe, "a stop inside on_acquired is complete") ||
            !sb_kit_await_free(kit, client))
            return;
    }
    check_close_inside(kit, client);
}
