/*
 * engine.c - creates and frees what all services of a client share, and opens its store.
 */
#include "runtime/engine_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "runtime/late_store.h"
#include "runtime/service_state.h"
#include "runtime/shared_reads.h"

#include <errno.h>
#include <stdarg.h>

/* ---- Host ------------------------------------------------------------------------------------ */

static void host_post(const struct simba_backend_host *host, struct simba_task *task)
{
    sb_loop_post(sb_engine_of_host(host)->loop, task);
}

static void host_log(const struct simba_backend_host *host, enum simba_log_level level,
                     const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sb_log_va(&sb_engine_of_host(host)->log, level, format, arguments);
    va_end(arguments);
}

/* ---- Opening --------------------------------------------------------------------------------- */

#define READ_MS 1000 /* between two READs of a follower, if the store cannot tell of changes */

/* What is wrong with the URL does not heal. */
static int open_later(struct sb_engine *engine, const struct sb_engine_config *config,
                      const struct simba_error *why, struct simba_error *error)
{
    const struct sb_late_config late = {
        .ops = config->ops,
        .url_text = config->url_text,
        .folder = config->folder,
        .ask_own = config->ask_own,
        .ttl_ms = config->timing.ttl_ms,
        .transition_ms = config->timing.transition_ms,
        .host = &engine->host,
        .loop = engine->loop,
        .log = config->log,
        .opened = sb_notices_introduce_services,
        .argument = engine,
        .why = why,
    };
    int code = simba_url_check_params(config->url, error);

    SB_CHECK(engine->late == NULL && engine->backend == NULL, "a store stands in for none");
    if (code == SIMBA_OK)
        code = sb_late_create(&late, &engine->late, error);
    if (code != SIMBA_OK)
        return code;
    engine->ops = sb_late_ops(engine->late);
    engine->backend = sb_late_backend(engine->late);
    sb_log(&engine->log, SIMBA_LOG_WARN, "the store cannot be used yet, and is tried again: %s",
           why->text);
    return SIMBA_OK;
}

static int open_first(struct sb_engine *engine, const struct sb_engine_config *config,
                      struct simba_error *error)
{
    const struct simba_backend_config backend = {
        .url = config->url,
        .ttl_ms = engine->timing.ttl_ms,
        .transition_ms = engine->timing.transition_ms,
    };
    struct simba_error why = {0};
    int code;

    SB_CHECK(engine->pending == 0, "a store is opened before anything is asked of it");
    SB_CHECK(engine->backend == NULL, "a backend is opened once");
    code = sb_loop_open_backend(engine->loop, engine->ops, &backend, &engine->host,
                                &engine->backend, &why);
    if (code == SIMBA_OK)
        return SIMBA_OK;
    if (config->url_text != NULL && sb_late_may_heal(code))
        return open_later(engine, config, &why, error);
    if (error != NULL)
        *error = why;
    return code;
}

bool sb_engine_is_store_open(const struct sb_engine *engine)
{
    SB_CHECK(sb_loop_is_current(engine->loop), "the store is asked for on the loop thread");
    return engine->late == NULL || sb_late_is_open(engine->late);
}

/* ---- For the library's own objects ----------------------------------------------------------- */

const struct sb_timing *sb_engine_timing(const struct sb_engine *engine)
{
    return &engine->timing;
}

struct sb_loop *sb_engine_loop(const struct sb_engine *engine)
{
    return engine->loop;
}

const struct sb_log *sb_engine_log(const struct sb_engine *engine)
{
    return &engine->log;
}

void sb_engine_read_metrics(struct sb_engine *engine, struct simba_metrics *metrics)
{
    int64_t late_ms = sb_loop_late_ms(engine->loop);

    sb_metrics_read(&engine->metrics, metrics);
    if (metrics->size >= offsetof(struct simba_metrics, loop_late_ms) + sizeof late_ms)
        metrics->loop_late_ms = late_ms;
}

bool sb_engine_has_sessions(const struct sb_engine *engine)
{
    return engine->ops->has_sessions;
}

bool sb_engine_has_queue(const struct sb_engine *engine)
{
    return engine->ops->has_queue;
}

bool sb_engine_has_properties(const struct sb_engine *engine)
{
    return engine->ops->has_properties;
}

bool sb_engine_can_forget(const struct sb_engine *engine)
{
    return engine->ops->can_forget;
}

bool sb_engine_can_inspect(const struct sb_engine *engine)
{
    return engine->ops->can_inspect;
}

bool sb_engine_has_environment(const struct sb_engine *engine)
{
    return engine->ops->has_environment;
}

