/*
 * blocking.c - a thread that runs one function and reports back to the loop.
 */
#include "backend/redis/wire/blocking.h"

#include "base/thread.h"

#include <stddef.h>

static void come_back(struct simba_task *task)
{
    struct sb_redis_blocking *scout =
        (struct sb_redis_blocking *)((char *)task - offsetof(struct sb_redis_blocking, task));

    pthread_join(scout->thread, NULL);
    scout->finished(scout->user);
}

static void *run_thread(void *argument)
{
    struct sb_redis_blocking *scout = argument;

    scout->run(scout->user);
    scout->host->post(scout->host, &scout->task);
    return NULL;
}

int sb_redis_blocking_start(struct sb_redis_blocking *scout)
{
    scout->task.run = come_back;
    return sb_thread_start(&scout->thread, "simba-scout", run_thread, scout);
}
