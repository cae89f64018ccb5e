/*
 * released.c - a small table with one place for each number. What it has forgotten or mistaken costs somebody a turn
 * or a moment, and nothing else.
 */
#include "backend/redis/released.h"

#include "backend/redis/names.h"

/* A proxy may keep a connection while the server behind it is replaced, but nobody replaces one within so short a time. */
#define LATELY_MS 100

#define MOMENT_MS 20 /* a waiter that has not come by then may be dead */
#define SHARE 4      /* what part of a lease or of a request's time may be waited for it */

static uint32_t number_of(const struct simba_request *request)
{
    char channel[SB_CHANNEL_MAX];

    return sb_channel_hash(channel, sb_channel_make(channel, request->mutex, request->id));
}

void sb_released_note(struct sb_released *r, const struct simba_request *request, bool told,
                      uint64_t connection)
{
    uint32_t from = number_of(request);

    r->last_ms = simba_now_ms();
    r->table[from % SB_RELEASED_MAX] = (struct sb_released_entry){
        .from = from,
        .told = told,
        .at_ms = r->last_ms,
        .token = request->revision,
        .connection = connection,
    };
}

/* A client that releases nothing makes no number. */
const struct sb_released_entry *
sb_released_find(const struct sb_released *r, const struct simba_request *request, int64_t now_ms)
{
    const struct sb_released_entry *entry;
    uint32_t from;

    if (now_ms >= r->last_ms + LATELY_MS)
        return NULL;
    from = number_of(request);
    entry = &r->table[from % SB_RELEASED_MAX];
    return entry->from == from && now_ms < entry->at_ms + LATELY_MS ? entry : NULL;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t sb_released_until(const struct sb_released_entry *entry,
                          const struct simba_request *request)
{
    int64_t patience_ms =
        smaller(request->ttl_ms + request->transition_ms, request->timeout_ms) / SHARE;

    return entry->told ? entry->at_ms + smaller(MOMENT_MS, patience_ms) : 0;
}
