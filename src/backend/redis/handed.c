/*
 * handed.c - a small ring. What it has forgotten or mistaken costs somebody a turn, and nothing else.
 */
#include "backend/redis/handed.h"

#include "backend/redis/names.h"
#include "base/hash.h"

#include <string.h>

#define MOMENT_MS 100 /* a waiter that has not come by then may be dead */

static uint32_t number_of(const char *mutex, const char *id)
{
    char channel[SB_CHANNEL_MAX];

    return sb_hash_bytes(channel, sb_channel_make(channel, mutex, id));
}

void sb_handed_note(struct sb_handed *h, const char *mutex, const char *id, uint64_t token,
                    const char *to, size_t length)
{
    struct sb_hand_over *hand_over = &h->ring[h->next];

    if (length == 0 || length > SIMBA_ID_MAX)
        return;
    h->until_ms = simba_now_ms() + MOMENT_MS;
    hand_over->from = number_of(mutex, id);
    hand_over->token = token;
    hand_over->until_ms = h->until_ms;
    memcpy(hand_over->to, to, length);
    hand_over->to[length] = '\0';
    h->next = (h->next + 1) % SB_HANDED_MAX;
}

static struct sb_hand_over *find_newest(struct sb_handed *h, uint32_t from)
{
    for (unsigned i = 1; i <= SB_HANDED_MAX; i++) {
        struct sb_hand_over *found = &h->ring[(h->next + SB_HANDED_MAX - i) % SB_HANDED_MAX];

        if (found->from == from)
            return found;
    }
    return NULL;
}

/* A client that hands nothing over does not even look at the clock. */
const struct sb_hand_over *sb_handed_take(struct sb_handed *h, const char *mutex, const char *id)
{
    int64_t now_ms = h->until_ms != 0 ? simba_now_ms() : 0;
    struct sb_hand_over *found;

    if (now_ms >= h->until_ms)
        return NULL;
    found = find_newest(h, number_of(mutex, id));
    if (found == NULL || now_ms >= found->until_ms)
        return NULL;
    found->until_ms = 0;
    return found;
}
