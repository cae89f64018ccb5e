/*
 * handle.c - the worker, a thread with a queue; the life of a handle; and the way of its events to
 * the loop.
 *
 * States are kept and told as one: between two turns of the loop only the last one matters, and how
 * often the connection broke. So the news that a session is over needs no memory and cannot be
 * lost.
 */
#include "backend/zookeeper/handle/handle.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"
#include "base/error.h"
#include "base/time.h"

#include <errno.h>
#include <string.h>

/* ---- The worker ------------------------------------------------------------------------------ */

/* NULL when the thread should end. */
static struct sb_zk_work *next_work(struct sb_zk_worker *h)
{
    struct sb_zk_work *work;

    pthread_mutex_lock(&h->lock);
    while (h->queue == NULL && !h->stopping)
        pthread_cond_wait(&h->changed, &h->lock);
    work = h->queue;
    if (work != NULL) {
        h->queue = work->next;
        if (h->queue == NULL)
            h->end = &h->queue;
    }
    pthread_mutex_unlock(&h->lock);
    return work;
}

static void *run_thread(void *argument)
{
    struct sb_zk_worker *h = argument;
    struct sb_zk_work *work;

    while ((work = next_work(h)) != NULL)
        work->run(work);
    return NULL;
}

int sb_zk_worker_start(struct sb_zk_worker *h, struct simba_error *error)
{
    int code;

    h->queue = NULL;
    h->end = &h->queue;
    h->stopping = false;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    code = sb_thread_start(&h->thread, "simba-zookeeper", run_thread, h);
    if (code == 0)
        return SIMBA_OK;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                                strerror(code));
}

