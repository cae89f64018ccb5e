/*
 * redis.c - the backend's operations; opens and closes clients. request/request.h lists the
 * stages that a request passes, and the folders in the order in which they may call each other.
 */
#include "backend/module.h"

#include "backend/redis/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <string.h>

/* ---- Eviction -------------------------------------------------------------------------------- */

/* INFO memory, asked and judged. */

struct question {
    struct sb_redis_command command; /* first: INFO */
    simba_backend *store;
};

static void judge(simba_backend *store, const struct sb_wire_place *place, const char *info)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];
    char policy[SB_REDIS_FIELD_MAX];

    if (!sb_redis_info_evicts(info, policy))
        return;
    store->host->log(store->host, SIMBA_LOG_WARN,
                     "redis: the server at %.80s evicts keys when its memory is short "
                     "(maxmemory-policy %s), leases among them: a mutex can get two owners. Use "
                     "noeviction",
                     sb_wire_place_text(place, where), policy);
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct question *question = (struct question *)command;

    if (answer->reply != NULL && answer->reply->type == REDIS_REPLY_STRING)
        judge(question->store, answer->place, answer->reply->str);
    sb_free(question);
}

static void check_eviction(simba_backend *store, struct sb_redis_node *node)
{
    const struct sb_redis_argument arguments[2] = {{"INFO", 4}, {"memory", 6}};
    struct question *question = sb_alloc_zero(sizeof *question);
    struct simba_error error;

    if (question == NULL)
        return; /* the warning is optional */
    question->store = store;
    question->command.answered = on_answered;
    question->command.deadline_ms = simba_now_ms() + store->options.command_timeout_ms;
    if (sb_redis_reconnecting_send(node->commands, &question->command, arguments, 2, &error) !=
        SIMBA_OK)
        sb_free(question);
}

/* ---- What the nodes tell --------------------------------------------------------------------- */

static void free_store(simba_backend *store)
{
    sb_redis_nodes_free(&store->nodes);
    sb_redis_listeners_free(&store->listeners);
    sb_wire_tls_free(store->tls);
    sb_redis_options_free(&store->options);
    sb_free(store);
}

static void on_ready(void *user, struct sb_redis_node *node, bool first)
{
    if (first)
        check_eviction(user, node);
}

static void on_closed(void *user)
{
    simba_backend *store = user;
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    free_store(store);
    closed(argument);
}

static const struct sb_redis_nodes_events nodes_events = {on_ready, sb_redis_request_send_waiting,
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
        code = sb_wire_tls_create(&store->options.trust, &store->tls, error);
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
        else if (batch->op == SIMBA_OP_INSPECT)
            sb_redis_inspect_start(store, batch);
        else if (batch->op == SIMBA_OP_QUEUE)
            sb_redis_request_start(store, batch, sb_redis_queue_take);
        else if (batch->op == SIMBA_OP_GET_PROPERTY || batch->op == SIMBA_OP_SET_PROPERTY)
            sb_redis_request_start(store, batch, sb_redis_property_take);
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
    .abi = SIMBA_BACKEND_ABI,
    .name = "redis",
    .serves = sb_redis_serves,
    .open = open_client,
    .submit = submit,
    .listen = sb_redis_waiting_listen,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_redis_option_table),
    .path_is_file = true,
    .has_queue = true,
    .has_properties = true,
    .can_forget = true,
    .can_inspect = true,
    .no_sigpipe = true,
};

const struct sb_module sb_module_redis = {SB_MODULE_LIBRARY, &ops, NULL};
