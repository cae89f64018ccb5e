/*
 * engine.c - carries requests to the backend, answers back to the services, and notices to whom they concern.
 *
 * Requests that become due within one turn of the loop leave in one batch. Answers and notices may come on
 * any thread; they are acted upon on the loop thread only.
 */
#include "runtime/engine.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/text.h"
#include "core/owner.h"
#include "runtime/late_store.h"
#include "runtime/service.h"

#include <stdarg.h>
#include <string.h>

static struct sb_engine *engine_of(const struct simba_backend_host *host)
{
    return (struct sb_engine *)host;
}

int sb_engine_check_process(const struct sb_engine *engine, struct simba_error *error)
{
    if (engine->forks == sb_fork_count())
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EFORKED,
                        "the handle was made before fork() and belongs to the parent process");
}

/* ---- Waiting -------------------------------------------------------------------------------- */

void sb_engine_pending_add(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->pending++;
    pthread_mutex_unlock(&engine->lock);
}

/* The loop is woken under the lock: the thread that waits for this may free it. */
void sb_engine_pending_remove(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    if (--engine->pending == 0) {
        pthread_cond_broadcast(&engine->progress);
        sb_loop_wake(engine->loop);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* How long a thread waits before it takes itself for one of the executor's, while none has shown itself; and how often
 * a thread of the executor looks whether it can help, while it does not turn the loop. */
#define UNSEEN_MS 100
#define HELP_MS 20

struct helper {
    const struct sb_wait *wait;
    const struct sb_help *help;
    struct sb_dispatcher *dispatcher;
};

static bool is_done_or_can_help(void *argument)
{
    const struct helper *helper = argument;

    return helper->wait->done(helper->wait->argument) ||
           sb_dispatcher_can_help(helper->dispatcher, helper->help);
}

/* With wait->lock held, and again when it returns; callbacks run without it. */
static bool wait_and_help(struct sb_engine *engine, const struct sb_wait *wait,
                          const struct sb_help *help)
{
    struct helper helper = {wait, help, engine->dispatcher};
    struct sb_wait either = {.lock = wait->lock,
                             .changed = wait->changed,
                             .done = is_done_or_can_help,
                             .argument = &helper,
                             .until_ms = wait->until_ms,
                             .look_ms = HELP_MS};

    while (sb_wait(engine->loop, &either) && !wait->done(wait->argument)) {
        int cancel_state;

        pthread_mutex_unlock(wait->lock);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        sb_dispatcher_help(engine->dispatcher, help);
        pthread_setcancelstate(cancel_state, NULL);
        pthread_mutex_lock(wait->lock);
    }
    return wait->done(wait->argument);
}

/* A program that has one thread may wait before it has run any callback. */
static bool wait_as_unseen(struct sb_engine *engine, const struct sb_wait *wait,
                           const struct sb_help *help)
{
    struct sb_wait first = *wait;

    first.until_ms = sb_later(simba_now_ms(), UNSEEN_MS);
    if (first.until_ms > wait->until_ms)
        first.until_ms = wait->until_ms;
    if (sb_wait(engine->loop, &first))
        return true;
    return sb_dispatcher_is_executor_unseen(engine->dispatcher) ? wait_and_help(engine, wait, help)
                                                                : sb_wait(engine->loop, wait);
}

bool sb_engine_wait(struct sb_engine *engine, const struct sb_wait *wait,
                    const struct sb_help *help)
{
    struct sb_dispatcher *left = sb_dispatcher_wait_begin();
    bool done;

    if (help != NULL && sb_dispatcher_is_on_executor(engine->dispatcher))
        done = wait_and_help(engine, wait, help);
    else if (help != NULL && sb_dispatcher_is_executor_unseen(engine->dispatcher))
        done = wait_as_unseen(engine, wait, help);
    else
        done = sb_wait(engine->loop, wait);
    sb_dispatcher_wait_end(left);
    return done;
}

bool sb_engine_wait_progress(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                             int64_t until_ms, const struct sb_help *help)
{
    struct sb_wait wait = {.lock = &engine->lock,
                           .changed = &engine->progress,
                           .done = done,
                           .argument = argument,
                           .until_ms = until_ms};
    bool is_done;

    pthread_mutex_lock(&engine->lock);
    is_done = sb_engine_wait(engine, &wait, help);
    pthread_mutex_unlock(&engine->lock);
    return is_done;
}

/* ---- Starts --------------------------------------------------------------------------------- */

#define BUSY_FROM 4096 /* requests under way: twice what a Redis connection takes at once */
#define ROUND_MS 1000  /* without a move in the line, and what is under way counts no more */

bool sb_engine_is_busy(const struct sb_engine *engine)
{
    return engine->line.under_way >= BUSY_FROM;
}

void sb_engine_line_up(struct sb_engine *engine, struct sb_service *s)
{
    struct sb_line *line = &engine->line;

    s->start_waits = true;
    if (s->in_line)
        return; /* since an earlier start, which a stop has taken out of its turn */
    sb_service_hold(s);
    s->in_line = true;
    s->next_start = NULL;
    if (line->last != NULL)
        line->last->next_start = s;
    else
        line->first = s;
    line->last = s;
    if (line->first == s) {
        line->moved = false;
        sb_loop_arm(engine->loop, &line->timer, simba_now_ms() + ROUND_MS);
    }
}

static struct sb_service *leave_line(struct sb_engine *engine)
{
    struct sb_line *line = &engine->line;
    struct sb_service *s = line->first;

    line->first = s->next_start;
    if (line->first == NULL) {
        line->last = NULL;
        sb_loop_cancel(engine->loop, &line->timer);
    }
    s->in_line = false;
    return s;
}

void sb_engine_move_line(struct sb_engine *engine)
{
    struct sb_line *line = &engine->line;

    while (line->first != NULL && (!line->first->start_waits || !sb_engine_is_busy(engine))) {
        struct sb_service *s = leave_line(engine);

        line->moved = true;
        sb_service_begin_waiting(s);
        sb_service_drop(s);
    }
}

static void check_line(struct sb_timer *timer)
{
    struct sb_engine *engine = SB_CONTAINER(struct sb_engine, line.timer, timer);
    struct sb_line *line = &engine->line;

    if (!line->moved) {
        line->round++;
        line->under_way = 0;
        sb_engine_move_line(engine);
    }
    line->moved = false;
    if (line->first != NULL)
        sb_loop_arm(engine->loop, timer, simba_now_ms() + ROUND_MS);
}

static void count_answer(struct sb_engine *engine, const struct sb_request *request)
{
    if (request->round == engine->line.round)
        engine->line.under_way--;
}

/* ---- Requests ------------------------------------------------------------------------------- */

void sb_engine_send(struct sb_engine *engine, struct sb_request *request)
{
    sb_engine_send_as_of(engine, request, sb_clock_us());
}

void sb_engine_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us)
{
    request->engine = engine;
    request->sent_at_us = now_us;
    request->sent_at_ms = now_us / 1000;
    request->round = engine->line.round;
    request->wire.next = NULL;
    *engine->batch_end = &request->wire;
    engine->batch_end = &request->wire.next;
    engine->line.under_way++;
    sb_engine_pending_add(engine);
}

/* The end of a turn. Answers that come from within submit may bring new requests. */
static void send_batch(void *argument)
{
    struct sb_engine *engine = argument;

    while (engine->batch != NULL) {
        struct simba_request *batch = engine->batch;

        engine->batch = NULL;
        engine->batch_end = &engine->batch;
        engine->ops->submit(engine->backend, batch);
    }
}

static void answer(struct sb_request *request, const struct simba_reply *reply)
{
    struct sb_engine *engine = request->engine;

    request->answered_at_us = sb_clock_us();
    sb_metrics_observe(&engine->metrics.operation, request->answered_at_us - request->sent_at_us);
    if (reply->code != SIMBA_OK)
        sb_metrics_count(&engine->metrics.errors);
    count_answer(engine, request);
    request->answered(request, reply);
    sb_engine_move_line(engine);
    sb_engine_pending_remove(engine);
}

static void run_answer(struct simba_task *task)
{
    struct sb_request *request = SB_CONTAINER(struct sb_request, task, task);
    struct simba_reply reply = request->reply; /* the request is gone once it is answered */
    bool is_own = reply.owner == request->wire.id;

    answer(request, &reply);
    if (!is_own)
        sb_free((void *)reply.owner);
    sb_free((void *)reply.list);
    sb_free((void *)reply.error);
}

static void *copy_of(const void *bytes, size_t size)
{
    void *copy = sb_alloc(size);

    if (copy != NULL)
        memcpy(copy, bytes, size);
    return copy;
}

void sb_engine_drop_owner(enum simba_op op, struct simba_reply *reply)
{
    reply->owner = NULL;
    if (op != SIMBA_OP_GUARD && op != SIMBA_OP_RELEASE)
        reply->code = SIMBA_ENOMEM;
}

/* A contender that owns needs no memory for its own name: a renewal gets through when there is none. */
static void keep_owner(struct sb_request *request, const char *owner)
{
    const char *id = request->wire.id;
    char *copy;

    if (id != NULL && strcmp(owner, id) == 0) {
        request->reply.owner = id;
        return;
    }
    copy = sb_alloc(SIMBA_ID_MAX + 1);
    if (copy == NULL) {
        sb_engine_drop_owner(request->wire.op, &request->reply);
        return;
    }
    sb_text_copy(copy, SIMBA_ID_MAX + 1, owner);
    request->reply.owner = copy;
}

static void keep_list(struct sb_request *request, const struct simba_reply *reply)
{
    request->reply.list = copy_of(reply->list, reply->list_count * sizeof *reply->list);
    if (request->reply.list == NULL) {
        request->reply.list_count = 0;
        request->reply.code = SIMBA_ENOMEM;
    }
}

/* Keeps what the answer points to, because the backend's memory is its own again when reply returns. */
static void keep_answer(struct sb_request *request, const struct simba_reply *reply)
{
    request->reply = *reply;
    request->reply.owner = NULL;
    request->reply.list = NULL;
    request->reply.error = NULL;
    if (reply->owner != NULL && reply->owner[0] != '\0')
        keep_owner(request, reply->owner);
    if (reply->list_count > 0)
        keep_list(request, reply);
    if (reply->error != NULL) /* without memory the code has to do */
        request->reply.error = copy_of(reply->error, sizeof *reply->error);
}

static void host_reply(const struct simba_backend_host *host, struct simba_request *wire,
                       const struct simba_reply *reply)
{
    struct sb_request *request = (struct sb_request *)wire;
    struct sb_engine *engine = engine_of(host);

    if (sb_loop_is_current(engine->loop)) {
        answer(request, reply);
        return;
    }
    keep_answer(request, reply);
    request->task.run = run_answer;
    sb_loop_post(engine->loop, &request->task);
}

/* ---- Notices -------------------------------------------------------------------------------- */

/* A notice on its way to the loop. An empty string stands for NULL. */
struct news {
    struct simba_task task; /* first */
    struct sb_engine *engine;
    enum sb_event_type event;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
};

/* Takes the members out of the registry's lock: what a step leads to may want it. */
static void collect_member(struct sb_member *member, void *argument)
{
    struct sb_member **list = argument;

    sb_service_hold(sb_service_of_member(member));
    member->found = *list;
    *list = member;
}

/* Only from the inbox, never from within a step, so that there is one list of found members at a time. */
static void tell(struct news *news)
{
    struct sb_member *list = NULL;

    sb_registry_visit(&news->engine->registry, news->mutex[0] != '\0' ? news->mutex : NULL,
                      news->id[0] != '\0' ? news->id : NULL, collect_member, &list);
    while (list != NULL) {
        struct sb_member *member = list;
        struct sb_service *service = sb_service_of_member(member);

        list = member->found;
        if (news->event != SB_EVENT_CHANGED || sb_service_hears_changes(service))
            sb_service_event(service, news->event);
        sb_service_drop(service);
    }
}

static void run_news(struct simba_task *task)
{
    struct news *news = (struct news *)task;

    tell(news);
    sb_free(news);
}

static struct news make_news(struct sb_engine *engine, enum sb_event_type event, const char *mutex,
                             const char *id)
{
    struct news news = {.task.run = run_news, .engine = engine, .event = event};

    sb_text_copy(news.mutex, sizeof news.mutex, mutex != NULL ? mutex : "");
    sb_text_copy(news.id, sizeof news.id, id != NULL ? id : "");
    return news;
}

/* False when there is no memory to carry it. */
static bool spread(const struct news *news)
{
    struct news *copy = sb_alloc(sizeof *copy);

    if (copy == NULL)
        return false;
    *copy = *news;
    sb_loop_post(news->engine->loop, &copy->task);
    return true;
}

static void host_notice(const struct simba_backend_host *host, enum simba_notice notice,
                        const char *mutex, const char *id)
{
    struct news news =
        make_news(engine_of(host),
                  notice == SIMBA_NOTICE_CHANGED ? SB_EVENT_CHANGED : SB_EVENT_WAKE, mutex, id);

    spread(&news); /* a courtesy: without memory the next scheduled attempt finds out */
}

static void run_session_lost(struct simba_task *task)
{
    struct sb_engine *engine = SB_CONTAINER(struct sb_engine, session_task, task);
    struct news news = make_news(engine, SB_EVENT_SESSION_LOST, NULL, NULL);

    atomic_store(&engine->session_task_posted, false);
    tell(&news);
}

/* This must arrive. Without memory for one mutex it is told to all: they just compete anew. */
static void host_session_lost(const struct simba_backend_host *host, const char *mutex)
{
    struct sb_engine *engine = engine_of(host);
    struct news news = make_news(engine, SB_EVENT_SESSION_LOST, mutex, NULL);

    if (!spread(&news) && !atomic_exchange(&engine->session_task_posted, true))
        sb_loop_post(engine->loop, &engine->session_task);
}

static void host_post(const struct simba_backend_host *host, struct simba_task *task)
{
    sb_loop_post(engine_of(host)->loop, task);
}

static void host_log(const struct simba_backend_host *host, enum simba_log_level level,
                     const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sb_log_va(&engine_of(host)->log, level, format, arguments);
    va_end(arguments);
}

/* ---- Creation ------------------------------------------------------------------------------- */

#define LOOK_MS 1000 /* between two looks of a follower, if the store cannot tell of changes */

struct opening {
    struct sb_engine *engine;
    simba_url *url;
    struct simba_error error;
    int code;
};

static void open_backend(void *argument)
{
    struct opening *opening = argument;
    struct sb_engine *engine = opening->engine;
    struct simba_backend_config config = {
        .size = sizeof config,
        .url = opening->url,
        .ttl_ms = engine->timing.ttl_ms,
        .transition_ms = engine->timing.transition_ms,
    };

    engine->host.loop = sb_loop_uv(engine->loop);
    if (engine->ops->no_sigpipe)
        sb_loop_set_no_sigpipe(engine->loop);
    opening->code = engine->ops->open(&config, &engine->host, &engine->backend, &opening->error);
}

/* Those that listen have done so to nobody. */
static void introduce_services(void *argument)
{
    struct sb_engine *engine = argument;
    const struct simba_backend_ops *ops = engine->ops;
    struct sb_member *list = NULL;

    sb_registry_visit(&engine->registry, NULL, NULL, collect_member, &list);
    while (list != NULL) {
        struct sb_member *member = list;
        struct sb_service *service = sb_service_of_member(member);

        list = member->found;
        if (service->listening && ops->listen != NULL)
            ops->listen(engine->backend, member->mutex, member->id, true);
        sb_service_drop(service);
    }
}

/* What is wrong with the URL does not heal. */
static int open_later(struct sb_engine *engine, const struct sb_engine_config *config,
                      const struct simba_error *why, struct simba_error *error)
{
    const struct sb_late_config late = {
        .ops = config->ops,
        .url_text = config->url_text,
        .ask_own = config->ask_own,
        .ttl_ms = config->timing.ttl_ms,
        .transition_ms = config->timing.transition_ms,
        .host = &engine->host,
        .loop = engine->loop,
        .log = config->log,
        .opened = introduce_services,
        .argument = engine,
        .why = why,
    };
    int code = simba_url_check_params(config->url, error);

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
    struct opening opening = {.engine = engine, .url = config->url};

    sb_loop_call(engine->loop, open_backend, &opening);
    if (opening.code == SIMBA_OK)
        return SIMBA_OK;
    if (config->url_text != NULL && sb_late_may_heal(opening.code))
        return open_later(engine, config, &opening.error, error);
    if (error != NULL)
        *error = opening.error;
    return opening.code;
}

bool sb_engine_is_store_open(const struct sb_engine *engine)
{
    return engine->late == NULL || sb_late_is_open(engine->late);
}

static void on_backend_closed(void *argument)
{
    sb_engine_pending_remove(argument);
}

static void close_backend(void *argument)
{
    struct sb_engine *engine = argument;

    SB_CHECK(engine->batch == NULL, "an engine is freed when all requests were sent");
    engine->ops->close(engine->backend, on_backend_closed, engine);
}

static bool has_nothing_pending(void *argument)
{
    struct sb_engine *engine = argument;

    return engine->pending == 0;
}

/* Requests are answered in time, so only callbacks can hold it up. One that runs at two looks in a row has had the
 * whole stop timeout, or another one follows. */
bool sb_engine_settle(struct sb_engine *engine)
{
    const struct sb_help help = {NULL, NULL};
    int looks = 0;

    while (!sb_engine_wait_progress(engine, has_nothing_pending, engine,
                                    sb_later(simba_now_ms(), engine->timing.stop_timeout_ms),
                                    &help)) {
        looks = sb_dispatcher_is_busy(engine->dispatcher) ? looks + 1 : 0;
        if (looks == 2)
            return false;
    }
    return true;
}

/* Nothing is left of the services; the dispatcher has no thread any more. */
static void shut_backend(struct sb_engine *engine)
{
    struct sb_wait wait = {.lock = &engine->lock,
                           .changed = &engine->progress,
                           .done = has_nothing_pending,
                           .argument = engine,
                           .until_ms = SIMBA_INFINITE};

    sb_engine_pending_add(engine);
    sb_loop_call(engine->loop, close_backend, engine);
    pthread_mutex_lock(&engine->lock);
    sb_wait(engine->loop, &wait);
    pthread_mutex_unlock(&engine->lock);
}

/* A thread that is cancelled on the way would leave threads and half of the engine behind. */
void sb_engine_destroy(struct sb_engine *engine)
{
    int cancel_state;

    if (engine == NULL)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    sb_dispatcher_destroy(engine->dispatcher);
    if (engine->backend != NULL)
        shut_backend(engine);
    sb_loop_destroy(engine->loop);
    sb_registry_destroy(&engine->registry);
    pthread_cond_destroy(&engine->progress);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->rest_lock);
    sb_free(engine);
    pthread_setcancelstate(cancel_state, NULL);
}

