/*
 * heap.h - the library's allocator hook: counts what is alive, and can run short.
 */
#ifndef SIMBA_FAULT_HEAP_H
#define SIMBA_FAULT_HEAP_H

#include "shortage.h"

/* Sets the hook; before any other call of the library. Returns what simba_set_allocator does. */
int heap_install(struct shortage *shortage);

/* Blocks that were handed out and have not come back. */
long heap_live(void);

#endif
