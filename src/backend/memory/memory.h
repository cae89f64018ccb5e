/*
 * memory.h - `memory:NAME`: a store in the memory of this process, shared by all its clients that
 * name the same one. For tests, and for threads of one process that want the library's ways.
 */
#ifndef SB_BACKEND_MEMORY_MEMORY_H
#define SB_BACKEND_MEMORY_MEMORY_H

#include "backend/module.h"

extern const struct sb_module sb_memory_module;

#endif
