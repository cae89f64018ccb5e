/*
 * timers.c - a pairing heap: O(1) to arm, O(log n) amortised to cancel or to take the first.
 */
#include "runtime/timers.h"

#include "base/check.h"

#include <stddef.h>

static struct sb_timer *meld(struct sb_timer *a, struct sb_timer *b)
{
    if (a == NULL)
        return b;
    if (b == NULL)
        return a;
    SB_CHECK(a != b, "a timer stands in the heap once");
    SB_CHECK(a->previous == NULL && b->previous == NULL, "only roots are melded");
    if (b->at_ms < a->at_ms) {
        struct sb_timer *swap = a;

        a = b;
        b = swap;
    }
    b->next = a->child;
    if (b->next != NULL)
        b->next->previous = b;
    b->previous = a;
    a->child = b;
    a->next = NULL;
    a->previous = NULL;
    return a;
}

/* Melds a list of siblings into one heap: neighbours first, then the pairs from the last to the
 * first. A loop and not a recursion, because the list can be as long as the heap. */
static struct sb_timer *meld_siblings(struct sb_timer *first)
{
    struct sb_timer *pairs = NULL;
    struct sb_timer *heap = NULL;

    while (first != NULL) {
        struct sb_timer *a = first;
        struct sb_timer *b = a->next;
        struct sb_timer *pair;

        first = b != NULL ? b->next : NULL;
        a->next = NULL;
        a->previous = NULL;
        if (b != NULL) {
            b->next = NULL;
            b->previous = NULL;
        }
        pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL) {
        struct sb_timer *pair = pairs;

        pairs = pair->next;
        pair->next = NULL;
        heap = meld(heap, pair);
    }
    SB_CHECK(heap == NULL || heap->next == NULL, "a heap has one root");
    return heap;
}

static void unlink_from_siblings(struct sb_timer *timer)
{
    if (timer->previous->child == timer) {
        timer->previous->child = timer->next;
    } else {
        SB_CHECK(timer->previous->next == timer, "siblings know each other");
        timer->previous->next = timer->next;
    }
    if (timer->next != NULL)
        timer->next->previous = timer->previous;
}

void sb_timers_cancel(struct sb_timers *timers, struct sb_timer *timer)
{
    struct sb_timer *orphans;

    if (!timer->armed)
        return;
    orphans = meld_siblings(timer->child);
    if (timers->root == timer) {
        timers->root = orphans;
    } else {
        SB_CHECK(timer->previous != NULL, "a timer that is armed stands in the heap");
        unlink_from_siblings(timer);
        timers->root = meld(timers->root, orphans);
    }
    timer->child = NULL;
    timer->next = NULL;
    timer->previous = NULL;
    timer->armed = false;
}

void sb_timers_arm(struct sb_timers *timers, struct sb_timer *timer, int64_t at_ms)
{
    if (timer->armed && timer->at_ms == at_ms)
        return;
    sb_timers_cancel(timers, timer);
    SB_CHECK(timer->fire != NULL, "a timer that is armed has something to do");
    timer->at_ms = at_ms;
    timer->armed = true;
    timers->root = meld(timers->root, timer);
}

struct sb_timer *sb_timers_first(const struct sb_timers *timers)
{
    SB_CHECK(timers->root == NULL || timers->root->armed, "what stands in the heap is armed");
    return timers->root;
}
