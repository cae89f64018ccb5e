/*
 * fork.c - one counter, raised in the child by pthread_atfork.
 */
#include "runtime/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void arm(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

void sb_fork_watch(void)
{
    pthread_once(&once, arm);
}

unsigned sb_fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
