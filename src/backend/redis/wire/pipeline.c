/*
 * pipeline.c - a ring of commands beside the bytes of those that have not been sent. Must not know
 * time limits other than the commands' own, nor the connection.
 */
#include "backend/redis/wire/connection.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"

#include <stdint.h>
#include <string.h>

#define ANSWERING_MS 500 /* a server that was heard so recently goes on answering */
#define FIRST_CAPACITY 16

/* ---- The ring -------------------------------------------------------------------------------- */

/* The slot at a place, the oldest being at 0. Valid until the ring changes. */
static struct sb_redis_ring_slot *ring_at(const struct sb_redis_ring *ring, size_t place)
{
    SB_CHECK(place < ring->count, "a slot of the ring is in use");
    return &ring->slots[(ring->first + place) & (ring->capacity - 1)];
}

/* Makes room for one more; false when memory is short. */
static bool ring_reserve(struct sb_redis_ring *ring)
{
    size_t capacity = ring->capacity > 0 ? ring->capacity * 2 : FIRST_CAPACITY;
    struct sb_redis_ring_slot *slots;

    if (ring->count < ring->capacity)
        return true;
    if (capacity > SIZE_MAX / sizeof *slots)
        return false;
    slots = sb_alloc(capacity * sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < ring->count; i++)
        slots[i] = *ring_at(ring, i);
    sb_free(ring->slots);
    ring->slots = slots;
    ring->capacity = capacity;
    ring->first = 0;
    return true;
}

/* Adds the newest one; the room has been reserved. */
static void ring_add(struct sb_redis_ring *ring, struct sb_redis_ring_slot slot)
{
    SB_CHECK(ring->count < ring->capacity, "room in the ring has been reserved");
    ring->count++;
    *ring_at(ring, ring->count - 1) = slot;
}

/* Takes the oldest one away. */
static struct sb_redis_ring_slot ring_take(struct sb_redis_ring *ring)
{
    struct sb_redis_ring_slot slot = *ring_at(ring, 0);

    ring->first = (ring->first + 1) & (ring->capacity - 1);
    ring->count--;
    return slot;
}

/* ---- The pipeline ---------------------------------------------------------------------------- */

void sb_redis_pipeline_init(struct sb_redis_pipeline *p)
{
    memset(p, 0, sizeof *p);
    p->first_due_ms = SB_REDIS_NEVER;
}

void sb_redis_pipeline_free(struct sb_redis_pipeline *p)
{
    sb_free(p->ring.slots);
    sb_wire_buffer_free(&p->out);
}

bool sb_redis_pipeline_add(struct sb_redis_pipeline *p, struct sb_redis_command *command,
                           const struct sb_redis_argument *arguments, size_t count)
{
    size_t before = p->out.length;

    if (!ring_reserve(&p->ring) || !sb_redis_buffer_add_command(&p->out, arguments, count))
        return false;
    ring_add(&p->ring, (struct sb_redis_ring_slot){.command = command,
                                                   .size = (uint32_t)(p->out.length - before),
                                                   .waits = command->waits});
    p->unsent++;
    SB_CHECK(p->unsent <= p->ring.count, "what is not sent is in the ring");
    p->first_due_ms = sb_earlier(p->first_due_ms, command->deadline_ms);
    return true;
}

void sb_redis_pipeline_mark_sent(struct sb_redis_pipeline *p, int64_t now_ms)
{
    size_t count = p->ring.count;

    for (; p->unsent > 0; p->unsent--)
        ring_at(&p->ring, count - p->unsent)->sent_at_ms = now_ms;
}

size_t sb_redis_pipeline_depth(const struct sb_redis_pipeline *p)
{
    return p->ring.count;
}

bool sb_redis_pipeline_is_owed(const struct sb_redis_pipeline *p)
{
    return p->ring.count > p->unsent;
}

bool sb_redis_pipeline_waits(const struct sb_redis_pipeline *p)
{
    return sb_redis_pipeline_is_owed(p) && ring_at(&p->ring, 0)->waits;
}

bool sb_redis_pipeline_answer(struct sb_redis_pipeline *p, const struct sb_redis_answer *answer)
{
    struct sb_redis_command *command;

    if (!sb_redis_pipeline_is_owed(p))
        return false;
    command = ring_take(&p->ring).command;
    SB_CHECK(p->unsent <= p->ring.count, "what was not sent has no reply");
    if (command != NULL)
        command->answered(command, answer);
    return true;
}

void sb_redis_pipeline_fail(struct sb_redis_pipeline *p, const struct simba_error *error)
{
    struct sb_redis_answer answer = {.error = error};

    while (p->ring.count > 0) {
        struct sb_redis_command *command;

        answer.sent = sb_redis_pipeline_is_owed(p);
        command = ring_take(&p->ring).command;
        if (command != NULL)
            command->answered(command, &answer);
    }
    p->unsent = 0;
    p->out.length = 0;
}

/* If the server has answered others since a command was sent, it is about to answer this one.
 * Asking again would only make it slower. */
static int64_t due_ms(const struct sb_redis_ring_slot *slot, bool sent, int64_t heard_at_ms)
{
    const struct sb_redis_command *command = slot->command;
    int64_t at_ms = sb_earlier(heard_at_ms + ANSWERING_MS, command->until_ms);

    if (!sent || heard_at_ms <= slot->sent_at_ms || at_ms < command->deadline_ms)
        return command->deadline_ms;
    return at_ms;
}

/* `answered` may add commands, which are not due, or end the connection and with it all
 * commands. */
bool sb_redis_pipeline_expire(struct sb_redis_pipeline *p, int64_t now_ms, int64_t heard_at_ms,
                              const struct simba_error *error)
{
    struct sb_redis_answer answer = {.error = error};
    bool silent = false;
    int64_t at_ms;

    p->first_due_ms = SB_REDIS_NEVER;
    for (size_t i = 0; i < p->ring.count; i++) {
        struct sb_redis_ring_slot *slot = ring_at(&p->ring, i);
        struct sb_redis_command *command = slot->command;

        if (command == NULL)
            continue;
        answer.sent = i < p->ring.count - p->unsent;
        at_ms = due_ms(slot, answer.sent, heard_at_ms);
        if (at_ms > now_ms) {
            p->first_due_ms = sb_earlier(p->first_due_ms, at_ms);
            continue;
        }
        silent = silent || (answer.sent && slot->sent_at_ms >= heard_at_ms);
        slot->command = NULL;
        command->answered(command, &answer);
    }
    return silent;
}

void sb_redis_pipeline_forget_expired(struct sb_redis_pipeline *p)
{
    size_t count = p->ring.count;
    size_t from = 0;
    size_t to = 0;

    SB_CHECK(p->unsent == count, "nothing is sent before the greeting is over");
    for (size_t i = 0; i < count; i++) {
        struct sb_redis_ring_slot slot = ring_take(&p->ring);

        if (slot.command != NULL) {
            memmove(p->out.data + to, p->out.data + from, slot.size);
            to += slot.size;
            ring_add(&p->ring, slot);
        }
        from += slot.size;
    }
    p->out.length = to;
    p->unsent = p->ring.count;
}
