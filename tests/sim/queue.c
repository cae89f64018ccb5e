/*
 * queue.c - what will happen next: a binary heap of events, the earliest first.
 */
#include "sim.h"

#include <stdlib.h>

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

/* A world that outgrows its memory is a fault of the simulator, not of what it tests. */
void sim_queue_push(struct sim_queue *queue, struct sim_event event)
{
    size_t hole = queue->count;

    if (queue->count == SIM_EVENTS_MAX) {
        fputs("simba-sim: SIM_EVENTS_MAX is too small\n", stderr);
        exit(2);
    }
    queue->count++;
    event.order = queue->order++;
    while (hole > 0 && is_before(&event, &queue->heap[(hole - 1) / 2])) {
        queue->heap[hole] = queue->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    queue->heap[hole] = event;
}

bool sim_queue_pop(struct sim_queue *queue, struct sim_event *ret_event)
{
    struct sim_event last;
    size_t hole = 0;

    if (queue->count == 0)
        return false;
    *ret_event = queue->heap[0];
    last = queue->heap[--queue->count];
    for (;;) {
        size_t child = 2 * hole + 1;

        if (child + 1 < queue->count && is_before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (child >= queue->count || !is_before(&queue->heap[child], &last))
            break;
        queue->heap[hole] = queue->heap[child];
        hole = child;
    }
    queue->heap[hole] = last;
    return true;
}
