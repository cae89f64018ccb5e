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
#include "base/descriptors.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

#define RESOLUTION_DELAY_MS 10000
#define DESCRIPTORS 3 /* of a handle: a pipe and the connection */

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
    bool deleted;
    char path[];
};

static void run_firing(struct simba_task *task)
{
    struct firing *firing = (struct firing *)task;

    firing->line->watched(firing->line, firing->path, firing->deleted);
    sb_free(firing);
}

/* The library's own thread. Without memory it is dropped: waiters look again by themselves. */
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
    if (firing == NULL) {
        atomic_store(&line->deaf, true);
        return;
    }
    firing->task.run = run_firing;
    firing->line = line;
    firing->deleted = type == ZOO_DELETED_EVENT;
    memcpy(firing->path, path, size);
    line->host->post(line->host, &firing->task);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* The library would write its log to stderr. It has no place for whose log it is, so nobody gets it. */
static void drop_log(const char *message)
{
    (void)message;
}

/* Otherwise the library resolves the names of the servers with every turn of its thread. */
static void resolve_seldom(zhandle_t *handle)
{
#ifdef SIMBA_HAVE_ZOOKEEPER_RESOLUTION_DELAY
    zoo_set_servers_resolution_delay(handle, RESOLUTION_DELAY_MS);
#else
    (void)handle;
#endif
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

/* The library sends the credentials again with every connection. A handle that gets no socket would try in vain and
 * tell nobody why. */
static zhandle_t *prepare_handle(struct sb_zk_line *line)
{
    const char *auth = line->options->auth;
    int code = sb_descriptors_check(DESCRIPTORS);
    struct sb_zk_pipes pipes;
    zhandle_t *handle;

    if (code != 0) {
        errno = -code;
        return NULL;
    }
    sb_zk_pipes_note(&pipes);
    handle = make_handle(line);
    if (handle == NULL)
        return NULL;
    resolve_seldom(handle);
    sb_zk_pipes_close_on_exec(&pipes);
    if (auth != NULL)
        zoo_add_auth(handle, "digest", auth, (int)strlen(auth), on_authenticated, NULL);
    return handle;
}

static bool is_unwanted(struct sb_zk_line *line)
{
    bool unwanted;

    pthread_mutex_lock(&line->lock);
    unwanted = line->unwanted;
    pthread_mutex_unlock(&line->lock);
    return unwanted;
}

/* On the helper's thread. */
static void run_open(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, open_errand, errand);
    int64_t begin_ms = simba_now_ms();
    zhandle_t *handle;

    if (is_unwanted(line))
        return;
    errno = 0;
    handle = prepare_handle(line);
    pthread_mutex_lock(&line->lock);
    line->handle = handle;
    line->begin_ms = begin_ms;
    line->making_ms = simba_now_ms() - begin_ms;
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

/* With the lock held: whether the helper's thread has done its part. */
static bool is_made(const struct sb_zk_line *line)
{
    return line->handle != NULL || line->failure != 0;
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

/* That there was no handle to be had is the host's fault, or says nothing of the servers yet. */
static int explain_failure(const struct sb_zk_line *line, struct simba_error *error)
{
    int failure = line->failure;
    bool short_of = failure == EMFILE || failure == ENFILE || failure == ENOMEM;

    return sb_error_set_backend(error, short_of ? SIMBA_ENOMEM : SIMBA_EUNAVAILABLE, failure,
                                "cannot look for ZooKeeper at %s: %s", line->options->hosts,
                                failure == ENOENT ? "the name cannot be resolved"
                                                  : strerror(failure));
}

static int explain(const struct sb_zk_line *line, struct simba_error *error)
{
    char text[32];

    if (line->failure != 0)
        return explain_failure(line, error);
    if (line->state == ZOO_AUTH_FAILED_STATE)
        return sb_error_set(error, SIMBA_EDENIED, "ZooKeeper at %s refused the credentials",
                            line->options->hosts);
    if (line->state == ZOO_CONNECTED_STATE)
        return SIMBA_OK;
    return sb_error_set(
        error, SIMBA_EUNAVAILABLE, "no ZooKeeper at %s gave us a session within %s",
        line->options->hosts,
        simba_duration_format(line->options->connect_timeout_ms, text, sizeof text));
}

/* With the lock held. */
static void wait_until(struct sb_zk_line *line, bool (*condition)(const struct sb_zk_line *line),
                       int64_t end_ms)
{
    struct timespec until = sb_clock_deadline(end_ms - simba_now_ms());
    int late = 0;

    while (!condition(line) && late == 0)
        late = pthread_cond_timedwait(&line->progress, &line->lock, &until);
}

int sb_zk_line_wait(struct sb_zk_line *line, int64_t timeout_ms, int64_t end_ms,
                    struct simba_error *error)
{
    int64_t until_ms;
    int code;

    pthread_mutex_lock(&line->lock);
    wait_until(line, is_made, end_ms);
    until_ms = simba_now_ms() + timeout_ms;
    wait_until(line, is_settled, until_ms < end_ms ? until_ms : end_ms);
    code = explain(line, error);
    pthread_mutex_unlock(&line->lock);
    return code;
}

bool sb_zk_line_has_failed(struct sb_zk_line *line)
{
    bool failed;

    pthread_mutex_lock(&line->lock);
    failed = line->failure != 0;
    pthread_mutex_unlock(&line->lock);
    return failed;
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

static void run_returned(struct simba_task *task)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, closed_task, task);

    line->returned(line);
}

/* On the helper's thread. Everything that the library had to tell has been posted before. One that was slow and is
 * connected after all must not be closed where its session is needed: that would end it. */
static void run_close(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, close_errand, errand);
    bool spare =
        line->replaced && line->handle != NULL && zoo_state(line->handle) == ZOO_CONNECTED_STATE;

    if (!spare)
        close_handle(line);
    line->closed_task.run = spare ? run_returned : run_closed;
    line->host->post(line->host, &line->closed_task);
}

static void send_close(struct sb_zk_line *line, void (*run)(struct sb_zk_errand *errand))
{
    pthread_mutex_lock(&line->lock);
    line->unwanted = true;
    pthread_mutex_unlock(&line->lock);
    line->close_errand.run = run;
    sb_zk_helper_send(line->helper, &line->close_errand);
}

void sb_zk_line_close(struct sb_zk_line *line)
{
    line->replaced = false;
    send_close(line, run_close);
}

void sb_zk_line_replace(struct sb_zk_line *line)
{
    line->replaced = true;
    send_close(line, run_close);
}

static void run_close_now(struct sb_zk_errand *errand)
{
    struct sb_zk_line *line = SB_CONTAINER(struct sb_zk_line, close_errand, errand);

    close_handle(line);
    sb_zk_line_free(line);
}

void sb_zk_line_close_now(struct sb_zk_line *line)
{
    send_close(line, run_close_now);
}
