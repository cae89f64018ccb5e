/*
 * thread.c - the start of a thread.
 */
#include "base/thread.h"

#include "base/alloc.h"

#include <errno.h>
#include <signal.h>

/* What a thread is told; it frees it. */
struct beginning {
    const char *name;
    void *(*run)(void *argument);
    void *argument;
};

/* It gives itself its name: to name another thread takes a file of /proc, as long as to start one. */
static void *begin(void *told)
{
    struct beginning beginning = *(struct beginning *)told;

    sb_free(told);
    pthread_setname_np(pthread_self(), beginning.name);
    return beginning.run(beginning.argument);
}

static int start_quietly(pthread_t *thread, struct beginning *beginning)
{
    sigset_t all;
    sigset_t before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, begin, beginning);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument)
{
    struct beginning *beginning = sb_alloc(sizeof *beginning);
    int code;

    if (beginning == NULL)
        return ENOMEM;
    *beginning = (struct beginning){name, run, argument};
    code = start_quietly(thread, beginning);
    if (code != 0)
        sb_free(beginning);
    return code;
}
