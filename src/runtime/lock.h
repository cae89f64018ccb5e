/*
 * lock.h - a mutex that knows its holder, so that "with the lock held" is a rule that can be
 * checked.
 *
 * An error-checking mutex of POSIX: it compares the number of the calling thread with that of the
 * holder, which costs a nanosecond. pthread_cond_wait and its like take it as any other.
 */
#ifndef SB_RUNTIME_LOCK_H
#define SB_RUNTIME_LOCK_H

#include "base/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

static inline void sb_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t checking;

    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(lock, &checking);
    pthread_mutexattr_destroy(&checking);
}

static inline void sb_lock_take(pthread_mutex_t *lock)
{
    int code = pthread_mutex_lock(lock);

    SB_CHECK(code == 0, "a thread takes a lock that it does not hold");
}

static inline void sb_lock_release(pthread_mutex_t *lock)
{
    int code = pthread_mutex_unlock(lock);

    SB_CHECK(code == 0, "a thread releases a lock that it holds");
}

/* Whether the calling thread holds it. Only for a check: otherwise the lock may be taken here. */
static inline bool sb_lock_is_mine(pthread_mutex_t *lock)
{
    return pthread_mutex_lock(lock) == EDEADLK;
}

#endif
