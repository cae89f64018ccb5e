/*
 * blocking.c - a thread that runs one function and reports back to the loop.
 */
#include "backend/wire/blocking.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"

static void on_thread_ended(struct simba_task *task)
{
    struct sb_wire_blocking *call = SB_CONTAINER(struct sb_wire_blocking, task, task);

    pthread_join(call->thread, NULL);
    call->finished(call->user);
}

static void *run_thread(void *argument)
{
    struct sb_wire_blocking *call = argument;

    call->run(call->user);
    call->host->post(call->host, &call->task);
    return NULL;
}

int sb_wire_blocking_start(struct sb_wire_blocking *call)
{
    call->task.run = on_thread_ended;
    return sb_thread_start(&call->thread, "simba-lookup", run_thread, call);
}
