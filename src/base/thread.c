/*
 * thread.c - the start of a thread, and waits of threads.
 */
#include "base/thread.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/time.h"

#include <signal.h>

/* What a thread is told; it frees it. */
struct beginning {
    const char *name;
    void *(*run)(void *argument);
    void *argument;
};

/* It gives itself its name: to name another thread takes a file of /proc, as long as to start
 * one. */
static void *begin(void *told)
{
    struct beginning beginning = *(struct beginning *)told;

    sb_free(told);
    pthread_setname_np(pthread_self(), beginning.name);
    return beginning.run(beginning.argument);
}

static int start_quietly(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all;
    sigset_t before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* The long way, which needs no memory. */
static int start_and_name(pthread_t *thread, const char *name, void *(*run)(void *argument),
                          void *argument)
{
    int code = start_quietly(thread, run, argument);

    if (code == 0)
        pthread_setname_np(*thread, name);
    return code;
}

int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument)
{
    struct beginning *beginning = sb_alloc(sizeof *beginning);
    int code;

    if (beginning == NULL)
        return start_and_name(thread, name, run, argument);
    *beginning = (struct beginning){name, run, argument};
    code = start_quietly(thread, begin, beginning);
    if (code != 0)
        sb_free(beginning);
    return code;
}

bool sb_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    int64_t left_ms = sb_time_left(until_ms, simba_now_ms());
    struct timespec until;

    if (left_ms == 0)
        return false;
    if (left_ms == SIMBA_INFINITE) {
        pthread_cond_wait(condition, lock);
        return true;
    }
    until = sb_clock_deadline(left_ms);
    pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until);
    return true;
}