int sb_engine_life_fd(struct sb_engine *engine)
{
    if (sb_engine_check_process(engine, NULL) == SIMBA_OK && engine->ops->life_fd != NULL)
        return engine->ops->life_fd(engine->backend);
    errno = ENOTSUP;
    return -1;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void on_backend_closed(void *argument)
{
    sb_engine_pending_remove(argument);
}

static void close_backend(void *argument)
{
    struct sb_engine *engine = argument;

    SB_CHECK(sb_loop_is_current(engine->loop), "a store is closed on the loop thread");
    SB_CHECK(engine->batch == NULL, "an engine is freed when all requests were sent");
    engine->ops->close(engine->backend, on_backend_closed, engine);
}

static bool has_nothing_pending(void *argument)
{
    struct sb_engine *engine = argument;

    SB_CHECK(sb_lock_is_mine(&engine->lock), "what is pending is asked for with the lock held");
    return engine->pending == 0;
}

/* Requests are answered in time, so only callbacks can hold it up. One that runs twice in a
 * row has had the whole stop timeout, or another one follows. */
bool sb_engine_settle(struct sb_engine *engine)
{
    const struct sb_help help = {NULL, NULL};
    int busy = 0;

    while (!sb_engine_wait_progress(engine, has_nothing_pending, engine,
                                    sb_later(simba_now_ms(), engine->timing.stop_timeout_ms),
                                    &help)) {
        busy = sb_dispatcher_is_busy(engine->dispatcher) ? busy + 1 : 0;
        if (busy == 2)
            return false;
    }
    return true;
}

bool sb_engine_calls_back(const struct sb_engine *engine)
{
    return sb_dispatcher_is_busy(engine->dispatcher);
}

/* Nothing is left of the services; the dispatcher has no thread any more. */
static void shut_backend(struct sb_engine *engine)
{
    struct sb_wait wait = {.lock = &engine->lock,
                           .changed = &engine->progress,
                           .done = has_nothing_pending,
                           .argument = engine,
                           .until_ms = SIMBA_INFINITE};

    SB_CHECK(engine->batch == NULL, "a backend is closed when all requests have been sent");
    sb_engine_pending_add(engine);
    sb_loop_call(engine->loop, close_backend, engine);
    sb_lock_take(&engine->lock);
    sb_wait(engine->loop, &wait);
    sb_lock_release(&engine->lock);
}

/* A thread that is cancelled on the way would leave threads and half of the engine behind. */
void sb_engine_destroy(struct sb_engine *engine)
{
    int cancel_state;

    if (engine == NULL)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    SB_CHECK(engine->pending == 0, "an engine is freed when nothing of it is pending");
    sb_dispatcher_destroy(engine->dispatcher);
    if (engine->backend != NULL)
        shut_backend(engine);
    sb_loop_destroy(engine->loop);
    SB_CHECK(engine->starts.first == NULL, "an engine is freed when no start waits");
    SB_CHECK(engine->batch == NULL, "an engine is freed when all requests have been sent");
    sb_reads_destroy(engine->reads);
    sb_notices_destroy(engine);
    sb_registry_destroy(&engine->registry);
    pthread_cond_destroy(&engine->progress);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->state_lock);
    sb_free(engine);
    pthread_setcancelstate(cancel_state, NULL);
}

/* ---- Creation -------------------------------------------------------------------------------- */

int sb_engine_create(const struct sb_engine_config *config, struct sb_engine **ret_engine,
                     struct simba_error *error)
{
    struct sb_engine *engine = sb_alloc_zero(sizeof *engine);
    int code;

    if (engine == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_fork_watch();
    engine->forks = sb_fork_count();
    engine->host.reply = sb_requests_reply;
    engine->host.notice = sb_notices_tell;
    engine->host.session_lost = sb_notices_tell_session_lost;
    engine->host.post = host_post;
    engine->host.log = host_log;
    engine->session_task.run = sb_notices_run_session_lost;
    engine->ops = config->ops;
    engine->timing = config->timing;
    engine->timing.read_ms = config->ops->listen != NULL ? 0 : READ_MS;
    engine->log = config->log;
    engine->batch_end = &engine->batch;
    sb_lock_init(&engine->state_lock);
    sb_lock_init(&engine->lock);
    sb_lock_init(&engine->notices_lock);
    sb_wait_init_cond(&engine->progress);
    code = sb_registry_init(&engine->registry);
    if (code == SIMBA_OK)
        code = sb_hash_table_init(&engine->notices);
    if (code != SIMBA_OK)
        sb_error_plain(error, code);
    if (code == SIMBA_OK)
        code = sb_dispatcher_create(config->dispatcher_threads, &config->executor, &config->pull,
                                    sb_service_strand_idle, &engine->dispatcher, error);
    if (code == SIMBA_OK)
        code = sb_loop_create(sb_requests_flush, engine, &engine->loop, error);
    if (code == SIMBA_OK) {
        code = sb_reads_create(engine->loop, sb_notices_tell_followers, engine, &engine->reads);
        if (code != SIMBA_OK)
            sb_error_plain(error, code);
    }
    if (code == SIMBA_OK) {
        sb_starts_init(&engine->starts, engine->loop, sb_service_begin_queued);
        code = open_first(engine, config, error);
    }
    if (code != SIMBA_OK) {
        sb_engine_destroy(engine);
        return code;
    }
    *ret_engine = engine;
    return SIMBA_OK;
}
