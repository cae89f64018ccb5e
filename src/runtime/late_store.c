/*
 * late_store.c - tries to open a store, again and again, and stands between the engine and the
 * store from then on. Owns when to try; must not know what a backend does.
 *
 * Three threads meet here: the engine's loop, the store's loop, and the one that opens. `state`
 * says which of them may free it all: while it is TRYING a close leaves that to the thread that
 * tries.
 */
#include "runtime/late_store.h"

#include "base/alloc.h"
#include "base/check.h"
#include "runtime/lock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/url.h"
#include "base/url_options.h"
#include "runtime/requests.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#define DELAY_MIN_MS 50
#define DELAY_MAX_MS 2000

struct sb_late_store {
    struct simba_backend_host host; /* first: the host that the store sees */
    struct simba_backend_ops ops;   /* what the engine sees */
    struct sb_late_config config;
    char *url_text;
    char *folder;
    uint64_t random;
    pthread_t thread;
    struct sb_loop *loop; /* the store's; of the thread that tries until it is OPENED */
    simba_backend *store; /* likewise */
    struct simba_task opened_task;
    _Atomic bool is_open; /* the engine knows of it, and calls pass in both directions */

    struct simba_task close_task; /* on the store's loop, and then on the engine's */
    void (*closed)(void *argument);
    void *argument;

    pthread_mutex_t lock; /* guards what follows; see lock.h */
    pthread_cond_t changed;
    enum { WAITING, TRYING, OPENED } state;
    bool closing;
    bool is_store_closed;
    struct simba_error error; /* of the last attempt */
};

static struct sb_late_store *late_of(const struct simba_backend_host *host)
{
    return (struct sb_late_store *)host;
}

bool sb_late_may_heal(int code)
{
    switch (simba_error_group(code)) {
    case SIMBA_GROUP_UNAVAILABLE:
    case SIMBA_GROUP_DENIED:
    case SIMBA_GROUP_UNKNOWN:
    case SIMBA_GROUP_CONTENDED:
        return true;
    default:
        return code == SIMBA_ECONFIG; /* such as a database that is not there yet */
    }
}

bool sb_late_is_open(const struct sb_late_store *late)
{
    return atomic_load(&late->is_open);
}

static void free_late(struct sb_late_store *late)
{
    SB_CHECK(!atomic_load(&late->is_open) || late->closing, "a store that is open is closed first");
    if (late->url_text != NULL)
        explicit_bzero(late->url_text, strlen(late->url_text)); /* it may have a password */
    sb_free(late->url_text);
    sb_free(late->folder);
    pthread_cond_destroy(&late->changed);
    pthread_mutex_destroy(&late->lock);
    sb_free(late);
}

/* ---- What the store calls -------------------------------------------------------------------- */

/* Nothing is held and nobody listens before the engine knows of it. The store's words on an attempt
 * that fails are in its error. */
static void pass_reply(const struct simba_backend_host *host, struct simba_request *request,
                       const struct simba_reply *reply)
{
    const struct simba_backend_host *engine = late_of(host)->config.host;

    engine->reply(engine, request, reply);
}

static void pass_notice(const struct simba_backend_host *host, enum simba_notice notice,
                        const char *mutex, const char *id)
{
    const struct sb_late_store *late = late_of(host);

    if (sb_late_is_open(late))
        late->config.host->notice(late->config.host, notice, mutex, id);
}

static void pass_session_lost(const struct simba_backend_host *host, const char *mutex)
{
    const struct sb_late_store *late = late_of(host);

    if (sb_late_is_open(late))
        late->config.host->session_lost(late->config.host, mutex);
}

static void post_to_store(const struct simba_backend_host *host, struct simba_task *task)
{
    sb_loop_post(late_of(host)->loop, task);
}

static void pass_log(const struct simba_backend_host *host, enum simba_log_level level,
                     const char *format, ...)
{
    const struct sb_late_store *late = late_of(host);
    va_list arguments;

    if (!sb_late_is_open(late))
        return;
    va_start(arguments, format);
    sb_log_va(&late->config.log, level, format, arguments);
    va_end(arguments);
}

/* ---- Attempts -------------------------------------------------------------------------------- */

