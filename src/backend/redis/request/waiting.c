/*
 * waiting.c - listeners of contenders and observers. Must not know how a request is sent.
 */
#include "backend/redis/request/request.h"

#include "base/alloc.h"

/* ---- Listening ------------------------------------------------------------------------------- */

/* A contender is only noted down: it subscribes when it has lost an attempt. */
static void start_listening(simba_backend *store, const char *mutex, const char *id)
{
    struct sb_redis_listener *listener = sb_redis_listeners_add(&store->listeners, mutex, id);

    if (listener == NULL)
        store->host->log(store->host, SIMBA_LOG_WARN,
                         "redis: no memory to listen for '%s': it is polled", mutex);
    else if (id == NULL)
        sb_redis_nodes_subscribe(&store->nodes, listener);
}

static void stop_listening(simba_backend *store, const char *mutex, const char *id)
{
    struct sb_redis_listener *listener = sb_redis_listeners_find(&store->listeners, mutex, id);

    if (listener == NULL)
        return;
    sb_redis_listeners_end_wait(&store->listeners, listener);
    if (!sb_redis_listeners_remove(&store->listeners, listener))
        return;
    if (listener->at != NULL)
        sb_redis_subscriber_remove(listener->at, listener);
    sb_free(listener);
}

void sb_redis_waiting_listen(simba_backend *store, const char *mutex, const char *id, bool on)
{
    if (on)
        start_listening(store, mutex, id);
    else
        stop_listening(store, mutex, id);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static struct sb_redis_listener *listener_of(const simba_backend *store,
                                             const struct simba_request *request)
{
    return sb_redis_listeners_find(&store->listeners, request->mutex, request->id);
}

/* Most clients have no waiter, and then nothing is looked up. */
static struct sb_redis_listener *waiter_of(const simba_backend *store,
                                           const struct simba_request *request)
{
    return store->listeners.waiting > 0 ? listener_of(store, request) : NULL;
}

int64_t sb_redis_waiting_since_us(const simba_backend *store, const struct simba_request *request)
{
    const struct sb_redis_listener *listener = waiter_of(store, request);

    return listener != NULL ? listener->waits_since_us : 0;
}

void sb_redis_waiting_won(simba_backend *store, const struct simba_request *request)
{
    struct sb_redis_listener *listener = waiter_of(store, request);

    if (listener != NULL)
        sb_redis_listeners_end_wait(&store->listeners, listener);
}

void sb_redis_waiting_lost(simba_backend *store, const struct simba_request *request,
                           int64_t since_us)
{
    struct sb_redis_listener *listener = listener_of(store, request);

    if (listener == NULL)
        return;
    sb_redis_listeners_begin_wait(&store->listeners, listener, since_us);
    sb_redis_nodes_subscribe(&store->nodes, listener);
}
