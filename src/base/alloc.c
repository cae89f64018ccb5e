/*
 * alloc.c - the allocator hook of the process.
 *
 * Owns the hook and the rule that it cannot change once memory has been handed out: memory must go
 * back to the allocator that it came from.
 */
#include "base/alloc.h"

#include <simba/simba.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void *default_allocate(void *user, size_t size)
{
    (void)user;
    return malloc(size);
}

static void *default_resize(void *user, void *memory, size_t size)
{
    (void)user;
    return realloc(memory, size);
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static struct simba_allocator hook = {default_allocate, default_resize, default_release, NULL};
static atomic_bool hook_used;

/* The hook is read without a lock: it does not change any more once it was used. */
static const struct simba_allocator *use_hook(void)
{
    if (!atomic_load_explicit(&hook_used, memory_order_relaxed))
        atomic_store_explicit(&hook_used, true, memory_order_relaxed);
    return &hook;
}

int simba_set_allocator(const struct simba_allocator *allocator)
{
    if (allocator == NULL || allocator->allocate == NULL || allocator->resize == NULL ||
        allocator->release == NULL)
        return SIMBA_EINVAL;
    if (atomic_load(&hook_used))
        return SIMBA_EMISUSE;
    hook = *allocator;
    return SIMBA_OK;
}

/* A request for 0 bytes is one for 1, so that NULL always means that memory is short. */
static size_t at_least_one(size_t size)
{
    return size > 0 ? size : 1;
}

void *sb_alloc(size_t size)
{
    const struct simba_allocator *allocator = use_hook();

    return allocator->allocate(allocator->user, at_least_one(size));
}

/* calloc() leaves the pages of a large block alone, which are zero until they are used. */
void *sb_alloc_zero(size_t size)
{
    void *memory;

    if (use_hook()->allocate == default_allocate)
        return calloc(1, at_least_one(size));
    memory = sb_alloc(size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

void *sb_realloc(void *memory, size_t size)
{
    const struct simba_allocator *allocator = use_hook();

    return allocator->resize(allocator->user, memory, at_least_one(size));
}

char *sb_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = sb_alloc(size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void sb_free(void *memory)
{
    if (memory != NULL)
        hook.release(hook.user, memory);
}

void simba_free(void *memory)
{
    sb_free(memory);
}
