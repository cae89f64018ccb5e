/*
 * line.c - the life of a handle, and the way of its events to the loop.
 *
 * States are kept and told as one: between two turns of the loop only the last one matters, and how often
 * the connection broke. So the news that a session is over needs no memory and cannot be lost.
 */
#include "backend/zookeeper/line.h"

#include "backend/zookeeper/cloexec.h"
#include "backend/zookeeper/failure.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

/* ---- States --------------------------------------------------------------------------------- */

static void run_changed(struct simba_task *task)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, changed_task, task);

    pthread_mutex_lock(&line->lock);
    line->posted = false;
    pthread_mutex_unlock(&line->lock);
    line->changed(line);
}

/* With the lock held. */
static void tell(struct sb_zk_line *line)
{
    pthread_cond_broadcast(&line->progress);
    if (line->silent || line->posted)
        return;
    line->posted = true;
    line->host->post(line->host, &line->changed_task);
}

/* The library's own thread. Whatever comes is kept; the loop makes sense of it. */
static void on_state(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct sb_zk_line *line = context;

    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    if (state == ZOO_CONNECTED_STATE)
        sb_zk_close_on_exec(handle);
    pthread_mutex_lock(&line->lock);
    if (line->state == ZOO_CONNECTED_STATE && state != ZOO_CONNECTED_STATE)
        line->drops++;
    line->state = state;
    tell(line);
    pthread_mutex_unlock(&line->lock);
}

/* ---- Watches -------------------------------------------------------------------------------- */

struct firing {
    struct simba_task task; /* first */
    struct sb_zk_line *line;
    char path[];
};

static void run_firing(struct simba_task *task)
{
    struct firing *firing = (struct firing *)task;

    firing->line->watched(firing->line, firing->path);
    sb_free(firing);
}

/* The library's own thread. Without memory it is dropped: whoever waits looks again by itself. */
void sb_zk_line_on_node(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct sb_zk_line *line = context;
    size_t size = path != NULL ? strlen(path) + 1 : 0;
    struct firing *firing;

    (void)handle;
    (void)state;
    if (type == ZOO_SESSION_EVENT || type == ZOO_NOTWATCHING_EVENT || path == NULL)
        return;
    firing = sb_alloc(sizeof *firing + size);
    if (firing == NULL)
        return;
    firing->task.run = run_firing;
    firing->line = line;
    memcpy(firing->path, path, size);
    line->host->post(line->host, &firing->task);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* The library would write its log to stderr. It has no place for whose log it is, so nobody gets it. */
static void drop_log(const char *message)
{
    (void)message;
}

static zhandle_t *make_handle(struct sb_zk_line *line)
{
    const struct sb_zk_options *o = line->options;
    const clientid_t *id = line->resume.client_id != 0 ? &line->resume : NULL;
    int timeout_ms = (int)o->session_timeout_ms;

#ifdef SIMBA_HAVE_ZOOKEEPER_TLS
    if (o->tls != NULL)
        return zookeeper_init_ssl(o->hosts, o->tls, on_state, timeout_ms, id, line,
                                  ZOO_NO_LOG_CLIENTENV);
#endif
    return zookeeper_init2(o->hosts, on_state, timeout_ms, id, line, ZOO_NO_LOG_CLIENTENV,
                           drop_log);
}

static void on_authenticated(int code, const void *data)
{
    (void)
        code; /* a refusal shows as a state of the handle, and as an error of what is not allowed */
    (void)data;
}

/* On the helper's thread. The library sends the credentials again with every connection. */
static void run_open(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, open_errand, errand);
    const char *auth = line->options->auth;
    struct sb_zk_pipes pipes;
    zhandle_t *handle;

    sb_zk_pipes_note(&pipes);
    handle = make_handle(line);
    if (handle != NULL) {
        sb_zk_pipes_close_on_exec(&pipes);
        if (auth != NULL)
            zoo_add_auth(handle, "digest", auth, (int)strlen(auth), on_authenticated, NULL);
    }
    pthread_mutex_lock(&line->lock);
    line->handle = handle;
    line->failure = handle == NULL ? (errno != 0 ? errno : EINVAL) : 0;
    tell(line);
    pthread_mutex_unlock(&line->lock);
}

