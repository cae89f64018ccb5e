/*
 * sqlite.c - the backend `sqlite:PATH`. Owns the URL's options and the life of a client: a worker with
 * the connection, and a watch for what other processes do.
 */
#include "backend/sqlite/sqlite.h"

#include "backend/sql/worker.h"
#include "backend/sqlite/connection.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/watch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_TIMEOUT_MS 5000

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_sqlite_settings settings;
    int64_t busy_timeout_ms;
    struct sb_worker *worker;
    struct sb_watch *watch;

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

/* ---- The URL -------------------------------------------------------------------------------- */

/* The folder of `path` made absolute, with `name` behind it: the file itself may not be there yet. */
static int resolve_folder(const char *path, const char *name, char target[PATH_MAX],
                          struct simba_error *error)
{
    char folder[PATH_MAX];
    char resolved[PATH_MAX];
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%.*s.", (int)(name - path), path);
    if (text.cut || realpath(folder, resolved) == NULL)
        return sb_error_set(error, SIMBA_EUNAVAILABLE,
                            "the folder of the database %s does not exist", path);
    sb_text_init(&text, target, PATH_MAX);
    sb_text_add(&text, "%s/%s", strcmp(resolved, "/") != 0 ? resolved : "", name);
    return text.cut ? sb_error_set(error, SIMBA_EINVAL, "the path %s is too long", path) : SIMBA_OK;
}

/* One absolute name for all who mean the same file, by whatever links. */
static int resolve_path(const char *path, bool must_exist, char **ret_path,
                        struct simba_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    char resolved[PATH_MAX];
    int code = SIMBA_OK;

    if (name[0] == '\0')
        return sb_error_set(error, SIMBA_EINVAL, "the path %s names a folder, not a file", path);
    if (realpath(path, resolved) == NULL) {
        if (must_exist && (errno == ENOENT || errno == ENOTDIR))
            return sb_error_set(error, SIMBA_ENOTFOUND, "there is no database %s", path);
        code = resolve_folder(path, name, resolved, error);
    }
    if (code != SIMBA_OK)
        return code;
    *ret_path = sb_strdup(resolved);
    return *ret_path != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

/* The name of a file that lies beside the database. */
static int name_beside(const simba_backend *b, const char *suffix, char **ret_path,
                       struct simba_error *error)
{
    size_t size = strlen(b->settings.path) + strlen(suffix) + 1;
    struct sb_text text;

    *ret_path = sb_alloc(size);
    if (*ret_path == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&text, *ret_path, size);
    sb_text_add(&text, "%s%s", b->settings.path, suffix);
    return SIMBA_OK;
}

static int read_paths(simba_backend *b, simba_url *url, struct simba_error *error)
{
    struct sb_sqlite_settings *settings = &b->settings;
    const char *path = simba_url_path(url);
    int code;

    if (path[0] == '\0')
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL sqlite: names no file; write sqlite:PATH");
    code = resolve_path(path, settings->must_exist, &settings->path, error);
    if (code == SIMBA_OK)
        code = name_beside(b, "-wal", &settings->log_path, error);
    if (code == SIMBA_OK)
        code = name_beside(b, "-shm", &settings->index_path, error);
    if (code == SIMBA_OK)
        code = name_beside(b, "-wake", &settings->wake_path, error);
    return code;
}

static int read_synchronous(simba_backend *b, simba_url *url, struct simba_error *error)
{
    const char *text = simba_url_param(url, "synchronous");

    b->settings.full_sync = text != NULL && strcmp(text, "full") == 0;
    if (text == NULL || b->settings.full_sync || strcmp(text, "normal") == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "synchronous=%s is neither \"normal\" nor \"full\"",
                        text);
}

static int read_create(simba_backend *b, simba_url *url, struct simba_error *error)
{
    const char *text = simba_url_param(url, "create");

    b->settings.must_exist = text != NULL && strcmp(text, "no") == 0;
    if (text == NULL || b->settings.must_exist || strcmp(text, "yes") == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "create=%s is neither \"yes\" nor \"no\"", text);
}

/* All of them, before anything is created. */
static int read_options(simba_backend *b, simba_url *url, struct simba_error *error)
{
    int code = simba_url_duration(url, "busy-timeout", &b->busy_timeout_ms, error);

    if (code == SIMBA_OK && b->busy_timeout_ms <= 0)
        code = sb_error_set(error, SIMBA_EINVAL, "busy-timeout must be more than 0");
    if (code == SIMBA_OK)
        code = read_synchronous(b, url, error);
    if (code == SIMBA_OK)
        code = read_create(b, url, error);
    return code == SIMBA_OK ? simba_url_check_params(url, error) : code;
}

static int read_boot(simba_backend *b, struct simba_error *error)
{
    int code = sb_sqlite_read_boot_id(b->settings.boot_id);

    if (code == 0)
        return SIMBA_OK;
    return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, code,
                                "the host's boot id cannot be read, and without it leases of an "
                                "earlier boot cannot be told: %s",
                                strerror(code));
}

