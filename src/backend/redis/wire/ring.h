/*
 * ring.h - the commands of a connection that have no reply yet, oldest first.
 */
#ifndef SB_REDIS_RING_H
#define SB_REDIS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sb_redis_command;

struct sb_redis_ring_slot {
    struct sb_redis_command *command; /* NULL: answered already */
    int64_t sent_at_ms;               /* once it has been sent */
    uint32_t size;                    /* of its bytes */
    bool waits;                       /* the command's, which may be gone */
};

/* Empty when it is all zeros. */
struct sb_redis_ring {
    struct sb_redis_ring_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t first;
    size_t count;
};

void sb_redis_ring_free(struct sb_redis_ring *ring);
size_t sb_redis_ring_count(const struct sb_redis_ring *ring);

/* Makes room for one more; false when memory is short. */
bool sb_redis_ring_reserve(struct sb_redis_ring *ring);

/* Adds the newest one; the room has been reserved. */
void sb_redis_ring_add(struct sb_redis_ring *ring, struct sb_redis_ring_slot slot);

/* Takes the oldest slot away. */
struct sb_redis_ring_slot sb_redis_ring_take(struct sb_redis_ring *ring);

/* The slot at a place, the oldest being at 0. Valid until the next call that changes the ring. */
struct sb_redis_ring_slot *sb_redis_ring_at(const struct sb_redis_ring *ring, size_t place);

#endif
