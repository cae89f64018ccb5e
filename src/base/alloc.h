/*
 * alloc.h - all memory of the library goes through the application's allocator hook.
 *
 * Every function returns NULL when memory is short; callers turn that into SIMBA_ENOMEM.
 */
#ifndef SB_BASE_ALLOC_H
#define SB_BASE_ALLOC_H

#include <stddef.h>

void *sb_alloc(size_t size);
void *sb_alloc_zero(size_t size);
void *sb_realloc(void *memory, size_t size);
char *sb_strdup(const char *text);
void sb_free(void *memory);

#endif
