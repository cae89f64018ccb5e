/*
 * redis.c - the backend's operations and the life of a client. request/store.h lists the stages
 * that a request passes, and the folders in the order in which they may call each other.
 */
#include "backend/redis/redis.h"

#include "backend/redis/ops/ops.h"
#include "backend/redis/request/request.h"
#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/error.h"

/* ---- What the nodes tell --------------------------------------------------------------------- */

static void free_store(simba_backend *store)
{
    sb_redis_nodes_free(&store->nodes);
    sb_redis_listeners_free(&store->listeners);
    sb_redis_tls_free(store->tls);
    sb_redis_options_free(&store->options);
    sb_free(store);
}

static void on_ready(void *user, struct sb_redis_node *node, bool first)
{
    if (first)
        sb_redis_eviction_check(user, node);
}

static void on_room(void *user, struct sb_redis_node *node)
{
    (void)user;
    sb_redis_request_go_on(node);
}

static void on_released(void *user, struct sb_redis_listener *listener)
{
    simba_backend *store = user;

    if (listener->lingers)
        sb_redis_request_leave_queue(store, listener);
    else
        sb_redis_listener_wake(&store->listeners, listener);
}

static void on_closed(void *user)
{
    simba_backend *store = user;
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    free_store(store);
    closed(argument);
}

static const struct sb_redis_nodes_events nodes_events = {on_ready, on_room, on_released,
                                                          on_closed};

/* ---- Operations ------------------------------------------------------------------------------ */

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
    store->nodes = (struct sb_redis_nodes){
        .host = store->host,
        .options = &store->options,
        .tls = store->tls,
        .listeners = &store->listeners,
        .events = &nodes_events,
        .user = store,
    };
    return sb_redis_nodes_open(&store->nodes, error);
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
    sb_redis_nodes_flush(&store->nodes);
}

static void close_client(simba_backend *store, void (*closed)(void *argument), void *argument)
{
    store->closed = closed;
    store->argument = argument;
    sb_redis_nodes_close(&store->nodes);
}

static const struct simba_backend_ops ops = {
    .size = sizeof(struct simba_backend_ops),
    .name = "redis",
    .serves = sb_redis_serves,
    .open = open_client,
    .submit = submit,
    .listen = sb_redis_waiting_listen,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_redis_option_table),
    .path_is_file = true,
    .has_queue = true,
    .no_sigpipe = true,
};

const struct sb_module sb_redis_module = {SB_MODULE_LIBRARY, &ops, NULL};
