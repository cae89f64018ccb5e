/*
 * etcd.c - the backend's operations, and the life of a client.
 *
 * While a client is being opened its loop cannot be used: so the link asks on another loop whether
 * the cluster can be used, and moves to the client's with the connection that was answered.
 */
#include "backend/module.h"

#include "backend/etcd/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"

#include <string.h>

/* ---- The first question ---------------------------------------------------------------------- */

struct question {
    struct sb_etcd_link *link;
    struct sb_etcd_call call;
    size_t asked;
    struct simba_error error;
};

static void ask(struct question *q);

static void on_link(void *user)
{
    (void)user;
}

/* A member that cannot serve is left for the next one: it refuses the question, and another one
 * that was sent before it was left. */
static void on_answer(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct question *q = call->user;
    size_t places = q->link->options->place_count;

    (void)maybe;
    q->error = *error;
    if (error->code == SIMBA_EUNAVAILABLE && simba_now_ms() < call->deadline_ms &&
        q->asked < (places > 1 ? 2 * places : 1))
        ask(q);
    else
        uv_stop(q->link->loop);
}

/* A linearizable read: the cluster has a leader, and the user may read. */
static void ask(struct question *q)
{
    const struct sb_etcd_options *o = q->link->options;
    struct sb_etcd_range range;

    q->asked++;
    sb_etcd_call_clear(&q->call);
    sb_etcd_range_key(&range, o->prefix[0] != '\0' ? o->prefix : SB_ETCD_PROPERTIES);
    range.message.count_only = true;
    sb_etcd_link_call(q->link, &q->call, "/etcdserverpb.KV/Range", &range.message.base,
                      q->call.deadline_ms, on_answer, q);
}

static int ask_on_loop(simba_backend *store, uv_loop_t *loop, struct simba_error *error)
{
    struct sb_etcd_link *link = &store->link;
    struct question q = {.link = link};

    link->loop = loop;
    link->options = &store->options;
    link->tls = store->tls;
    link->up = link->closed = on_link;
    q.call.deadline_ms = sb_later(simba_now_ms(), store->options.connect_timeout_ms);
    sb_etcd_link_start(link);
    ask(&q);
    uv_run(loop, UV_RUN_DEFAULT);
    sb_etcd_call_clear(&q.call);
    if (q.error.code == SIMBA_OK)
        sb_etcd_link_leave(link);
    else
        sb_etcd_link_close(link);
    uv_run(loop, UV_RUN_DEFAULT);
    if (q.error.code != SIMBA_OK && error != NULL)
        *error = q.error;
    return q.error.code;
}

static int find_cluster(simba_backend *store, struct simba_error *error)
{
    uv_loop_t loop;
    int code = sb_descriptors_check(SB_DESCRIPTORS_OF_LOOP);

    if (code == 0)
        code = uv_loop_init(&loop);
    if (code != 0)
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a loop: %s",
                                    uv_strerror(code));
    code = ask_on_loop(store, &loop, error);
    uv_loop_close(&loop);
    return code;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void free_store(simba_backend *store)
{
    sb_etcd_mutexes_free(&store->mutexes);
    sb_etcd_watches_free(&store->watches);
    sb_etcd_leases_free(&store->leases);
    sb_wire_tls_free(store->tls);
    sb_etcd_options_free(&store->options);
    sb_free(store->txn);
    sb_free(store);
}

static void on_closed(void *user)
{
    simba_backend *store = user;
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    free_store(store);
    closed(argument);
}

static int open_store(simba_backend *store, const struct simba_backend_config *config,
                      struct simba_error *error)
{
    int code = sb_etcd_options_read(&store->options, config, error);

    store->txn = sb_alloc_zero(sizeof *store->txn);
    if (code == SIMBA_OK && (store->txn == NULL || sb_hash_table_init(&store->mutexes) != SIMBA_OK))
        code = sb_error_plain(error, SIMBA_ENOMEM);
    if (code == SIMBA_OK && store->options.tls)
        code = sb_wire_tls_create(&store->options.trust, &store->tls, error);
    if (code == SIMBA_OK)
        code = find_cluster(store, error);
    return code;
}

static void tend_at(void *user, int64_t at_ms)
{
    sb_etcd_wake_at(user, at_ms);
}

static void start_store(simba_backend *store)
{
    store->timer_ms = store->sweep_ms = SIMBA_INFINITE;
    store->due = sb_etcd_on_timer;
    store->begin = sb_etcd_request_begin;
    store->leases.link = store->watches.link = &store->link;
    store->leases.options = &store->options;
    store->leases.tell = sb_etcd_on_lease;
    store->leases.user = store;
    store->watches.tend_at = tend_at;
    store->watches.user = store;
    store->link.loop = store->host->loop;
    store->link.host = store->host;
    store->link.up = sb_etcd_on_up;
    store->link.closed = on_closed;
    store->link.user = store;
    uv_timer_init(store->host->loop, &store->timer);
    store->timer.data = store;
    sb_etcd_link_start(&store->link);
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
    start_store(store);
    *ret_backend = store;
    return SIMBA_OK;
}