static void send_work(struct sb_zk_worker *h, struct sb_zk_work *work)
{
    pthread_mutex_lock(&h->lock);
    SB_CHECK(!h->stopping, "a worker that stops gets no work");
    work->next = NULL;
    *h->end = work;
    h->end = &work->next;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void sb_zk_worker_stop(struct sb_zk_worker *h)
{
    SB_CHECK(!h->stopping, "a worker is stopped once");
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

#define RESOLUTION_DELAY_MS 10000
#define DESCRIPTORS 3 /* of a handle: a pipe and the connection */

/* ---- States ---------------------------------------------------------------------------------- */

static void run_changed(struct simba_task *task)
{
    struct sb_zk_handle *handle = SB_CONTAINER(struct sb_zk_handle, changed_task, task);

    pthread_mutex_lock(&handle->lock);
    handle->posted = false;
    pthread_mutex_unlock(&handle->lock);
    handle->changed(handle);
}

/* With the lock held. */
static void tell(struct sb_zk_handle *handle)
{
    pthread_cond_broadcast(&handle->progress);
    if (handle->silent || handle->posted)
        return;
    handle->posted = true;
    handle->host->post(handle->host, &handle->changed_task);
}

/* The library's own thread. Whatever comes is kept; the loop makes sense of it. */
static void on_state(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    struct sb_zk_handle *handle = context;

    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    if (state == ZOO_CONNECTED_STATE)
        sb_zk_close_on_exec(zk);
    pthread_mutex_lock(&handle->lock);
    if (handle->state == ZOO_CONNECTED_STATE && state != ZOO_CONNECTED_STATE)
        handle->drops++;
    handle->state = state;
    tell(handle);
    pthread_mutex_unlock(&handle->lock);
}

/* ---- Watches --------------------------------------------------------------------------------- */

struct firing {
    struct simba_task task; /* first */
    struct sb_zk_handle *handle;
    bool deleted;
    char path[];
};

static void run_firing(struct simba_task *task)
{
    struct firing *firing = (struct firing *)task;

    firing->handle->watched(firing->handle, firing->path, firing->deleted);
    sb_free(firing);
}

/* The library's own thread. Without memory it is dropped: waiters look again by themselves. */
void sb_zk_handle_on_node(zhandle_t *zk, int type, int state, const char *path, void *context)
{
    struct sb_zk_handle *handle = context;
    size_t size = path != NULL ? strlen(path) + 1 : 0;
    struct firing *firing;

    (void)zk;
    (void)state;
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT || path == NULL)
        return;
    firing = sb_alloc(sizeof *firing + size);
    if (firing == NULL) {
        atomic_store(&handle->missed_event, true);
        return;
    }
    firing->task.run = run_firing;
    firing->handle = handle;
    firing->deleted = type == ZOO_DELETED_EVENT;
    memcpy(firing->path, path, size);
    handle->host->post(handle->host, &firing->task);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The library would write its log to stderr. A log line does not say which client it is about, so
 * the log is discarded. */
static void drop_log(const char *message)
{
    (void)message;
}

static zhandle_t *make_handle(struct sb_zk_handle *handle)
{
    const struct sb_zk_options *o = handle->options;
    const clientid_t *id = handle->resume.client_id != 0 ? &handle->resume : NULL;
    int timeout_ms = (int)o->session_timeout_ms;

#ifdef SIMBA_HAVE_ZOOKEEPER_TLS
    if (o->tls != NULL)
        return zookeeper_init_ssl(o->hosts, o->tls, on_state, timeout_ms, id, handle,
                                  ZOO_NO_LOG_CLIENTENV);
#endif
    return zookeeper_init2(o->hosts, on_state, timeout_ms, id, handle, ZOO_NO_LOG_CLIENTENV,
                           drop_log);
}

static void on_authenticated(int code, const void *data)
{
    /* A refusal shows as a state of the handle, and as an error of what is not allowed. */
    (void)code;
    (void)data;
}

/* The library sends the credentials again with every connection. A handle that gets no socket would
 * try in vain and tell nobody why. */
static zhandle_t *prepare_handle(struct sb_zk_handle *handle)
{
    const char *auth = handle->options->auth;
    int code = sb_descriptors_check(DESCRIPTORS);
    struct sb_zk_pipes pipes;
    zhandle_t *zk;

    if (code != 0) {
        errno = -code;
        return NULL;
    }
    sb_zk_pipes_note(&pipes);
    zk = make_handle(handle);
    if (zk == NULL)
        return NULL;
#ifdef SIMBA_HAVE_ZOOKEEPER_RESOLUTION_DELAY
    /* Otherwise the library resolves the names of the servers with every turn of its thread. */
    zoo_set_servers_resolution_delay(zk, RESOLUTION_DELAY_MS);
#endif
    sb_zk_pipes_close_on_exec(&pipes);
    if (auth != NULL)
        zoo_add_auth(zk, "digest", auth, (int)strlen(auth), on_authenticated, NULL);
    return zk;
}

/* On the worker's thread. */
static void run_open(struct sb_zk_work *work)
{
    struct sb_zk_handle *handle = SB_CONTAINER(struct sb_zk_handle, open_work, work);
    int64_t begin_ms = simba_now_ms();
    bool unwanted;
    zhandle_t *zk;

    pthread_mutex_lock(&handle->lock);
    unwanted = handle->unwanted;
    pthread_mutex_unlock(&handle->lock);
    if (unwanted)
        return;
    errno = 0;
    zk = prepare_handle(handle);
    pthread_mutex_lock(&handle->lock);
    handle->zk = zk;
    handle->begin_ms = begin_ms;
    handle->making_ms = simba_now_ms() - begin_ms;
    handle->failure = zk == NULL ? (errno != 0 ? errno : EINVAL) : 0;
    tell(handle);
    pthread_mutex_unlock(&handle->lock);
}

struct sb_zk_handle *sb_zk_handle_create(void)
{
    struct sb_zk_handle *handle = sb_alloc_zero(sizeof *handle);

    if (handle == NULL)
        return NULL;
    pthread_mutex_init(&handle->lock, NULL);
    pthread_cond_init(&handle->progress, NULL);
    handle->changed_task.run = run_changed;
    handle->open_work.run = run_open;
    return handle;
}

void sb_zk_handle_open(struct sb_zk_handle *handle)
{
    send_work(handle->worker, &handle->open_work);
}

/* With the lock held: whether there is nothing left to wait for. */
static bool is_settled(const struct sb_zk_handle *handle)
{
    return handle->failure != 0 ||
           (handle->zk != NULL &&
            (handle->state == ZOO_CONNECTED_STATE || handle->state == ZOO_AUTH_FAILED_STATE ||
             handle->state == ZOO_EXPIRED_SESSION_STATE));
}

/* If no handle could be made, that is the fault of this host, or says nothing about the servers
 * yet. */
static int explain(const struct sb_zk_handle *handle, struct simba_error *error)
{
    int failure = handle->failure;
    bool short_of = failure == EMFILE || failure == ENFILE || failure == ENOMEM;
    char text[32];

    if (failure != 0)
        return sb_error_set_backend(error, short_of ? SIMBA_ENOMEM : SIMBA_EUNAVAILABLE, failure,
                                    "cannot look for ZooKeeper at %s: %s", handle->options->hosts,
                                    failure == ENOENT ? "the name cannot be resolved"
                                                      : strerror(failure));
    if (handle->state == ZOO_AUTH_FAILED_STATE)
        return sb_error_set(error, SIMBA_EDENIED, "ZooKeeper at %s refused the credentials",
                            handle->options->hosts);
    if (handle->state == ZOO_CONNECTED_STATE)
        return SIMBA_OK;
    return sb_error_set(
        error, SIMBA_EUNAVAILABLE, "no ZooKeeper server at %s opened a session within %s",
        handle->options->hosts,
        simba_duration_format(handle->options->connect_timeout_ms, text, sizeof text));
}

int sb_zk_handle_wait(struct sb_zk_handle *handle, int64_t timeout_ms, int64_t end_ms,
                      struct simba_error *error)
{
    int64_t until_ms;
    int code;

    pthread_mutex_lock(&handle->lock);
    while (handle->zk == NULL && handle->failure == 0 &&
           sb_cond_wait(&handle->progress, &handle->lock, end_ms))
        continue;
    until_ms = sb_earlier(simba_now_ms() + timeout_ms, end_ms);
    while (!is_settled(handle) && sb_cond_wait(&handle->progress, &handle->lock, until_ms))
        continue;
    code = explain(handle, error);
    pthread_mutex_unlock(&handle->lock);
    return code;
}

bool sb_zk_handle_has_failed(struct sb_zk_handle *handle)
{
    bool failed;

    pthread_mutex_lock(&handle->lock);
    failed = handle->failure != 0;
    pthread_mutex_unlock(&handle->lock);
    return failed;
}

void sb_zk_handle_speak(struct sb_zk_handle *handle)
{
    pthread_mutex_lock(&handle->lock);
    handle->silent = false;
    tell(handle);
    pthread_mutex_unlock(&handle->lock);
}

/* ---- Closing --------------------------------------------------------------------------------- */

void sb_zk_handle_free(struct sb_zk_handle *handle)
{
    SB_CHECK(handle->calls == NULL, "every call ends before its handle");
    pthread_cond_destroy(&handle->progress);
    pthread_mutex_destroy(&handle->lock);
    sb_free(handle);
}

static void close_handle(struct sb_zk_handle *handle)
{
    if (handle->zk != NULL)
        zookeeper_close(handle->zk);
}

static void run_closed(struct simba_task *task)
{
    struct sb_zk_handle *handle = SB_CONTAINER(struct sb_zk_handle, closed_task, task);

    if (handle->spared)
        handle->returned(handle);
    else
        handle->closed(handle);
}

/* On the worker's thread. Everything that the library had to tell has been posted before. One that
 * was slow and is connected after all must not be closed where its session is needed: that would
 * end it. */
static void run_close(struct sb_zk_work *work)
{
    struct sb_zk_handle *handle = SB_CONTAINER(struct sb_zk_handle, close_work, work);
    handle->spared =
        handle->replaced && handle->zk != NULL && zoo_state(handle->zk) == ZOO_CONNECTED_STATE;
    if (!handle->spared)
        close_handle(handle);
    handle->closed_task.run = run_closed;
    handle->host->post(handle->host, &handle->closed_task);
}

static void send_close(struct sb_zk_handle *handle, void (*run)(struct sb_zk_work *work))
{
    pthread_mutex_lock(&handle->lock);
    handle->unwanted = true;
    pthread_mutex_unlock(&handle->lock);
    handle->close_work.run = run;
    send_work(handle->worker, &handle->close_work);
}

void sb_zk_handle_close(struct sb_zk_handle *handle)
{
    handle->replaced = false;
    send_close(handle, run_close);
}

void sb_zk_handle_replace(struct sb_zk_handle *handle)
{
    handle->replaced = true;
    send_close(handle, run_close);
}

static void run_close_now(struct sb_zk_work *work)
{
    struct sb_zk_handle *handle = SB_CONTAINER(struct sb_zk_handle, close_work, work);

    close_handle(handle);
    sb_zk_handle_free(handle);
}

void sb_zk_handle_close_now(struct sb_zk_handle *handle)
{
    send_close(handle, run_close_now);
}
