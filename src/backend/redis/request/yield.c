/*
 * yield.c - a small table with one place for each number. What it has forgotten or mistaken costs somebody a turn
 * or a moment, and nothing else.
 */
#include "backend/redis/request/yield.h"

#include "backend/redis/keys.h"

#define MOMENT_MS 20 /* a waiter that has not come by then may be dead */
#define SHARE 4      /* what part of a lease or of a request's time may be waited for it */

static uint32_t number_of(const char *mutex, const char *id)
{
    char channel[SB_REDIS_CHANNEL_MAX];

    return sb_redis_channel_hash(channel, sb_redis_channel_make(channel, mutex, id));
}

void sb_redis_yield_note(struct sb_redis_yields *t, const char *mutex, const char *id)
{
    uint32_t from = number_of(mutex, id);
    struct sb_redis_yield *by = &t->table[from % SB_REDIS_YIELDS_MAX];

    t->last_ms = simba_now_ms();
    by->from = from;
    by->at_ms = t->last_ms;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A client that has told nobody makes no number. */
int64_t sb_redis_yield_until(const struct sb_redis_yields *t, const struct simba_request *request,
                             int64_t now_ms)
{
    const struct sb_redis_yield *found;
    int64_t patience_ms;
    uint32_t from;

    if (now_ms >= t->last_ms + MOMENT_MS)
        return 0;
    from = number_of(request->mutex, request->id);
    found = &t->table[from % SB_REDIS_YIELDS_MAX];
    if (found->from != from)
        return 0;
    patience_ms = smaller(request->ttl_ms + request->transition_ms, request->timeout_ms) / SHARE;
    return found->at_ms + smaller(MOMENT_MS, patience_ms);
}
