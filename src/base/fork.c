/*
 * fork.c - a counter that is raised in the child, and locks that are held while a process forks.
 */
#include "base/fork.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_uint forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pthread_mutex_t guards_lock =
    PTHREAD_MUTEX_INITIALIZER; /* the first to be taken for a fork */
static struct sb_fork_guard *guards;

static void take_locks(void)
{
    pthread_mutex_lock(&guards_lock);
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        pthread_mutex_lock(guard->lock);
}

static void give_locks_back(void)
{
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        pthread_mutex_unlock(guard->lock);
    pthread_mutex_unlock(&guards_lock);
}

static void begin_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        if (guard->in_child != NULL)
            guard->in_child();
    give_locks_back();
}

static void arm(void)
{
    pthread_atfork(take_locks, give_locks_back, begin_child);
}

void sb_fork_watch(void)
{
    pthread_once(&once, arm);
}

unsigned sb_fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

void sb_fork_guard(struct sb_fork_guard *guard)
{
    sb_fork_watch();
    pthread_mutex_lock(&guards_lock);
    if (!guard->added) {
        guard->added = true;
        guard->next = guards;
        guards = guard;
    }
    pthread_mutex_unlock(&guards_lock);
}