/* Passwords that the URL names are read anew, wherever the process is by now. */
static int read_url(const struct sb_late_store *late, simba_url **ret_url,
                    struct simba_error *error)
{
    simba_url *url;
    int code = sb_url_parse(late->url_text, &url, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_url_make_absolute(url, late->config.ops, late->folder, error);
    if (code == SIMBA_OK)
        code = sb_url_resolve(url, error);
    if (code == SIMBA_OK)
        code = late->config.ask_own(url, error);
    if (code == SIMBA_OK)
        *ret_url = url;
    else
        sb_url_free(url);
    return code;
}

/* The store sends its requests by itself. */
static void ignore_turn(void *argument)
{
    (void)argument;
}

static int try_to_open(struct sb_late_store *late, struct simba_error *error)
{
    struct simba_backend_config config = {
        .ttl_ms = late->config.ttl_ms,
        .transition_ms = late->config.transition_ms,
    };
    int code = read_url(late, &config.url, error);

    SB_CHECK(late->store == NULL, "a store is opened once");
    if (code != SIMBA_OK)
        return code;
    code = sb_loop_create(ignore_turn, NULL, &late->loop, error);
    if (code == SIMBA_OK) {
        code = sb_loop_open_backend(late->loop, late->config.ops, &config, &late->host,
                                    &late->store, error);
        if (code != SIMBA_OK)
            sb_loop_destroy(late->loop);
    }
    sb_url_free(config.url);
    return code;
}

static void on_abandoned_closed(void *argument)
{
    struct sb_late_store *late = argument;

    sb_lock_take(&late->lock);
    SB_CHECK(late->closing && !late->is_store_closed, "a store that is abandoned is closed once");
    late->is_store_closed = true;
    pthread_cond_signal(&late->changed);
    sb_lock_release(&late->lock);
}

static void close_abandoned(void *argument)
{
    struct sb_late_store *late = argument;

    SB_CHECK(sb_loop_is_current(late->loop), "a store is closed on its own loop");
    late->config.ops->close(late->store, on_abandoned_closed, late);
}

/* The client was closed while this thread tried, so it is the last one that knows of all this. */
static void clean_up_abandoned(struct sb_late_store *late, bool is_opened)
{
    SB_CHECK(!sb_late_is_open(late), "a store that is open is closed by its engine");
    if (is_opened) {
        sb_loop_call(late->loop, close_abandoned, late);
        sb_lock_take(&late->lock);
        while (!late->is_store_closed)
            pthread_cond_wait(&late->changed, &late->lock);
        sb_lock_release(&late->lock);
        sb_loop_destroy(late->loop);
    }
    free_late(late);
}

/* With the lock held. Nothing was asked of the store, so the outcome of a request is never
 * unknown. */
static void keep_error(struct sb_late_store *late, const struct simba_error *error)
{
    SB_CHECK(late->state != OPENED, "a store that is open has no error");
    late->error = *error;
    if (late->error.code == SIMBA_EUNKNOWN)
        late->error.code = SIMBA_EUNAVAILABLE;
}

/* True: it is over. A failure is told again only when it is of another kind. */
static bool attempt(struct sb_late_store *late)
{
    struct simba_error error = {0};
    int code = try_to_open(late, &error);
    int last_code;

    sb_lock_take(&late->lock);
    SB_CHECK(late->state == TRYING, "a store is opened by the thread that tries");
    if (late->closing) {
        sb_lock_release(&late->lock);
        clean_up_abandoned(late, code == SIMBA_OK);
        return true;
    }
    if (code == SIMBA_OK) {
        late->state = OPENED;
        sb_loop_post(late->config.loop, &late->opened_task);
        sb_lock_release(&late->lock);
        return true;
    }
    last_code = late->error.code;
    keep_error(late, &error);
    late->state = WAITING;
    sb_lock_release(&late->lock);
    sb_log(&late->config.log, last_code == code ? SIMBA_LOG_DEBUG : SIMBA_LOG_WARN,
           "the store cannot be used yet: %s", error.text);
    return false;
}

/* True: the next attempt is to begin, and does so as far as the others can see. False: it is
 * over. */
static bool wait_for_next(struct sb_late_store *late, int64_t ms)
{
    int64_t until_ms = simba_now_ms() + ms;
    bool goes_on;

    sb_lock_take(&late->lock);
    while (!late->closing && sb_cond_wait(&late->changed, &late->lock, until_ms))
        continue;
    SB_CHECK(late->state == WAITING, "one attempt is made at a time");
    goes_on = !late->closing;
    if (goes_on)
        late->state = TRYING;
    sb_lock_release(&late->lock);
    return goes_on;
}

static void *run_thread(void *argument)
{
    struct sb_late_store *late = argument;
    unsigned failures = 1; /* the attempt of the one that opened the client */

    while (wait_for_next(
               late, sb_random_backoff(&late->random, DELAY_MIN_MS, DELAY_MAX_MS, failures++)) &&
           !attempt(late))
        continue;
    return NULL;
}

/* ---- What the engine calls, on its loop ------------------------------------------------------ */

/* As long as the store is not open. Nothing is there yet that could be given back, so a release
 * succeeds. */
static void refuse(struct sb_late_store *late, struct simba_request *batch)
{
    const struct simba_backend_host *host = late->config.host;
    const struct simba_reply released = SIMBA_REPLY_INIT;
    struct simba_reply refused = SIMBA_REPLY_INIT;
    struct simba_error error;

    SB_CHECK(sb_loop_is_current(late->config.loop), "requests are refused on the engine's loop");
    sb_lock_take(&late->lock);
    error = late->error;
    sb_lock_release(&late->lock);
    refused.code = error.code;
    refused.error = &error;
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request is gone when it is answered */

        host->reply(host, batch, batch->op == SIMBA_OP_RELEASE ? &released : &refused);
        batch = next;
    }
}

