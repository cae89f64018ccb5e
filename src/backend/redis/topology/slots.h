/*
 * slots.h - the map of a cluster: which master serves which slots.
 */
#ifndef SB_REDIS_SLOTS_H
#define SB_REDIS_SLOTS_H

#include "backend/redis/wire/blocking.h"

#define SB_REDIS_SLOTS 16384

/* The slot that a mutex is in. */
unsigned sb_redis_slot_of(const char *mutex);

/* Without a first byte of its own the braces are no hash tag: the keys would be in different
 * slots. */
bool sb_redis_slot_is_one(const char *mutex);

struct sb_redis_slot_range {
    unsigned first;
    unsigned last;
    struct sb_redis_place master;
};

/* Empty when it is all zeros. */
struct sb_redis_slot_map {
    struct sb_redis_slot_range *ranges;
    size_t count;
    struct sb_redis_place source; /* the node that gave it */
};

/* A map with more masters than that is refused. */
#define SB_REDIS_MASTERS_MAX 1000

void sb_redis_slot_map_free(struct sb_redis_slot_map *map);

/* Blocks: asks the places in turn until one gives a map. They share one
 * connect-timeout. From any thread. */
int sb_redis_slot_map_find(const struct sb_redis_options *options, const struct sb_redis_tls *tls,
                           const struct sb_redis_place *places, size_t count,
                           struct sb_redis_slot_map *ret_map, struct simba_error *error);

#endif
