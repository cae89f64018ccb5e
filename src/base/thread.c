/*
 * thread.c - the start of a thread.
 */
#include "base/thread.h"

#include <signal.h>

int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument)
{
    sigset_t all;
    sigset_t before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0)
        pthread_setname_np(*thread, name);
    return code;
}