static void run_submit(struct simba_task *task)
{
    struct sb_request *request = SB_CONTAINER(struct sb_request, task, task);
    struct sb_late_store *late = request->wire.backend_data;

    SB_CHECK(sb_loop_is_current(late->loop), "requests reach the store on the store's loop");
    request->wire.backend_data = NULL;
    late->config.ops->submit(late->store, &request->wire);
}

/* A batch travels in the task of its first request. The answer uses that only after it has run. */
static void submit(simba_backend *backend, struct simba_request *batch)
{
    struct sb_late_store *late = (struct sb_late_store *)backend;
    struct sb_request *first = (struct sb_request *)batch;

    if (!sb_late_is_open(late)) {
        refuse(late, batch);
        return;
    }
    SB_CHECK(sb_loop_is_current(late->config.loop) && late->closed == NULL,
             "requests come on the engine's loop, and none after the close");
    batch->backend_data = late;
    first->task.run = run_submit;
    sb_loop_post(late->loop, &first->task);
}

/* A listener on its way to the store. */
struct listening {
    struct simba_task task; /* first */
    struct sb_late_store *late;
    bool on;
    bool has_id;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
};

static void tell_listening(void *argument)
{
    struct listening *l = argument;

    SB_CHECK(sb_loop_is_current(l->late->loop), "listeners reach the store on its own loop");
    l->late->config.ops->listen(l->late->store, l->mutex, l->has_id ? l->id : NULL, l->on);
}

static void run_listening(struct simba_task *task)
{
    tell_listening(task);
    sb_free(task);
}

/* In order with the requests. Without memory the engine's loop waits until the store has been told,
 * for stores count their listeners. Before the store is open `opened` has them told. */
static void listen_to(simba_backend *backend, const char *mutex, const char *id, bool on)
{
    struct sb_late_store *late = (struct sb_late_store *)backend;
    struct listening here = {
        .task.run = run_listening, .late = late, .on = on, .has_id = id != NULL};
    struct listening *copy;

    SB_CHECK(sb_loop_is_current(late->config.loop), "listeners change on the engine's loop");
    if (!sb_late_is_open(late))
        return;
    sb_text_copy(here.mutex, sizeof here.mutex, mutex);
    sb_text_copy(here.id, sizeof here.id, id != NULL ? id : "");
    copy = sb_alloc(sizeof *copy);
    if (copy == NULL) {
        sb_loop_call(late->loop, tell_listening, &here);
        return;
    }
    *copy = here;
    sb_loop_post(late->loop, &copy->task);
}

/* A store that is not open yet is asked by the first request. */
static int check_names(simba_backend *backend, const char *mutex, const char *id,
                       struct simba_error *error)
{
    struct sb_late_store *late = (struct sb_late_store *)backend;

    return sb_late_is_open(late) ? late->config.ops->check_names(late->store, mutex, id, error)
                                 : SIMBA_OK;
}

