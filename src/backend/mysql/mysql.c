/*
 * mysql.c - the backend `mysql://` and `mariadb://`. Owns the life of a client: a worker with the
 * connection, which also polls for what is waited for, and a second connection that sleeps until a
 * waiter is next.
 */
#include "backend/module.h"

#include "backend/mysql/listener.h"
#include "backend/sql/worker.h"
#include "base/alloc.h"
#include "base/error.h"

#include <pthread.h>
#include <string.h>

#define GATHER_MS 25

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_mysql_settings settings;
    struct sb_sql_worker *worker;
    struct sb_sql_waiters *waiters;
    struct sb_mysql_listener *listener;
    pthread_mutex_t lock; /* guards the next */
    bool closing;         /* the worker is about to go */
    void (*closed)(void *argument);
    void *argument;
};

static bool serves(const char *scheme)
{
    return strcmp(scheme, "mysql") == 0 || strcmp(scheme, "mariadb") == 0;
}

/* ---- The dialect ----------------------------------------------------------------------------- */

static int read_settings(void *memory, simba_url *url, const struct simba_backend_host *host,
                         struct sb_sql_limits *ret_limits, struct simba_error *error)
{
    struct sb_mysql_settings *settings = memory;
    int code = sb_sql_address_read(&settings->address, sb_mysql_options, url, error);

    settings->host = host;
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error);
    if (code != SIMBA_OK)
        return code;
    ret_limits->connect_ms = settings->address.connect_timeout_ms;
    ret_limits->timeout_ms = settings->address.timeout_ms;
    return SIMBA_OK;
}

static void clear_settings(void *memory)
{
    struct sb_mysql_settings *settings = memory;

    sb_sql_address_clear(&settings->address, sb_mysql_options);
}

static const struct sb_sql_dialect dialect = {
    .driver = &sb_mysql_driver,
    .schema = sb_mysql_schema,
    .settings_size = sizeof(struct sb_mysql_settings),
    .read = read_settings,
    .clear = clear_settings,
};

/* ---- The backend ----------------------------------------------------------------------------- */

static void free_backend(simba_backend *b)
{
    sb_sql_waiters_destroy(b->waiters);
    clear_settings(&b->settings);
    pthread_mutex_destroy(&b->lock);
    sb_free(b);
}

static void on_first_waiter(void *user)
{
    simba_backend *b = user;

    sb_mysql_listener_want(b->listener);
}

/* On the listener's thread, which may outlive the worker. */
static void nudge_worker(simba_backend *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->worker != NULL && !b->closing)
        sb_sql_worker_nudge(b->worker);
    pthread_mutex_unlock(&b->lock);
}

static void on_woken(void *user)
{
    simba_backend *b = user;

    if (sb_sql_waiters_wake(b->waiters))
        atomic_store(&b->settings.called, true);
    else
        nudge_worker(b);
}

static void on_hears(void *user, bool on)
{
    simba_backend *b = user;

    sb_sql_waiters_set_push(b->waiters, on);
    nudge_worker(b);
}

static void forget(void *argument)
{
    (void)argument;
}

/* The listener has no thread before a contender waits, so it can be taken back at once. */
static int start(simba_backend *b, const struct sb_sql_limits *limits, struct simba_error *error)
{
    const struct sb_sql_waiters_config waiters = {
        .host = b->host,
        .poll_max_ms = b->settings.address.poll_ms,
        .client = b->settings.client,
        .first = on_first_waiter,
        .user = b,
    };
    const struct sb_mysql_listener_config listener = {
        .host = b->host,
        .settings = &b->settings,
        .woken = on_woken,
        .hears = on_hears,
        .user = b,
    };
    struct sb_sql_worker_config worker = {
        .driver = &sb_mysql_driver,
        .settings = &b->settings,
        .host = b->host,
        .name = "simba-mysql",
        .wait_ms = limits->timeout_ms,
        .connect_ms = limits->connect_ms,
        .gather_ms = GATHER_MS,
        .client = b->settings.client,
    };
    int code = sb_sql_waiters_create(&waiters, &b->waiters, error);

    if (code == SIMBA_OK)
        code = sb_mysql_listener_create(&listener, &b->listener, error);
    if (code != SIMBA_OK)
        return code;
    worker.waiters = b->waiters;
    code = sb_sql_worker_start(&worker, &b->worker, error);
    if (code != SIMBA_OK)
        sb_mysql_listener_close(b->listener, forget, NULL);
    return code;
}

static int open_client(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *b = sb_alloc_zero(sizeof *b);
    struct sb_sql_limits limits;
    int code;

    if (b == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    b->host = host;
    pthread_mutex_init(&b->lock, NULL);
    code = read_settings(&b->settings, config->url, host, &limits, error);
    sb_mysql_name_client(b->settings.client);
    if (code == SIMBA_OK)
        code = start(b, &limits, error);
    if (code != SIMBA_OK) {
        free_backend(b);
        return code;
    }
    *ret_backend = b;
    return SIMBA_OK;
}

static void submit(simba_backend *b, struct simba_request *batch)
{
    sb_sql_worker_submit(b->worker, batch);
}

/* Observers look by themselves, and hear of what the looks for those that wait find. */
static void listen_to(simba_backend *b, const char *mutex, const char *id, bool on)
{
    sb_sql_worker_listen(b->worker, mutex, id, on);
    sb_sql_waiters_listen(b->waiters, mutex, id == NULL, on);
}

static void on_listener_closed(void *argument)
{
    simba_backend *b = argument;
    void (*closed)(void *argument) = b->closed;
    void *closed_argument = b->argument;

    free_backend(b);
    closed(closed_argument);
}

static void on_worker_stopped(void *argument)
{
    simba_backend *b = argument;

    sb_mysql_listener_close(b->listener, on_listener_closed, b);
}

/* The listener lets go of its connection first: the last that the worker does is to end its sleep
 * on the server. */
static void close_client(simba_backend *b, void (*closed)(void *argument), void *argument)
{
    b->closed = closed;
    b->argument = argument;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_mutex_unlock(&b->lock);
    sb_mysql_listener_stop(b->listener);
    sb_sql_worker_stop(b->worker, on_worker_stopped, b);
}

static int check_names(simba_backend *b, const char *mutex, const char *id,
                       struct simba_error *error)
{
    return sb_sql_worker_check_names(b->worker, mutex, id, error);
}

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "mysql",
    .serves = serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_mysql_options),
    .has_queue = true,
    .has_properties = true,
    .can_forget = true,
    .can_inspect = true,
    .no_sigpipe = true,
    .check_names = check_names,
};

const struct sb_module sb_module_mysql = {SB_MODULE_LIBRARY, &ops, &dialect};
