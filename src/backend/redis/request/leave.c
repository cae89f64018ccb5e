/*
 * leave.c - a RELEASE, made by the backend itself. A courtesy: where it fails, those behind try at the end
 * of the lease that they know of. It is never sent again: its contender may be back by then, and live in the queue.
 */
#include "backend/redis/request/leave.h"

#include "backend/redis/request/request.h"
#include "base/alloc.h"

struct leave {
    struct simba_request request; /* first: the request is the leave */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
};

static void on_left(simba_backend *store, struct simba_request *request,
                    const struct sb_redis_record *record, const struct simba_error *error)
{
    struct leave *leave = (struct leave *)request;
    struct sb_redis_listener *listener =
        sb_redis_listeners_find(&store->listeners, leave->mutex, leave->id);

    (void)record;
    (void)error;
    if (listener != NULL)
        listener->leaves = false;
    sb_free(leave);
}

void sb_redis_leave_queue(simba_backend *store, struct sb_redis_listener *listener)
{
    struct leave *leave = listener->leaves ? NULL : sb_alloc_zero(sizeof *leave);

    if (leave == NULL)
        return;
    listener->leaves = true;
    sb_redis_listener_mutex(listener, leave->mutex);
    sb_redis_listener_id(listener, leave->id);
    leave->request.op = SIMBA_OP_RELEASE;
    leave->request.mutex = leave->mutex;
    leave->request.id = leave->id;
    leave->request.timeout_ms = store->options.command_timeout_ms;
    sb_redis_request_start_once(store, &leave->request, on_left);
    sb_redis_request_batch_end(store);
}