/* ---- Contention: from the worker to the watch ----------------------------------------------- */

static void finish_close(simba_backend *b);

static void run_contended(struct simba_task *task)
{
    simba_backend *b =
        (simba_backend *)((char *)task - offsetof(struct simba_backend, contended_task));

    atomic_store(&b->contended_posted, false);
    if (b->closing)
        finish_close(b);
    else
        sb_watch_contended(b->watch);
}

static void on_contended(void *user)
{
    simba_backend *b = user;

    if (!atomic_exchange(&b->contended_posted, true))
        b->host->post(b->host, &b->contended_task);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void free_backend(simba_backend *b)
{
    sb_free(b->settings.wake_path);
    sb_free(b->settings.index_path);
    sb_free(b->settings.log_path);
    sb_free(b->settings.path);
    sb_free(b);
}

static void forget(void *argument)
{
    (void)argument;
}

/* The watch first: as long as it has nothing on the loop it can be taken back at once. */
static int start(simba_backend *b, struct simba_error *error)
{
    const struct sb_worker_config config = {
        .driver = &sb_sqlite_driver,
        .settings = &b->settings,
        .host = b->host,
        .name = "simba-sqlite",
        .wait_ms = b->busy_timeout_ms,
        .connect_ms = b->busy_timeout_ms,
    };
    int code = sb_watch_create(b->host, b->settings.wake_path, b->settings.path, &b->watch, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_worker_start(&config, &b->worker, error);
    if (code != SIMBA_OK)
        sb_watch_close(b->watch, forget, NULL);
    return code;
}

static int open_client(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *b = sb_alloc_zero(sizeof *b);
    int code;

    if (b == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    b->host = host;
    b->busy_timeout_ms = BUSY_TIMEOUT_MS;
    b->settings.host = host;
    b->settings.contended = on_contended;
    b->settings.user = b;
    b->contended_task.run = run_contended;
    code = read_options(b, config->url, error);
    if (code == SIMBA_OK)
        code = read_paths(b, config->url, error);
    if (code == SIMBA_OK)
        code = read_boot(b, error);
    if (code == SIMBA_OK)
        code = start(b, error);
    if (code != SIMBA_OK) {
        free_backend(b);
        return code;
    }
    *ret_backend = b;
    return SIMBA_OK;
}

static void submit(simba_backend *b, struct simba_request *batch)
{
    sb_worker_submit(b->worker, batch);
}

static void listen_to(simba_backend *b, const char *mutex, const char *id, bool on)
{
    sb_watch_listen(b->watch, mutex, id == NULL, on);
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
    sb_watch_close(b->watch, on_watch_closed, b);
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
    sb_worker_stop(b->worker, on_worker_stopped, b);
}

const struct simba_backend_ops sb_sqlite_ops = {
    .size = sizeof(struct simba_backend_ops),
    .name = "sqlite",
    .serves = serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
};
