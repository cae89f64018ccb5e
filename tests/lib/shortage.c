/*
 * shortage.c - see shortage.h.
 */
#include "lib/shortage.h"

#include <simba/simba.h>
#include <stdlib.h>

_Thread_local bool test_is_short;

static void *allocate(void *user, size_t size)
{
    (void)user;
    return test_is_short ? NULL : malloc(size);
}

static void *resize(void *user, void *memory, size_t size)
{
    (void)user;
    return test_is_short ? NULL : realloc(memory, size);
}

static void release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

bool test_shortage_install(void)
{
    const struct simba_allocator allocator = {allocate, resize, release, NULL};

    return simba_set_allocator(&allocator) == SIMBA_OK;
}
