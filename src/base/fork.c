/*
 * fork.c - a counter that is raised in the child, and locks that are held while a process forks.
 *
 * Two things raise the counter: the handler of fork(), and a page that the kernel empties in every
 * copy of the process. The page also tells of copies that call no handlers: _Fork() and clone().
 */
#include "base/fork.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_uint forks;
static atomic_uint
    *mark; /* 1, and 0 in a copy that has not noticed; NULL: the kernel has no such pages */
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

/* The counter first: a thread that finds the mark set again finds the new count as well. */
static void count_copy(void)
{
    atomic_fetch_add(&forks, 1);
    if (mark != NULL)
        atomic_store(mark, 1);
}

static void begin_child(void)
{
    count_copy();
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        if (guard->in_child != NULL)
            guard->in_child();
    give_locks_back();
}

static void map_mark(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return;
    }
    mark = page;
    atomic_store(mark, 1);
}

static void arm(void)
{
    map_mark();
    pthread_atfork(take_locks, give_locks_back, begin_child);
}

void sb_fork_watch(void)
{
    pthread_once(&once, arm);
}

unsigned sb_fork_count(void)
{
    if (mark != NULL && atomic_load_explicit(mark, memory_order_acquire) == 0)
        count_copy();
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