/* ---- Use ------------------------------------------------------------------------------------- */

static void submit(simba_backend *store, struct simba_request *batch)
{
    sb_etcd_link_begin_batch(&store->link);
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request may be gone once it is started */

        if (batch->op == SIMBA_OP_LIST)
            sb_etcd_list_start(store, batch);
        else if (batch->op == SIMBA_OP_INSPECT)
            sb_etcd_inspect_start(store, batch);
        else if (batch->op == SIMBA_OP_ENVIRONMENT)
            sb_etcd_environment_answer(store, batch);
        else if (batch->op == SIMBA_OP_QUEUE)
            sb_etcd_queue_start(store, batch);
        else if (batch->op == SIMBA_OP_GET_PROPERTY || batch->op == SIMBA_OP_SET_PROPERTY)
            sb_etcd_property_start(store, batch);
        else
            sb_etcd_request_start(store, batch);
        batch = next;
    }
    sb_etcd_guards_send(store);
    sb_etcd_link_end_batch(&store->link);
}

static void listen_contender(simba_backend *store, struct sb_etcd_mutex *mutex, const char *id,
                             bool on)
{
    struct sb_etcd_latch *latch =
        on ? sb_etcd_latch_ensure(mutex, id) : sb_etcd_latch_find(mutex, id);

    if (latch == NULL)
        return; /* without memory: it is woken all the same, and withdrawn when it is silent */
    latch->listening = on;
    latch->abandoned = !on;
    if (on || latch->active != NULL)
        return;
    if (latch->key != SB_ETCD_KEY_NONE && !latch->granted && sb_etcd_link_is_up(&store->link))
        sb_etcd_job_withdraw(store, latch);
    else
        sb_etcd_latch_drop(latch);
}

static void on_property_changed(void *user, const struct sb_etcd_watch_event *event)
{
    struct sb_etcd_mutex *mutex = user;
    const struct simba_backend_host *host = mutex->store->host;

    if (event->change != SB_ETCD_DELETED)
        host->notice(host, SIMBA_NOTICE_CHANGED, mutex->name, NULL);
}

static void listen_observer(simba_backend *store, struct sb_etcd_mutex *mutex, bool on)
{
    char folder[SB_ETCD_KEY_SIZE];

    if (on && mutex->observers++ == 0) {
        sb_etcd_property_key(folder, store->options.prefix, mutex->name, "");
        mutex->properties = sb_etcd_watch(&store->watches, folder, on_property_changed, mutex);
    } else if (!on && mutex->observers > 0 && --mutex->observers == 0) {
        sb_etcd_unwatch(&store->watches, &mutex->watcher);
        sb_etcd_unwatch(&store->watches, &mutex->properties);
    }
}

static void listen_to(simba_backend *store, const char *name, const char *id, bool on)
{
    struct sb_etcd_mutex *mutex =
        on ? sb_etcd_mutex_ensure(store, name) : sb_etcd_mutex_find(&store->mutexes, name);

    if (mutex == NULL)
        return;
    mutex->users++; /* it stays meanwhile */
    if (id != NULL)
        listen_contender(store, mutex, id, on);
    else
        listen_observer(store, mutex, on);
    mutex->users--;
    sb_etcd_mutex_drop(mutex);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void close_link(void *user)
{
    simba_backend *store = user;

    sb_etcd_link_close(&store->link);
}

static void on_timer_closed(uv_handle_t *timer)
{
    simba_backend *store = timer->data;

    sb_etcd_leases_revoke(&store->leases, close_link);
}

/* Withdrawals may be under way: they end with the link. */
static void close_client(simba_backend *store, void (*closed)(void *argument), void *argument)
{
    store->closing = true;
    store->closed = closed;
    store->argument = argument;
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
}

static int check_names(simba_backend *store, const char *mutex, const char *id,
                       struct simba_error *error)
{
    (void)store;
    (void)id;
    return sb_etcd_check_mutex(mutex, error);
}

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "etcd",
    .serves = sb_etcd_serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_etcd_option_table),
    .has_queue = true,
    .has_properties = true,
    .can_inspect = true,
    .has_environment = true,
    .has_sessions = true,
    .no_sigpipe = true,
    .check_names = check_names,
};

const struct sb_module sb_module_etcd = {SB_MODULE_LIBRARY, &ops, NULL};
