/*
 * postgres.c - the backend `postgres://`. Owns the life of a client: a worker with the connection
 * for requests, and a listener with the one that hears of releases.
 */
#include "backend/module.h"

#include "backend/postgres/connection.h"
#include "backend/postgres/listener.h"
#include "backend/sql/worker.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define GATHER_MS 25

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_postgres_settings settings;
    struct sb_sql_worker *worker;
    struct sb_sql_waiters *waiters;
    struct sb_postgres_listener *listener;

    struct simba_task wait_task;
    atomic_bool wait_posted; /* the task is on its way to the loop */
    bool closing;            /* the worker is gone; only the task is waited for */
    void (*closed)(void *argument);
    void *argument;
};

static bool serves(const char *scheme)
{
    return strcmp(scheme, "postgres") == 0 || strcmp(scheme, "postgresql") == 0;
}

/* ---- The dialect ----------------------------------------------------------------------------- */

static int read_settings(void *memory, simba_url *url, const struct simba_backend_host *host,
                         struct sb_sql_limits *ret_limits, struct simba_error *error)
{
    struct sb_postgres_settings *settings = memory;
    int code = sb_postgres_settings_read(settings, url, error);

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
    sb_postgres_settings_clear(memory);
}

static const struct sb_sql_dialect dialect = {
    .driver = &sb_postgres_driver,
    .schema = sb_postgres_schema,
    .settings_size = sizeof(struct sb_postgres_settings),
    .read = read_settings,
    .clear = clear_settings,
};

/* ---- Waiting: from the worker to the listener ------------------------------------------------ */

static void finish_close(simba_backend *b);

static void run_wait(struct simba_task *task)
{
    simba_backend *b = SB_CONTAINER(struct simba_backend, wait_task, task);

    atomic_store(&b->wait_posted, false);
    if (b->closing)
        finish_close(b);
    else
        sb_postgres_listener_want(b->listener);
}

static void on_first_waiter(void *user)
{
    simba_backend *b = user;

    if (!atomic_exchange(&b->wait_posted, true))
        b->host->post(b->host, &b->wait_task);
}

static void on_hears(void *user, bool on)
{
    simba_backend *b = user;

    sb_sql_waiters_set_push(b->waiters, on);
    if (b->worker != NULL)
        sb_sql_worker_nudge(b->worker);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void free_backend(simba_backend *b)
{
    sb_sql_waiters_destroy(b->waiters);
    sb_postgres_settings_clear(&b->settings);
    sb_free(b);
}

static void forget(void *argument)
{
    (void)argument;
}

static int start_worker(simba_backend *b, const struct sb_sql_limits *limits,
                        struct simba_error *error)
{
    const struct sb_sql_worker_config config = {
        .driver = &sb_postgres_driver,
        .settings = &b->settings,
        .host = b->host,
        .name = "simba-postgres",
        .wait_ms = limits->timeout_ms,
        .connect_ms = limits->connect_ms,
        .gather_ms = GATHER_MS,
        .waiters = b->waiters,
        .client = b->settings.channel,
    };

    return sb_sql_worker_start(&config, &b->worker, error);
}

/* The listener has nothing on the loop yet, so it can be taken back at once. */
static int start(simba_backend *b, const struct sb_sql_limits *limits, struct simba_error *error)
{
    const struct sb_sql_waiters_config waiters = {
        .host = b->host,
        .poll_max_ms = b->settings.address.poll_ms,
        .client = b->settings.channel,
        .trusts_push = true,
        .first = on_first_waiter,
        .user = b,
    };
    const struct sb_postgres_listener_config listener = {
        .host = b->host,
        .settings = &b->settings,
        .hears = on_hears,
        .user = b,
    };
    int code = sb_sql_waiters_create(&waiters, &b->waiters, error);

    if (code == SIMBA_OK)
        code = sb_postgres_listener_create(&listener, &b->listener, error);
    if (code != SIMBA_OK)
        return code;
    code = start_worker(b, limits, error);
    if (code != SIMBA_OK)
        sb_postgres_listener_close(b->listener, forget, NULL);
    return code;
}

/* Only who reads the table of waiters knows it. */
static void name_channel(struct sb_postgres_settings *settings)
{
    struct sb_text text;

    sb_text_init(&text, settings->channel, sizeof settings->channel);
    sb_text_add(&text, "simba_%016" PRIx64, sb_random_seed());
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
    b->wait_task.run = run_wait;
    code = read_settings(&b->settings, config->url, host, &limits, error);
    name_channel(&b->settings);
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

static void listen_to(simba_backend *b, const char *mutex, const char *id, bool on)
{
    sb_sql_worker_listen(b->worker, mutex, id, on);
    sb_sql_waiters_listen(b->waiters, mutex, id == NULL, on);
    if (id == NULL && on)
        sb_postgres_listener_want(b->listener);
}

static void on_listener_closed(void *argument)
{
    simba_backend *b = argument;
    void (*closed)(void *argument) = b->closed;
    void *closed_argument = b->argument;

    free_backend(b);
    closed(closed_argument);
}

static void finish_close(simba_backend *b)
{
    sb_postgres_listener_close(b->listener, on_listener_closed, b);
}

/* The task has to come in before its memory goes. */
static void on_worker_stopped(void *argument)
{
    simba_backend *b = argument;

    b->worker = NULL;
    b->closing = true;
    if (!atomic_load(&b->wait_posted))
        finish_close(b);
}

static void close_client(simba_backend *b, void (*closed)(void *argument), void *argument)
{
    b->closed = closed;
    b->argument = argument;
    sb_sql_worker_stop(b->worker, on_worker_stopped, b);
}

static int check_names(simba_backend *b, const char *mutex, const char *id,
                       struct simba_error *error)
{
    return sb_sql_worker_check_names(b->worker, mutex, id, error);
}

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "postgres",
    .serves = serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_postgres_options),
    .has_queue = true,
    .has_properties = true,
    .can_forget = true,
    .can_inspect = true,
    .no_sigpipe = true,
    .check_names = check_names,
};

const struct sb_module sb_module_postgres = {SB_MODULE_LIBRARY, &ops, &dialect};