static int life_fd(simba_backend *backend)
{
    struct sb_late_store *late = (struct sb_late_store *)backend;

    if (sb_late_is_open(late))
        return late->config.ops->life_fd(late->store);
    errno = ENOTSUP;
    return -1;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void run_closed(struct simba_task *task)
{
    struct sb_late_store *late = SB_CONTAINER(struct sb_late_store, close_task, task);
    void (*closed)(void *argument) = late->closed;
    void *argument = late->argument;

    SB_CHECK(sb_loop_is_current(late->config.loop), "the end is told on the engine's loop");
    sb_loop_destroy(late->loop);
    free_late(late);
    closed(argument);
}

static void on_store_closed(void *argument)
{
    struct sb_late_store *late = argument;

    SB_CHECK(late->closed != NULL, "a store is closed for the engine");
    late->close_task.run = run_closed;
    sb_loop_post(late->config.loop, &late->close_task);
}

static void run_close(struct simba_task *task)
{
    struct sb_late_store *late = SB_CONTAINER(struct sb_late_store, close_task, task);

    SB_CHECK(sb_loop_is_current(late->loop), "a store is closed on its own loop");
    late->config.ops->close(late->store, on_store_closed, late);
}

static void close_store(struct sb_late_store *late)
{
    SB_CHECK(late->closed != NULL, "a store is closed for the engine");
    late->close_task.run = run_close;
    sb_loop_post(late->loop, &late->close_task);
}

/* The thread that has opened it does nothing more. */
static void run_opened(struct simba_task *task)
{
    struct sb_late_store *late = SB_CONTAINER(struct sb_late_store, opened_task, task);
    const struct simba_backend_host *host = late->config.host;

    SB_CHECK(sb_loop_is_current(late->config.loop),
             "the engine learns of its store on its own loop");
    SB_CHECK(!sb_late_is_open(late), "a store is opened once");
    pthread_join(late->thread, NULL);
    if (late->closed != NULL) { /* closed meanwhile */
        close_store(late);
        return;
    }
    atomic_store(&late->is_open, true);
    sb_log(&late->config.log, SIMBA_LOG_WARN, "the store can be used now");
    late->config.opened(late->config.argument);
    host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL); /* all try at once */
}

static void close_late(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    struct sb_late_store *late = (struct sb_late_store *)backend;

    SB_CHECK(sb_loop_is_current(late->config.loop), "the engine closes its store on its own loop");
    sb_lock_take(&late->lock);
    SB_CHECK(!late->closing, "a store is closed once");
    late->closing = true;
    late->closed = closed;
    late->argument = argument;
    if (late->state == TRYING) {
        pthread_detach(late->thread);
        sb_lock_release(&late->lock);
        closed(argument);
    } else if (late->state == WAITING) {
        pthread_cond_signal(&late->changed);
        sb_lock_release(&late->lock);
        pthread_join(late->thread, NULL);
        free_late(late);
        closed(argument);
    } else {
        sb_lock_release(&late->lock);
        if (sb_late_is_open(late)) /* otherwise run_opened is on its way */
            close_store(late);
    }
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void init_ops(struct sb_late_store *late)
{
    const struct simba_backend_ops *ops = late->config.ops;

    late->ops = *ops;
    late->ops.submit = submit;
    late->ops.close = close_late;
    late->ops.listen = ops->listen != NULL ? listen_to : NULL;
    late->ops.check_names = ops->check_names != NULL ? check_names : NULL;
    late->ops.life_fd = ops->life_fd != NULL ? life_fd : NULL;
}

int sb_late_create(const struct sb_late_config *config, struct sb_late_store **ret_late,
                   struct simba_error *error)
{
    struct sb_late_store *late = sb_alloc_zero(sizeof *late);
    int code;

    if (late == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_lock_init(&late->lock);
    pthread_cond_init(&late->changed, NULL);
    late->host.reply = pass_reply;
    late->host.notice = pass_notice;
    late->host.session_lost = pass_session_lost;
    late->host.post = post_to_store;
    late->host.log = pass_log;
    late->config = *config;
    late->opened_task.run = run_opened;
    late->random = sb_random_seed();
    init_ops(late);
    keep_error(late, config->why);
    late->config.why = NULL;
    late->url_text = sb_strdup(config->url_text);
    late->config.url_text = NULL;
    late->folder = sb_strdup(config->folder);
    late->config.folder = NULL;
    code = late->url_text != NULL && late->folder != NULL
               ? sb_thread_start(&late->thread, "simba-open", run_thread, late)
               : ENOMEM;
    if (code == 0) {
        *ret_late = late;
        return SIMBA_OK;
    }
    free_late(late);
    return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                                strerror(code));
}

const struct simba_backend_ops *sb_late_ops(const struct sb_late_store *late)
{
    return &late->ops;
}

simba_backend *sb_late_backend(struct sb_late_store *late)
{
    return (simba_backend *)late;
}
