/*
 * zookeeper.c - the backend's operations, and the life of a client.
 */
#include "backend/module.h"

#include "backend/zookeeper/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"

/* ---- Opening --------------------------------------------------------------------------------- */

static void free_store(simba_backend *store)
{
    sb_zk_mutexes_free(&store->mutexes);
    sb_zk_options_free(&store->options);
    sb_free(store);
}

static int open_store(simba_backend *store, const struct simba_backend_config *config,
                      struct simba_error *error)
{
    int code = sb_zk_options_read(&store->options, config, error);

    if (code == SIMBA_OK && sb_hash_table_init(&store->mutexes) != SIMBA_OK)
        code = sb_error_plain(error, SIMBA_ENOMEM);
    if (code != SIMBA_OK)
        return code;
    store->timer_ms = SIMBA_INFINITE;
    store->due = sb_zk_on_timer;
    store->begin = sb_zk_request_begin;
    store->session.host = store->host;
    store->session.options = &store->options;
    store->session.user = store;
    store->session.tell = sb_zk_on_session;
    store->session.watched = sb_zk_on_watch;
    code = sb_zk_session_open(&store->session, error);
    if (code != SIMBA_OK)
        return code;
    uv_timer_init(store->host->loop, &store->timer);
    store->timer.data = store;
    sb_zk_wake_at(store, simba_now_ms() + sb_zk_liveness_interval_ms(&store->session.liveness));
    return SIMBA_OK;
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

/* ---- Use ------------------------------------------------------------------------------------- */

static void submit(simba_backend *store, struct simba_request *batch)
{
    store->taking = true;
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request may be gone once it is started */

        if (batch->op == SIMBA_OP_LIST)
            sb_zk_list_start(store, batch);
        else if (batch->op == SIMBA_OP_INSPECT)
            sb_zk_inspect(store, batch);
        else if (batch->op == SIMBA_OP_QUEUE)
            sb_zk_queue_start(store, batch);
        else if (batch->op == SIMBA_OP_GET_PROPERTY || batch->op == SIMBA_OP_SET_PROPERTY)
            sb_zk_property_start(store, batch);
        else
            sb_zk_request_start(store, batch, NULL, NULL);
        batch = next;
    }
    store->taking = false;
    sb_zk_proof_drop(store->proof);
    store->proof = NULL;
}

static void listen_contender(simba_backend *store, struct sb_zk_mutex *mutex, const char *id,
                             bool on)
{
    struct sb_zk_latch *latch = on ? sb_zk_latch_ensure(mutex, id) : sb_zk_latch_find(mutex, id);

    if (latch == NULL)
        return; /* without memory: it is woken all the same, and withdrawn when it is silent */
    latch->listening = on;
    latch->abandoned = !on;
    if (on || latch->active != NULL)
        return;
    if (latch->node != SB_ZK_NODE_NONE && !latch->granted && store->session.up)
        sb_zk_job_withdraw(store, latch);
    else
        sb_zk_latch_drop(latch);
}

static void listen_to(simba_backend *store, const char *name, const char *id, bool on)
{
    struct sb_zk_mutex *mutex =
        on ? sb_zk_mutex_ensure(&store->mutexes, name) : sb_zk_mutex_find(&store->mutexes, name);

    if (mutex == NULL)
        return;
    mutex->users++; /* it stays meanwhile */
    if (id != NULL)
        listen_contender(store, mutex, id, on);
    else if (on)
        mutex->observers++;
    else if (mutex->observers > 0 && --mutex->observers == 0)
        sb_zk_unwatch_observed(store, mutex);
    mutex->users--;
    sb_zk_mutex_drop(&store->mutexes, mutex);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void finish_close(void *user)
{
    simba_backend *store = user;
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    free_store(store);
    closed(argument);
}

static void on_timer_closed(uv_handle_t *timer)
{
    simba_backend *store = timer->data;

    sb_zk_session_close(&store->session, finish_close);
}

static void close_client(simba_backend *store, void (*closed)(void *argument), void *argument)
{
    store->closed = closed;
    store->argument = argument;
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
}

static int check_names(simba_backend *store, const char *mutex, const char *id,
                       struct simba_error *error)
{
    (void)store;
    (void)id;
    return sb_zk_check_mutex(mutex, error);
}

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "zookeeper",
    .serves = sb_zk_serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_zk_option_table),
    .has_queue = true,
    .has_properties = true,
    .can_inspect = true,
    .has_sessions = true,
    .check_names = check_names,
};

const struct sb_module sb_module_zookeeper = {SB_MODULE_LIBRARY, &ops, NULL};
