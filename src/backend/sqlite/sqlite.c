/*
 * sqlite.c - the backend `sqlite:PATH`. Owns the life of a client: a worker with the connection,
 * and a watch for what other processes do.
 */
#include "backend/module.h"

#include "backend/sql/worker.h"
#include "backend/sqlite/connection.h"
#include "backend/sqlite/settings.h"
#include "backend/sqlite/watch.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <stdatomic.h>
#include <string.h>

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_sqlite_settings settings;
    struct sb_sqlite_liveness life;
    struct sb_sqlite_wake_socket wake_socket;
    struct sb_sql_worker *worker;
    struct sb_sqlite_watch *watch;

    struct simba_task contended_task;
    atomic_bool contended_posted; /* the task is on its way to the loop */
    bool closing;                 /* the worker is gone; only the task is waited for */
    void (*closed)(void *argument);
    void *argument;
};

static bool serves(const char *scheme)
{
    return strcmp(scheme, "sqlite") == 0;
}

/* ---- The dialect ----------------------------------------------------------------------------- */

static int read_settings(void *memory, simba_url *url, const struct simba_backend_host *host,
                         struct sb_sql_limits *ret_limits, struct simba_error *error)
{
    struct sb_sqlite_settings *settings = memory;
    int code;

    settings->host = host;
    code = sb_sqlite_settings_read(settings, url, error);
    if (code != SIMBA_OK)
        return code;
    ret_limits->connect_ms = settings->busy_timeout_ms;
    ret_limits->timeout_ms = settings->busy_timeout_ms;
    return SIMBA_OK;
}

static void clear_settings(void *memory)
{
    sb_sqlite_settings_clear(memory);
}

static const struct sb_sql_dialect dialect = {
    .driver = &sb_sqlite_driver,
    .settings_size = sizeof(struct sb_sqlite_settings),
    .read = read_settings,
    .clear = clear_settings,
};

/* ---- Contention: from the connection to the watch -------------------------------------------- */

static void finish_close(simba_backend *b);

static void run_contended(struct simba_task *task)
{
    simba_backend *b = SB_CONTAINER(struct simba_backend, contended_task, task);

    atomic_store(&b->contended_posted, false);
    if (b->closing)
        finish_close(b);
    else
        sb_sqlite_watch_contended(b->watch);
}

static void on_contended(void *user)
{
    simba_backend *b = user;

    if (!atomic_exchange(&b->contended_posted, true))
        b->host->post(b->host, &b->contended_task);
}

static void on_met(void *user, int64_t life)
{
    simba_backend *b = user;

    if (sb_sqlite_watch_owner(b->watch, life))
        on_contended(b);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void free_backend(simba_backend *b)
{
    sb_sqlite_wake_socket_close(&b->wake_socket);
    sb_sqlite_liveness_end(&b->life);
    sb_sqlite_settings_clear(&b->settings);
    sb_free(b);
}

static void forget(void *argument)
{
    (void)argument;
}

/* The watch first: as long as it has nothing on the loop it can be taken back at once. */
static int start(simba_backend *b, const struct sb_sql_limits *limits, struct simba_error *error)
{
    const struct sb_sql_worker_config config = {
        .driver = &sb_sqlite_driver,
        .settings = &b->settings,
        .host = b->host,
        .name = "simba-sqlite",
        .wait_ms = limits->timeout_ms,
        .connect_ms = limits->connect_ms,
        .client = "", /* the driver draws an address when a contender has to wait */
    };
    const struct sb_sqlite_watch_files files = {b->settings.wake_path,
                                                sb_sqlite_settings_liveness(&b->settings)};
    int code = sb_sqlite_watch_create(b->host, &files, &b->wake_socket, &b->watch, error);

    if (code != SIMBA_OK)
        return code;
    sb_sqlite_liveness_init(&b->life, b->host, &files.life);
    b->settings.life = &b->life;
    b->settings.wake_socket = &b->wake_socket;
    code = sb_sql_worker_start(&config, &b->worker, error);
    if (code != SIMBA_OK)
        sb_sqlite_watch_close(b->watch, forget, NULL);
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
    atomic_init(&b->life.fd, -1);
    sb_sqlite_wake_socket_init(&b->wake_socket, host);
    b->host = host;
    b->settings.contended = on_contended;
    b->settings.met = on_met;
    b->settings.user = b;
    b->contended_task.run = run_contended;
    code = read_settings(&b->settings, config->url, host, &limits, error);
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
    sb_sqlite_watch_listen(b->watch, mutex, id == NULL, on);
}

static int life_fd(simba_backend *b)
{
    return sb_sqlite_liveness_share(&b->life);
}

static void on_watch_closed(void *argument)
{
    simba_backend *b = argument;
    void (*closed)(void *argument) = b->closed;
    void *closed_argument = b->argument;

    free_backend(b);
    closed(closed_argument);
}

static void finish_close(simba_backend *b)
{
    sb_sqlite_watch_close(b->watch, on_watch_closed, b);
}

/* The task has to come in before its memory goes. */
static void on_worker_stopped(void *argument)
{
    simba_backend *b = argument;

    b->closing = true;
    if (!atomic_load(&b->contended_posted))
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
    .name = "sqlite",
    .serves = serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    SB_URL_OPTIONS_OF(sb_sqlite_options),
    .path_is_file = true,
    .has_queue = true,
    .has_properties = true,
    .can_forget = true,
    .can_inspect = true,
    .no_sigpipe = true,
    .check_names = check_names,
    .life_fd = life_fd,
};

const struct sb_module sb_module_sqlite = {SB_MODULE_LIBRARY, &ops, &dialect};
