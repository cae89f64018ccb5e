/*
 * starts.c - lets starts wait while many requests are under way, and begin in their order.
 */
#include "runtime/starts.h"

#include "base/check.h"
#include "base/container.h"

#define BUSY_FROM 4096 /* requests under way: twice what a Redis connection takes at once */
#define ROUND_MS 1000  /* without a start that begins, and what is under way counts no more */

bool sb_starts_are_held_up(const struct sb_starts *starts)
{
    return starts->under_way >= BUSY_FROM;
}

void sb_starts_add(struct sb_starts *starts, struct sb_start *start)
{
    SB_CHECK(sb_loop_is_current(starts->loop), "starts wait on the loop thread");
    SB_CHECK(!start->is_queued, "a start is in the queue once");
    start->is_queued = true;
    start->next = NULL;
    if (starts->last != NULL)
        starts->last->next = start;
    else
        starts->first = start;
    starts->last = start;
    if (starts->first == start) {
        starts->has_moved = false;
        sb_loop_arm(starts->loop, &starts->timer, simba_now_ms() + ROUND_MS);
    }
}

static struct sb_start *take_first(struct sb_starts *starts)
{
    struct sb_start *start = starts->first;

    SB_CHECK(start->is_queued, "what is in the queue of starts knows it");
    starts->first = start->next;
    if (starts->first == NULL) {
        starts->last = NULL;
        sb_loop_cancel(starts->loop, &starts->timer);
    }
    start->is_queued = false;
    return start;
}

void sb_starts_begin_next(struct sb_starts *starts)
{
    SB_CHECK(sb_loop_is_current(starts->loop), "starts begin on the loop thread");
    while (starts->first != NULL && (!starts->first->waits || !sb_starts_are_held_up(starts))) {
        starts->has_moved = true;
        starts->begin(take_first(starts));
    }
}

static void on_timer(struct sb_timer *timer)
{
    struct sb_starts *starts = SB_CONTAINER(struct sb_starts, timer, timer);

    if (!starts->has_moved) {
        starts->round++;
        starts->under_way = 0;
        sb_starts_go_on(starts);
    }
    starts->has_moved = false;
    if (starts->first != NULL)
        sb_loop_arm(starts->loop, timer, simba_now_ms() + ROUND_MS);
}

void sb_starts_init(struct sb_starts *starts, struct sb_loop *loop,
                    void (*begin)(struct sb_start *start))
{
    SB_CHECK(begin != NULL, "a start that leaves the queue can begin");
    starts->loop = loop;
    starts->begin = begin;
    starts->timer.fire = on_timer;
}
