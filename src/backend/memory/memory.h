/*
 * memory.h - `memory:NAME`: a store in the memory of this process, shared by all its clients that name
 * the same one. For tests, and for threads of one process that want the library's ways.
 */
#ifndef SB_BACKEND_MEMORY_MEMORY_H
#define SB_BACKEND_MEMORY_MEMORY_H

#include <simba/backend.h>

extern const struct simba_backend_ops sb_memory_ops;

#endif
