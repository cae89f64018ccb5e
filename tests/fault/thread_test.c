/*
 * thread_test.c - each start of a thread fails in turn.
 *
 *     fault-thread [STORE [PATTERN]]
 *
 * It is linked with --wrap=pthread_create: a limit on processes does not bind root.
 */
#include "heap.h"
#include "torture.h"

#include <simba/simba.h>

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

static struct shortage none = {.piece = "allocation"};
static struct shortage threads = {.piece = "thread", .code = SIMBA_ENOMEM};

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument)
{
    return shortage_strikes(&threads) ? EAGAIN
                                      : __real_pthread_create(thread, attributes, run, argument);
}

int main(int argc, char **argv)
{
    const struct torture torture = {
        .shortage = &threads,
        .scenes = scenes,
        .store = argc > 1 ? argv[1] : NULL,
        .stride = 1,
    };

    if (heap_install(&none) != SIMBA_OK)
        return 1;
    return torture_run(&torture, argc > 2 ? argv[2] : NULL);
}
