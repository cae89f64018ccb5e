/*
 * redis.c - the backend's operations and the life of a client.
 */
#include "backend/redis/redis.h"

#include "backend/redis/topology/cluster.h"
#include "backend/redis/topology/discover.h"
#include "backend/redis/wire/hosts.h"
#include "backend/redis/ops/list.h"
#include "backend/redis/ops/queue.h"
#include "backend/redis/request/request.h"
#include "backend/redis/topology/sentinels.h"
#include "base/alloc.h"
#include "base/error.h"

#include <uv.h>

/* ---- Opening -------------------------------------------------------------------------------- */

static void on_master_moved(void *user)
{
    simba_backend *store = user;

    if (store->nodes != NULL)
        sb_redis_node_follow_master(store->nodes);
}

static void on_sentinels_closed(void *user)
{
    simba_backend *store = user;

    store->sentinels = NULL;
    sb_redis_store_finish_close(store);
}

static const struct sb_redis_sentinels_events sentinels_events = {on_master_moved,
                                                                  on_sentinels_closed};

static int ask_sentinels(simba_backend *store, struct simba_error *error)
{
    struct sb_redis_votes *votes = sb_alloc(sizeof *votes);
    int code;

    if (votes == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    code = sb_redis_ask_sentinels(&store->options, store->tls, votes, error);
    if (code == SIMBA_OK) {
        store->sentinels = sb_redis_sentinels_create(store->host, &store->options, store->tls,
                                                     votes, &sentinels_events, store);
        if (store->sentinels == NULL)
            code = sb_error_plain(error, SIMBA_ENOMEM);
    }
    sb_free(votes);
    return code;
}

static int find_server(simba_backend *store, struct sb_redis_endpoint *ret_endpoint,
                       struct simba_error *error)
{
    const struct sb_redis_place *place = &store->options.places[0];
    int code = SIMBA_OK;

    if (store->options.mode == SB_REDIS_SENTINEL)
        code = ask_sentinels(store, error);
    if (code != SIMBA_OK)
        return code;
    if (store->sentinels != NULL)
        place = sb_redis_sentinels_master(store->sentinels);
    return sb_redis_endpoint_find(&store->options, &store->options.credentials, place, ret_endpoint,
                                  error);
}

/* The server is asked whether it can be used before anything is put on the loop. */
static int open_server(simba_backend *store, struct simba_error *error)
{
    struct sb_redis_endpoint endpoint;
    struct sb_redis_node *node;
    int code = find_server(store, &endpoint, error);

    if (code == SIMBA_OK)
        code = sb_redis_check(&store->options, store->tls, &endpoint, error);
    if (code != SIMBA_OK)
        return code;
    node = sb_redis_node_add(store, NULL);
    if (node == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    uv_update_time(store->host->loop); /* the above may have taken long */
    if (store->sentinels != NULL)
        sb_redis_sentinels_start(store->sentinels);
    sb_redis_reconnecting_start(node->commands, &endpoint);
    return SIMBA_OK;
}

static int open_cluster(simba_backend *store, struct simba_error *error)
{
    return sb_redis_cluster_open(store, &store->cluster, error);
}

static void free_store(simba_backend *store)
{
    if (store->sentinels != NULL)
        sb_redis_sentinels_free(store->sentinels); /* not started: the client was not opened */
    sb_redis_listeners_free(&store->listeners);
    sb_redis_tls_free(store->tls);
    sb_redis_options_free(&store->options);
    sb_free(store);
}

static int open_store(simba_backend *store, const struct simba_backend_config *config,
                      struct simba_error *error)
{
    int code = sb_redis_options_read(&store->options, config, error);

    if (code == SIMBA_OK && store->options.allow_hosts != NULL)
        code = sb_redis_hosts_check(store->options.allow_hosts, error);
    if (code != SIMBA_OK)
        return code;
    code = sb_redis_listeners_init(&store->listeners, store->host);
    if (code != SIMBA_OK)
        return sb_error_plain(error, code);
    if (store->options.tls)
        code = sb_redis_tls_create(&store->options, &store->tls, error);
    if (code != SIMBA_OK)
        return code;
    return store->options.mode == SB_REDIS_CLUSTER ? open_cluster(store, error)
                                                   : open_server(store, error);
}

static int open_client(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *store = sb_alloc_zero(sizeof *store);
    int code;

    if (store == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    store->host = host;
    code = open_store(store, config, error);
    if (code != SIMBA_OK) {
        free_store(store);
        return code;
    }
    *ret_backend = store;
    return SIMBA_OK;
}

/* ---- Use ------------------------------------------------------------------------------------ */

static void submit(simba_backend *store, struct simba_request *batch)
{
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request may be gone once it is started */

        if (batch->op == SIMBA_OP_LIST)
            sb_redis_list_start(store, batch);
        else if (batch->op == SIMBA_OP_QUEUE)
            sb_redis_queue_start(store, batch);
        else
            sb_redis_request_start(store, batch, sb_redis_request_reply);
        batch = next;
    }
    sb_redis_request_batch_end(store);
}

/* A contender is only noted down: it listens when it has lost an attempt. */
static void start_listening(simba_backend *store, const char *mutex, const char *id)
{
    struct sb_redis_listener *listener = sb_redis_listeners_add(&store->listeners, mutex, id);

    if (listener == NULL)
        store->host->log(store->host, SIMBA_LOG_WARN,
                         "redis: no memory to listen for '%s': it is polled", mutex);
    else if (listener->lingers)
        sb_redis_subscriber_resume(listener->at, listener);
    else if (id == NULL)
        sb_redis_store_subscribe(store, listener);
}

/* In a cluster a listener moves with its mutex, and must not be forgotten at a node that goes. */
static bool may_linger(const simba_backend *store, const struct sb_redis_listener *listener)
{
    return store->cluster == NULL && listener->at != NULL;
}

static void stop_listening(simba_backend *store, const char *mutex, const char *id)
{
    struct sb_redis_listener *listener = sb_redis_listeners_find(&store->listeners, mutex, id);

    if (listener == NULL)
        return;
    sb_redis_listeners_end_wait(&store->listeners, listener);
    if ((may_linger(store, listener) && sb_redis_subscriber_linger(listener->at, listener)) ||
        !sb_redis_listeners_remove(&store->listeners, listener))
        return;
    if (listener->at != NULL)
        sb_redis_subscriber_remove(listener->at, listener);
    sb_free(listener);
}

static void listen_to(simba_backend *store, const char *mutex, const char *id, bool on)
{
    if (on)
        start_listening(store, mutex, id);
    else
        stop_listening(store, mutex, id);
}

/* ---- Closing -------------------------------------------------------------------------------- */

void sb_redis_store_finish_close(simba_backend *store)
{
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    if (!store->closing || store->node_count > 0 || store->cluster != NULL ||
        store->sentinels != NULL)
        return;
    free_store(store);
    closed(argument);
}

static void close_client(simba_backend *store, void (*closed)(void *argument), void *argument)
{
    store->closed = closed;
    store->argument = argument;
    while (store->nodes != NULL)
        sb_redis_node_remove(store->nodes);
    store->closing = true;
    if (store->cluster != NULL)
        sb_redis_cluster_close(store->cluster);
    if (store->sentinels != NULL)
        sb_redis_sentinels_close(store->sentinels);
}

static const struct simba_backend_ops ops = {
    .size = sizeof(struct simba_backend_ops),
    .name = "redis",
    .serves = sb_redis_serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    .options = sb_redis_option_table,
    .path_is_file = true,
    .has_queue = true,
    .no_sigpipe = true,
};

const struct sb_module sb_redis_module = {SB_MODULE_LIBRARY, &ops, NULL};
