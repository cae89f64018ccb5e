/*
 * handed.c - a small table with one place for each number. What it has forgotten or mistaken costs somebody a turn
 * or a moment, and nothing else.
 */
#include "backend/redis/handed.h"

#include "backend/redis/names.h"

#define MOMENT_MS 20    /* a waiter that has not come by then may be dead */
#define WANTED_MS 10000 /* a mutex that nobody has waited for since then may be nobody's concern */
#define SHARE 4         /* what part of a lease or of a request's time may be waited for it */

static uint32_t number_of(const char *mutex, const char *id)
{
    char channel[SB_CHANNEL_MAX];

    return sb_channel_hash(channel, sb_channel_make(channel, mutex, id));
}

void sb_handed_note(struct sb_handed *h, const char *mutex, const char *id)
{
    uint32_t from = number_of(mutex, id);
    struct sb_hand_over *hand_over = &h->table[from % SB_HANDED_MAX];

    h->last_ms = simba_now_ms();
    hand_over->from = from;
    hand_over->at_ms = h->last_ms;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A client that hands nothing over makes no number. */
int64_t sb_handed_until(const struct sb_handed *h, const struct simba_request *request,
                        int64_t now_ms)
{
    const struct sb_hand_over *found;
    int64_t patience_ms;
    uint32_t from;

    if (now_ms >= h->last_ms + MOMENT_MS)
        return 0;
    from = number_of(request->mutex, request->id);
    found = &h->table[from % SB_HANDED_MAX];
    if (found->from != from)
        return 0;
    patience_ms = smaller(request->ttl_ms + request->transition_ms, request->timeout_ms) / SHARE;
    return found->at_ms + smaller(MOMENT_MS, patience_ms);
}

void sb_handed_note_wanted(struct sb_handed *h, const char *mutex)
{
    uint32_t from = number_of(mutex, NULL);
    struct sb_hand_over *hand_over = &h->wanted[from % SB_HANDED_MAX];

    h->wanted_ms = simba_now_ms();
    hand_over->from = from;
    hand_over->at_ms = h->wanted_ms;
}

bool sb_handed_is_wanted(const struct sb_handed *h, const char *mutex, int64_t now_ms)
{
    const struct sb_hand_over *found;
    uint32_t from;

    if (h->wanted_ms == 0 || now_ms >= h->wanted_ms + WANTED_MS)
        return false;
    from = number_of(mutex, NULL);
    found = &h->wanted[from % SB_HANDED_MAX];
    return found->from == from && now_ms < found->at_ms + WANTED_MS;
}
