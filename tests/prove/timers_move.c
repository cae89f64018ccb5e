/*
 * timers_move.c - one move on the heap of timers, from every heap of up to PROVE_TIMERS timers with
 * any deadlines. A move that leads to such a heap again proves all runs in which no more timers are
 * armed at once.
 *
 * A heap is a tree. The deadlines are any numbers; the shapes are few, so each is built in turn and
 * its pointers are known. A shape is the list of the parents: that of timer i is a timer before it.
 *
 *     parents 0 0 1      0 - 1 - 3
 *                          \ 2
 */
#include "prove.h"

#include "runtime/timers.h"

#include <stddef.h>

#ifndef PROVE_TIMERS
#define PROVE_TIMERS 3
#endif
#define ALL (PROVE_TIMERS + 1) /* one is not armed at first */

/* Variables of their own and no array, whose elements CBMC would not tell apart. */
static struct sb_timer t0, t1, t2, t3, t4;
static struct sb_timer *const timers[] = {&t0, &t1, &t2, &t3, &t4};
static struct sb_timers heap;

static void fire(struct sb_timer *timer)
{
    (void)timer;
}

/* ---- What a heap is -------------------------------------------------------------------------- */

/* The timer that this one must not come before; NULL for the root. */
static const struct sb_timer *parent_of(const struct sb_timer *timer)
{
    for (int i = 0; i < ALL && timer->previous != NULL; i++) {
        if (timer->previous->child == timer)
            return timer->previous;
        timer = timer->previous;
    }
    return NULL;
}

static bool comes_to_root(const struct sb_timer *timer)
{
    for (int i = 0; i < ALL && timer->previous != NULL; i++)
        timer = timer->previous;
    return timer == heap.root;
}

static void check_timer(const struct sb_timer *timer)
{
    const struct sb_timer *parent;

    if (!timer->armed) {
        PROVE_THAT(timer->child == NULL && timer->next == NULL && timer->previous == NULL &&
                       timer != heap.root,
                   "a timer that is not armed stands nowhere");
        return;
    }
    PROVE_THAT(timer->child == NULL || (timer->child->armed && timer->child->previous == timer),
               "a first child knows its parent");
    PROVE_THAT(timer->next == NULL || (timer->next->armed && timer->next->previous == timer &&
                                       timer->next != timer->child),
               "siblings know each other");
    PROVE_THAT((timer->previous == NULL) == (timer == heap.root), "a heap has one root");
    PROVE_THAT(timer->previous == NULL || timer->previous->child == timer ||
                   timer->previous->next == timer,
               "who stands before a timer knows it");
    PROVE_THAT(comes_to_root(timer), "each timer hangs on the root");
    parent = parent_of(timer);
    PROVE_THAT(parent == NULL || parent->at_ms <= timer->at_ms, "no timer comes before its parent");
    PROVE_THAT(sb_timers_first(&heap)->at_ms <= timer->at_ms, "the first is the earliest");
}

static void check_heap(unsigned armed)
{
    unsigned count = 0;

    PROVE_THAT(heap.root == NULL || heap.root->next == NULL, "the root has no siblings");
    for (int i = 0; i < ALL; i++) {
        check_timer(timers[i]);
        count += timers[i]->armed;
    }
    PROVE_THAT(count == armed, "a move arms or cancels its own timer only");
}

/* ---- Every heap ------------------------------------------------------------------------------ */

/* Timer i becomes the first child of its parent: so each list of parents is another tree, and every
 * tree has one. */
static void build(const int *parents, int count)
{
    heap.root = count > 0 ? timers[0] : NULL;
    for (int i = 0; i < ALL; i++) {
        *timers[i] = (struct sb_timer){.fire = fire, .at_ms = nondet_int64(), .armed = i < count};
        if (i > 0 && i < count) {
            struct sb_timer *parent = timers[parents[i]];

            PROVE_GIVEN(parent->at_ms <= timers[i]->at_ms);
            timers[i]->next = parent->child;
            timers[i]->previous = parent;
            if (parent->child != NULL)
                parent->child->previous = timers[i];
            parent->child = timers[i];
        }
    }
}

static void move(const int *parents, int count)
{
    for (int i = 0; i < ALL; i++) {
        build(parents, count);
        sb_timers_cancel(&heap, timers[i]);
        check_heap((unsigned)(count - (i < count)));
        if (i > count)
            continue;
        build(parents, count);
        sb_timers_arm(&heap, timers[i], nondet_int64());
        check_heap((unsigned)(count + (i == count)));
    }
}

int main(void)
{
    int parents[ALL + 1] = {0};

    for (int count = 0; count <= PROVE_TIMERS; count++) {
        int shapes = 1;

        for (int i = 2; i < count; i++)
            shapes *= i;
        for (int shape = 0; shape < shapes; shape++) {
            int rest = shape;

            for (int i = 2; i < count; i++) {
                parents[i] = rest % i;
                rest /= i;
            }
            move(parents, count);
        }
    }
    PROVE_END();
    return 0;
}
