/*
 * ring.c - a growing ring of slots.
 */
#include "backend/redis/wire/ring.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define FIRST_CAPACITY 16

void sb_redis_ring_free(struct sb_redis_ring *ring)
{
    sb_free(ring->slots);
    memset(ring, 0, sizeof *ring);
}

size_t sb_redis_ring_count(const struct sb_redis_ring *ring)
{
    return ring->count;
}

struct sb_redis_ring_slot *sb_redis_ring_at(const struct sb_redis_ring *ring, size_t place)
{
    assert(place < ring->count);
    return &ring->slots[(ring->first + place) & (ring->capacity - 1)];
}

bool sb_redis_ring_reserve(struct sb_redis_ring *ring)
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
        slots[i] = *sb_redis_ring_at(ring, i);
    sb_free(ring->slots);
    ring->slots = slots;
    ring->capacity = capacity;
    ring->first = 0;
    return true;
}

void sb_redis_ring_add(struct sb_redis_ring *ring, struct sb_redis_ring_slot slot)
{
    assert(ring->count < ring->capacity);
    ring->count++;
    *sb_redis_ring_at(ring, ring->count - 1) = slot;
}

struct sb_redis_ring_slot sb_redis_ring_take(struct sb_redis_ring *ring)
{
    struct sb_redis_ring_slot slot = *sb_redis_ring_at(ring, 0);

    ring->first = (ring->first + 1) & (ring->capacity - 1);
    ring->count--;
    return slot;
}
