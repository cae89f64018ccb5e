/*
 * owner.c - questions to the two plain values: who owns a mutex, and how that changed.
 *
 *     acquired_at             ttl_at                   transition_at
 *        |---- in ttl ----------)                             |
 *        |---- in transition, has an owner -------------------]
 *
 * The ttl ends before its instant, the transition with it: at ttl_at nobody is in ttl any more, at
 * transition_at the owner may still renew.
 */
#include "core/owner.h"

#include "base/check.h"
#include "base/text.h"

#include <string.h>

struct simba_owner sb_owner_in_time_left(const char *id, int64_t from_ms, int64_t ttl_left_ms,
                                         int64_t transition_left_ms, int64_t ttl_ms, uint64_t fence)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    SB_CHECK(id[0] != '\0', "an owner has an id");
    SB_CHECK(ttl_ms > 0, "a lease lasts for some time");
    sb_text_copy(owner.id, sizeof owner.id, id);
    owner.ttl_at_ms = sb_later(from_ms, ttl_left_ms);
    owner.transition_at_ms = sb_later(from_ms, transition_left_ms);
    owner.acquired_at_ms = from_ms;
    if (owner.ttl_at_ms != SIMBA_INFINITE)
        owner.acquired_at_ms = sb_later(owner.ttl_at_ms, -ttl_ms);
    owner.fence = fence;
    return owner;
}

bool simba_owner_is_in_ttl(const struct simba_owner *owner, int64_t now_ms)
{
    return owner->ttl_at_ms > now_ms;
}

bool simba_owner_is_in_transition(const struct simba_owner *owner, int64_t now_ms)
{
    return owner->transition_at_ms >= now_ms;
}

/* An empty owner has times of 0, which at now_ms = 0 would look valid; so the id decides. */
bool simba_owner_has_owner(const struct simba_owner *owner, int64_t now_ms)
{
    return owner->id[0] != '\0' && simba_owner_is_in_transition(owner, now_ms);
}

/* An empty id stands for nobody, so it never owns. */
bool simba_owner_is_owner(const struct simba_owner *owner, const char *id)
{
    return id != NULL && id[0] != '\0' && strcmp(owner->id, id) == 0;
}

bool simba_owner_is_in_ttl_of(const struct simba_owner *owner, const char *id, int64_t now_ms)
{
    return simba_owner_is_owner(owner, id) && simba_owner_is_in_ttl(owner, now_ms);
}

bool simba_owner_is_in_transition_of(const struct simba_owner *owner, const char *id,
                                     int64_t now_ms)
{
    return simba_owner_is_owner(owner, id) && simba_owner_is_in_transition(owner, now_ms);
}

bool simba_state_is_changed(const struct simba_state *state)
{
    return strcmp(state->before.id, state->after.id) != 0;
}

bool simba_state_is_acquired(const struct simba_state *state, const char *id)
{
    return simba_state_is_changed(state) && simba_owner_is_owner(&state->after, id);
}

bool simba_state_is_released(const struct simba_state *state, const char *id)
{
    return simba_state_is_changed(state) && simba_owner_is_owner(&state->before, id);
}

bool simba_state_is_owner(const struct simba_state *state, const char *id)
{
    return simba_owner_is_owner(&state->after, id);
}

bool simba_state_is_in_ttl(const struct simba_state *state, const char *id, int64_t now_ms)
{
    return simba_owner_is_in_ttl_of(&state->after, id, now_ms);
}
