/*
 * probe.c - records and checks the callbacks of one contender.
 */
#include "tck/probe.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

static void check_called(struct sb_probe *probe, const char *callback)
{
    sb_kit_check(probe->kit, !atomic_load(&probe->quiet), "%s: %s after the stop had returned",
                 probe->name, callback);
}

static void check_acquired(struct sb_probe *probe, const struct simba_state *state)
{
    const char *id = simba_contender_id(probe->contender);
    uint64_t before = atomic_load(&probe->fence);

    sb_kit_check(probe->kit, simba_state_is_acquired(state, id),
                 "%s: on_acquired tells of a change from '%s' to '%s'", probe->name,
                 state->before.id, state->after.id);
    sb_kit_check(probe->kit, state->after.fence > before,
                 "%s: the token of a new term is %" PRIu64 " after %" PRIu64, probe->name,
                 state->after.fence, before);
    sb_kit_check(probe->kit, atomic_load(&probe->acquired) == atomic_load(&probe->left),
                 "%s: on_acquired twice without on_released between", probe->name);
}

static void on_acquired(void *user, const struct simba_state *state)
{
    struct sb_probe *probe = user;

    check_called(probe, "on_acquired");
    check_acquired(probe, state);
    atomic_store(&probe->fence, state->after.fence);
    atomic_fetch_add(&probe->acquired, 1);
    if (probe->in_acquired != NULL)
        probe->in_acquired(probe, state);
    atomic_fetch_add(&probe->entered, 1);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct sb_probe *probe = user;
    const char *id = simba_contender_id(probe->contender);

    check_called(probe, "on_released");
    sb_kit_check(probe->kit, simba_state_is_released(state, id),
                 "%s: on_released tells of a change from '%s' to '%s'", probe->name,
                 state->before.id, state->after.id);
    sb_kit_check(probe->kit, atomic_load(&probe->entered) == atomic_load(&probe->released) + 1,
                 "%s: on_released without on_acquired before", probe->name);
    atomic_fetch_add(&probe->released, 1);
    if (probe->in_released != NULL)
        probe->in_released(probe, state);
    atomic_fetch_add(&probe->left, 1);
}

static void close_part(struct sb_kit_part *part)
{
    struct sb_probe *probe = SB_CONTAINER(struct sb_probe, part, part);

    sb_kit_remove(probe->kit, &probe->part);
    simba_contender_close(probe->contender);
    sb_free(probe);
}

struct sb_probe *sb_probe_create_with(struct sb_kit *kit, simba_client *client, const char *name,
                                      const char *id, int64_t ttl_ms)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;

    if (client == NULL)
        return NULL;
    struct sb_probe *probe = sb_alloc_zero(sizeof(*probe));
    if (!sb_kit_check(kit, probe != NULL, "out of memory"))
        return NULL;
    probe->kit = kit;
    probe->name = name;
    options.mutex = kit->mutex;
    options.id = id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = probe;
    options.ttl_ms = ttl_ms;
    int code = simba_contender_create(client, &options, &probe->contender, &error);
    if (!sb_kit_check_ok(kit, code, &error, "creating a contender")) {
        sb_free(probe);
        return NULL;
    }
    probe->part.close = close_part;
    sb_kit_add(kit, &probe->part);
    return probe;
}

struct sb_probe *sb_probe_create(struct sb_kit *kit, simba_client *client, const char *name)
{
    return sb_probe_create_with(kit, client, name, NULL, SIMBA_UNSET);
}

bool sb_probe_start(struct sb_probe *probe)
{
    struct simba_error error;

    atomic_store(&probe->quiet, false);
    return sb_kit_check_ok(probe->kit, simba_contender_start(probe->contender, &error), &error,
                           "starting a contender");
}

static bool check_stopped(struct sb_probe *probe)
{
    const simba_contender *contender = probe->contender;
    enum simba_status status = simba_contender_status(contender);

    atomic_store(&probe->quiet, true);
    return sb_kit_check(probe->kit, status == SIMBA_INITIAL, "%s: %s after a stop", probe->name,
                        simba_status_name(status)) &&
           sb_kit_check(probe->kit, !simba_contender_is_owner(contender),
                        "%s: still the owner after a stop", probe->name) &&
           sb_kit_check(probe->kit, simba_contender_fence(contender) == 0,
                        "%s: has a token after a stop", probe->name) &&
           sb_kit_check(probe->kit, atomic_load(&probe->acquired) == atomic_load(&probe->left),
                        "%s: a stop returned before on_released had", probe->name);
}

bool sb_probe_stop(struct sb_probe *probe)
{
    struct simba_error error;
    int code = simba_contender_stop(probe->contender, &error);

    return sb_kit_check_ok(probe->kit, code, &error, "stopping a contender") &&
           check_stopped(probe);
}

bool sb_probe_stop_unanswered(struct sb_probe *probe)
{
    struct simba_error error;
    int code = simba_contender_stop(probe->contender, &error);

    if (code != SIMBA_ETIMEDOUT &&
        !sb_kit_check_ok(probe->kit, code, &error, "stopping while the store is silent"))
        return false;
    return check_stopped(probe);
}

struct count {
    atomic_uint *counter;
    unsigned times;
};

static bool has_counted(void *argument)
{
    struct count *count = argument;

    return atomic_load(count->counter) >= count->times;
}

static bool await_count(struct sb_probe *probe, atomic_uint *counter, unsigned times,
                        const char *callback)
{
    struct count count = {counter, times};
    char what[96];

    snprintf(what, sizeof(what), "%s had its %s number %u", probe->name, callback, times);
    return sb_kit_await(probe->kit, has_counted, &count, what);
}

bool sb_probe_await_acquired(struct sb_probe *probe, unsigned times)
{
    return await_count(probe, &probe->entered, times, "on_acquired");
}

bool sb_probe_await_released(struct sb_probe *probe, unsigned times)
{
    return await_count(probe, &probe->left, times, "on_released");
}
