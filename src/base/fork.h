/*
 * fork.h - what the library does about fork().
 *
 * Threads, handles and connections do not survive it: whatever was made before is dead in the
 * child. But the child may open clients of its own, and for that finds what is global to the
 * process as its parent left it. So locks of the whole process are guarded: they are free in the
 * child, and what they protect is whole.
 */
#ifndef SB_BASE_FORK_H
#define SB_BASE_FORK_H

#include <pthread.h>
#include <stdbool.h>

/* Arms the detection; call it before the first sb_fork_count. */
void sb_fork_watch(void);

/* How often this process's line has been copied since then, by fork(), _Fork() or clone(). A
 * different number than at a handle's creation means that the handle belongs to an ancestor. */
unsigned sb_fork_count(void);

/* A lock that is taken for every fork. Static, and never taken while another such lock is held. */
struct sb_fork_guard {
    pthread_mutex_t *lock;
    void (*in_child)(void); /* runs in the child, with the lock held; may be NULL */
    bool added;
    struct sb_fork_guard *next;
};

/* Guards from the first call on; call it before the lock is used. */
void sb_fork_guard(struct sb_fork_guard *guard);

#endif
