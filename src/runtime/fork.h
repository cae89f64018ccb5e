/*
 * fork.h - tells a process from its parent, cheaply enough for every call.
 *
 * Threads, locks and connections do not survive fork(), so whatever was made before it is dead in the
 * child.
 */
#ifndef SB_RUNTIME_FORK_H
#define SB_RUNTIME_FORK_H

#include <stdbool.h>

/* Arms the detection; call it before the first sb_fork_count. */
void sb_fork_watch(void);

/* How often this process's line has forked since then. A different number than at a handle's creation
 * means that the handle belongs to an ancestor. */
unsigned sb_fork_count(void);

#endif
