/*
 * alloc.h - all memory of the library goes through the application's allocator hook.
 *
 * Every function returns NULL when memory is short; callers turn that into SIMBA_ENOMEM.
 */
#ifndef SB_BASE_ALLOC_H
#define SB_BASE_ALLOC_H

#include "base/shared.h"

#include <stddef.h>

void *sb_alloc(size_t size) SB_SHARED("alloc");
void *sb_alloc_zero(size_t size) SB_SHARED("alloc_zero");
void *sb_realloc(void *memory, size_t size) SB_SHARED("realloc");
char *sb_strdup(const char *text) SB_SHARED("strdup");
void sb_free(void *memory) SB_SHARED("free");

/* From a member to the struct that it is embedded in. */
#define SB_CONTAINER(type, member, pointer)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