int sb_engine_create(const struct sb_engine_config *config, struct sb_engine **ret_engine,
                     struct simba_error *error)
{
    struct sb_engine *engine = sb_alloc_zero(sizeof *engine);
    int code;

    if (engine == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_fork_watch();
    engine->forks = sb_fork_count();
    engine->host.reply = host_reply;
    engine->host.notice = host_notice;
    engine->host.session_lost = host_session_lost;
    engine->host.post = host_post;
    engine->host.log = host_log;
    engine->session_task.run = run_session_lost;
    engine->line.timer.fire = check_line;
    engine->ops = config->ops;
    engine->timing = config->timing;
    engine->timing.look_ms = config->ops->listen != NULL ? 0 : LOOK_MS;
    engine->log = config->log;
    engine->batch_end = &engine->batch;
    pthread_mutex_init(&engine->rest_lock, NULL);
    pthread_mutex_init(&engine->lock, NULL);
    sb_wait_init_cond(&engine->progress);
    code = sb_registry_init(&engine->registry);
    if (code != SIMBA_OK)
        sb_error_plain(error, code);
    if (code == SIMBA_OK)
        code = sb_dispatcher_create(config->dispatcher_threads, &config->executor,
                                    &engine->dispatcher, error);
    if (code == SIMBA_OK)
        code = sb_loop_create(send_batch, engine, &engine->loop, error);
    if (code == SIMBA_OK)
        code = open_first(engine, config, error);
    if (code != SIMBA_OK) {
        sb_engine_destroy(engine);
        return code;
    }
    *ret_engine = engine;
    return SIMBA_OK;
}
