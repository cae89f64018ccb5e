/*
 * heap.c - see heap.h.
 */
#include "heap.h"

#include <simba/simba.h>

#include <stdlib.h>

static atomic_long live;

static void *allocate(void *user, size_t size)
{
    void *memory = shortage_strikes(user) ? NULL : malloc(size);

    if (memory != NULL)
        atomic_fetch_add(&live, 1);
    return memory;
}

static void *resize(void *user, void *memory, size_t size)
{
    void *moved = shortage_strikes(user) ? NULL : realloc(memory, size);

    if (moved != NULL && memory == NULL)
        atomic_fetch_add(&live, 1);
    return moved;
}

static void release(void *user, void *memory)
{
    (void)user;
    if (memory != NULL)
        atomic_fetch_sub(&live, 1);
    free(memory);
}

int heap_install(struct shortage *shortage)
{
    const struct simba_allocator allocator = {allocate, resize, release, shortage};

    return simba_set_allocator(&allocator);
}

long heap_live(void)
{
    return atomic_load(&live);
}