struct sb_zk_line *sb_zk_line_create(void)
{
    struct sb_zk_line *line = sb_alloc_zero(sizeof *line);
    pthread_condattr_t monotonic;

    if (line == NULL)
        return NULL;
    pthread_mutex_init(&line->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&line->progress, &monotonic);
    pthread_condattr_destroy(&monotonic);
    line->changed_task.run = run_changed;
    line->open_errand.run = run_open;
    return line;
}

void sb_zk_line_open(struct sb_zk_line *line)
{
    sb_zk_helper_send(line->helper, &line->open_errand);
}

/* With the lock held: whether there is anything left to wait for. */
static bool is_settled(const struct sb_zk_line *line)
{
    if (line->failure != 0)
        return true;
    return line->handle != NULL &&
           (line->state == ZOO_CONNECTED_STATE || line->state == ZOO_AUTH_FAILED_STATE ||
            line->state == ZOO_EXPIRED_SESSION_STATE);
}

static int explain(const struct sb_zk_line *line, int64_t timeout_ms, struct simba_error *error)
{
    char text[32];

    if (line->failure != 0)
        return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, line->failure,
                                    "cannot look for ZooKeeper at %s: %s", line->options->hosts,
                                    strerror(line->failure));
    if (line->state == ZOO_AUTH_FAILED_STATE)
        return sb_error_set(error, SIMBA_EDENIED, "ZooKeeper at %s refused the credentials",
                            line->options->hosts);
    if (line->state == ZOO_CONNECTED_STATE)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EUNAVAILABLE, "no ZooKeeper at %s gave us a session within %s",
                        line->options->hosts, simba_duration_format(timeout_ms, text, sizeof text));
}

int sb_zk_line_wait(struct sb_zk_line *line, int64_t timeout_ms, struct simba_error *error)
{
    struct timespec until = sb_clock_deadline(timeout_ms);
    int late = 0;
    int code;

    pthread_mutex_lock(&line->lock);
    while (!is_settled(line) && late == 0)
        late = pthread_cond_timedwait(&line->progress, &line->lock, &until);
    code = explain(line, timeout_ms, error);
    pthread_mutex_unlock(&line->lock);
    return code;
}

void sb_zk_line_speak(struct sb_zk_line *line)
{
    pthread_mutex_lock(&line->lock);
    line->silent = false;
    tell(line);
    pthread_mutex_unlock(&line->lock);
}

/* ---- Closing -------------------------------------------------------------------------------- */

void sb_zk_line_free(struct sb_zk_line *line)
{
    pthread_cond_destroy(&line->progress);
    pthread_mutex_destroy(&line->lock);
    sb_free(line);
}

static void close_handle(struct sb_zk_line *line)
{
    if (line->handle != NULL)
        zookeeper_close(line->handle);
}

static void run_closed(struct simba_task *task)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, closed_task, task);

    line->closed(line);
}

/* On the helper's thread. Everything that the library had to tell has been posted before. */
static void run_close(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, close_errand, errand);

    close_handle(line);
    line->host->post(line->host, &line->closed_task);
}

void sb_zk_line_close(struct sb_zk_line *line)
{
    line->closed_task.run = run_closed;
    line->close_errand.run = run_close;
    sb_zk_helper_send(line->helper, &line->close_errand);
}

static void run_close_now(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, close_errand, errand);

    close_handle(line);
    sb_zk_line_free(line);
}

void sb_zk_line_close_now(struct sb_zk_line *line)
{
    line->close_errand.run = run_close_now;
    sb_zk_helper_send(line->helper, &line->close_errand);
}
