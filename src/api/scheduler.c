/*
 * scheduler.c - periodic work on the leader only.
 *
 * The work runs on the strand of the contender, between its callbacks. So on_released waits for a
 * run that is under way, and with it the release of the mutex: the next leader's work begins after
 * ours has ended. While it leads the strand has a thread of its own, so that work delays no other
 * callbacks. The timer belongs to the loop: the loop decides when to run, the strand runs.
 */
#include "api/handover.h"
#include "api/object.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/thread.h"
#include "runtime/view.h"

#include <string.h>

#define TIME_MAX_MS ((int64_t)INT32_MAX * 1000) /* 68 years */

/* Between two tries to get a thread. */
#define RETRY_MIN_MS 10
#define RETRY_MAX_MS 1000

struct sb_scheduler {
    struct sb_object base; /* first */
    struct sb_engine *engine;
    struct sb_loop *loop; /* the engine's */
    simba_work_fn *work;
    simba_closed_fn *on_closed;
    void *user;                      /* of both */
    struct sb_handover_watch *watch; /* NULL: it takes no part in hand-overs */
    enum simba_schedule_strategy strategy;
    int64_t initial_delay_ms;
    int64_t period_ms;
    char worker[SB_THREAD_NAME_SIZE];
    _Atomic uint64_t runs;
    _Atomic uint64_t failures;
    _Atomic uint64_t skipped;
    _Atomic uint64_t term;     /* counted up at the end of each, from 1 on */
    _Atomic uint64_t run_term; /* of the run under way; 0: there is none */

    /* Loop thread only. */
    struct sb_timer timer;
    int64_t due_ms;    /* of the run that the timer stands for */
    uint64_t due_term; /* of the run that is on the strand */
    bool leading;
    bool running;
    int64_t retry_ms; /* until the next try to get a thread; 0: the last one did not fail */

    struct sb_call run_call;
    struct simba_task lead_task;
    struct simba_task follow_task;
    struct simba_task ended_task;
};

/* The scheduler lives as long as its service, so a task on its way keeps the service alive. */
static void post(struct sb_scheduler *s, struct simba_task *task)
{
    sb_service_hold(s->base.service);
    sb_loop_post(s->loop, task);
}

/* ---- On the loop: when to run ---------------------------------------------------------------- */

static void plan(struct sb_scheduler *s, int64_t due_ms)
{
    SB_CHECK(sb_loop_is_current(s->loop), "runs are planned on the loop thread");
    s->due_ms = due_ms;
    sb_loop_arm(s->loop, &s->timer, due_ms);
}

/* The next due time of a fixed rate. Skips and counts those that have passed. */
static int64_t next_due(struct sb_scheduler *s, int64_t now_ms)
{
    int64_t missed = now_ms > s->due_ms ? (now_ms - s->due_ms) / s->period_ms : 0;

    SB_CHECK(s->strategy == SIMBA_FIXED_RATE, "runs are missed at a fixed rate only");
    atomic_fetch_add(&s->skipped, (uint64_t)missed);
    return s->due_ms + (missed + 1) * s->period_ms;
}

/* Without a thread of its own the work waits: on a thread for callbacks it would delay others. */
static bool ensure_thread(struct sb_scheduler *s)
{
    SB_CHECK(sb_loop_is_current(s->loop), "a thread for work begins on the loop thread");
    if (sb_service_begin_thread(s->base.service, s->worker)) {
        if (s->retry_ms > 0)
            sb_log(sb_engine_log(s->engine), SIMBA_LOG_WARN,
                   "there is a thread for the work '%s' again", s->worker);
        s->retry_ms = 0;
        return true;
    }
    if (s->retry_ms == 0)
        sb_log(sb_engine_log(s->engine), SIMBA_LOG_ERROR,
               "there is no thread for the work '%s': it waits until the system gives one",
               s->worker);
    s->retry_ms = s->retry_ms == 0 ? RETRY_MIN_MS : 2 * s->retry_ms;
    if (s->retry_ms > RETRY_MAX_MS)
        s->retry_ms = RETRY_MAX_MS;
    return false;
}

static void on_due(struct sb_timer *timer)
{
    struct sb_scheduler *s = SB_CONTAINER(struct sb_scheduler, timer, timer);

    if (!s->leading || !sb_service_is_owner(s->base.service) ||
        sb_handover_watch_asked(s->watch, s->base.service, NULL))
        return; /* the next on_acquired plans anew */
    if (!s->running && !ensure_thread(s)) {
        sb_loop_arm(s->loop, timer, simba_now_ms() + s->retry_ms); /* for the same run */
        return;
    }
    if (s->strategy == SIMBA_FIXED_RATE) {
        if (s->running)
            atomic_fetch_add(&s->skipped, 1);
        plan(s, next_due(s, simba_now_ms()));
    }
    if (s->running)
        return;
    s->running = true;
    s->due_term = atomic_load(&s->term);
    sb_service_call(s->base.service, &s->run_call);
}

static void run_lead(struct simba_task *task)
{
    struct sb_scheduler *s = SB_CONTAINER(struct sb_scheduler, lead_task, task);

    SB_CHECK(sb_loop_is_current(s->loop), "a lead begins on the loop thread");
    s->leading = sb_service_is_owner(s->base.service); /* a stop may have been given up meanwhile */
    if (s->leading) {
        ensure_thread(s);
        plan(s, simba_now_ms() + s->initial_delay_ms);
    }
    sb_service_drop(s->base.service);
}

static void stop_leading(struct sb_scheduler *s)
{
    SB_CHECK(sb_loop_is_current(s->loop), "a lead ends on the loop thread");
    s->leading = false;
    s->retry_ms = 0;
    sb_loop_cancel(s->loop, &s->timer);
    sb_service_end_thread(s->base.service);
}

/* A stop that is given up has no on_released. When it is over no timer is armed any more, so none
 * outlives the service. A run that outlasts it belongs to a term that is over before the next can
 * begin. */
static void on_step(void *user, struct sb_service *service, const struct sb_event *event,
                    const struct sb_step *step)
{
    struct sb_scheduler *s = user;

    if (s->watch != NULL)
        sb_handover_watch_step(s->watch, service, event, step);
    if (step->released || step->stopped)
        atomic_fetch_add(&s->term, 1);
    if (step->stopped)
        stop_leading(s);
}

static void run_follow(struct simba_task *task)
{
    struct sb_scheduler *s = SB_CONTAINER(struct sb_scheduler, follow_task, task);

    stop_leading(s);
    sb_service_drop(s->base.service);
}

static void run_ended(struct simba_task *task)
{
    struct sb_scheduler *s = SB_CONTAINER(struct sb_scheduler, ended_task, task);

    SB_CHECK(sb_loop_is_current(s->loop), "that a run ended is told on the loop thread");
    SB_CHECK(s->running, "a run that ended has begun");
    s->running = false;
    if (s->leading && s->strategy == SIMBA_FIXED_DELAY)
        plan(s, simba_now_ms() + s->period_ms);
    sb_service_drop(s->base.service);
}

/* ---- On the strand: the work ----------------------------------------------------------------- */

/* Whether what the service said last is true of the run under way, too, where there is one. The
 * service is asked before: the term is counted up before the next one can begin. */
static bool is_of_run(const struct sb_scheduler *s)
{
    uint64_t run_term = atomic_load(&s->run_term);

    return run_term == 0 || run_term == atomic_load(&s->term);
}

static bool is_leader(const struct sb_scheduler *s)
{
    return sb_service_is_owner(s->base.service) && is_of_run(s);
}

static bool should_stop(const struct sb_scheduler *s)
{
    return !is_leader(s) || sb_handover_watch_asked(s->watch, s->base.service, NULL);
}

static void work(struct sb_scheduler *s)
{
    char name[SB_THREAD_NAME_SIZE];
    int code;

    pthread_getname_np(pthread_self(), name, sizeof name); /* an executor's thread */
    pthread_setname_np(pthread_self(), s->worker);
    code = s->work(s->user, sb_service_handle(s->base.service));
    pthread_setname_np(pthread_self(), name);
    atomic_fetch_add(&s->runs, 1);
    if (code != 0) {
        atomic_fetch_add(&s->failures, 1);
        sb_log(sb_engine_log(s->engine), SIMBA_LOG_ERROR,
               "the work '%s' failed with %d; it goes on", s->worker, code);
    }
}

static void run_work(struct sb_call *call)
{
    struct sb_scheduler *s = SB_CONTAINER(struct sb_scheduler, run_call, call);

    SB_CHECK(atomic_load(&s->run_term) == 0, "runs do not overlap");
    atomic_store(&s->run_term, s->due_term);
    if (!should_stop(s))
        work(s);
    atomic_store(&s->run_term, 0);
    post(s, &s->ended_task);
}

static void before_acquired(void *object)
{
    const struct sb_scheduler *s = object;

    if (s->watch != NULL)
        sb_handover_watch_await(s->watch);
}

static void on_acquired(void *user, const struct simba_state *state)
{
    struct sb_scheduler *s = user;

    (void)state;
    post(s, &s->lead_task);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct sb_scheduler *s = user;

    (void)state;
    post(s, &s->follow_task);
}

static void on_closed(void *user)
{
    const struct sb_scheduler *s = user;

    s->on_closed(s->user);
}

/* ---- The public surface ---------------------------------------------------------------------- */

bool simba_scheduler_is_leader(const simba_scheduler *handle)
{
    struct sb_scheduler *s = sb_handle_ask(handle);
    bool leader;

    if (s == NULL)
        return false;
    leader = is_leader(s);
    sb_service_unpin(s->base.service);
    return leader;
}

bool simba_scheduler_should_stop(const simba_scheduler *handle)
{
    struct sb_scheduler *s = sb_handle_ask(handle);
    bool should;

    if (s == NULL)
        return true;
    should = should_stop(s);
    sb_service_unpin(s->base.service);
    return should;
}

uint64_t simba_scheduler_fence(const simba_scheduler *handle)
{
    struct sb_scheduler *s = sb_handle_ask(handle);
    uint64_t fence;

    if (s == NULL)
        return 0;
    fence = sb_service_fence(s->base.service);
    if (!is_of_run(s))
        fence = 0;
    sb_service_unpin(s->base.service);
    return fence;
}

enum simba_status simba_scheduler_status(const simba_scheduler *handle)
{
    return sb_view_status_of(handle);
}

const char *simba_scheduler_id(const simba_scheduler *handle)
{
    return sb_object_id(handle);
}

const char *simba_scheduler_mutex(const simba_scheduler *handle)
{
    return sb_object_mutex(handle);
}

static int read_counts(const struct sb_scheduler *s, struct simba_schedule_counts *counts)
{
    struct simba_schedule_counts all;
    int code = sb_engine_check_process(s->engine, NULL);

    if (code != SIMBA_OK)
        return code;
    all.runs = atomic_load(&s->runs);
    all.failures = atomic_load(&s->failures);
    all.skipped = atomic_load(&s->skipped);
    all.size = counts->size;
    memcpy(counts, &all, all.size < sizeof all ? all.size : sizeof all);
    return SIMBA_OK;
}

int simba_scheduler_counts(const simba_scheduler *handle, struct simba_schedule_counts *counts)
{
    struct sb_scheduler *s;
    void *object;
    int code;

    if (counts == NULL || counts->size < sizeof counts->size)
        return SIMBA_EMISUSE;
    code = sb_handle_ask_code(handle, "simba_scheduler_counts", "a scheduler", &object, NULL);
    if (code != SIMBA_OK)
        return code;
    s = object;
    code = read_counts(s, counts);
    sb_service_unpin(s->base.service);
    return code;
}

int simba_scheduler_start(simba_scheduler *handle, struct simba_error *error)
{
    return sb_object_start(handle, "simba_scheduler_start", "a scheduler", error);
}

int simba_scheduler_stop(simba_scheduler *handle, struct simba_error *error)
{
    return sb_object_stop(handle, "simba_scheduler_stop", "a scheduler", error);
}

void simba_scheduler_close(simba_scheduler *handle)
{
    sb_object_close(handle);
}

static int read_options(const struct simba_scheduler_options *given,
                        struct simba_scheduler_options *ret_options, struct simba_error *error)
{
    static const struct sb_options_form form = {
        "SIMBA_SCHEDULER_OPTIONS_INIT",
        offsetof(struct simba_scheduler_options, period_ms) + sizeof(int64_t),
        sizeof(struct simba_scheduler_options)};
    const struct simba_scheduler_options defaults = SIMBA_SCHEDULER_OPTIONS_INIT;
    int code;

    *ret_options = defaults;
    code = sb_options_read(&form, given, ret_options, error);
    if (code != SIMBA_OK)
        return code;
    if (ret_options->work == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "a scheduler needs a work function");
    if (ret_options->period_ms < 1 || ret_options->period_ms > TIME_MAX_MS)
        return sb_error_set(error, SIMBA_EINVAL, "period_ms is %lld; it must be from 1 to %lld",
                            (long long)ret_options->period_ms, (long long)TIME_MAX_MS);
    if (ret_options->initial_delay_ms < 0 || ret_options->initial_delay_ms > TIME_MAX_MS)
        return sb_error_set(error, SIMBA_EINVAL,
                            "initial_delay_ms is %lld; it must be from 0 to %lld",
                            (long long)ret_options->initial_delay_ms, (long long)TIME_MAX_MS);
    if (ret_options->strategy != SIMBA_FIXED_RATE && ret_options->strategy != SIMBA_FIXED_DELAY)
        return sb_error_set(error, SIMBA_EINVAL, "there is no schedule strategy %d",
                            (int)ret_options->strategy);
    return SIMBA_OK;
}

/* A character that does not fit is left out as a whole. */
static void name_worker(struct sb_scheduler *s, const char *name)
{
    size_t length;

    if (sb_text_copy(s->worker, sizeof s->worker, name))
        return;
    length = strlen(s->worker);
    while (length > 0 && (name[length] & 0xC0) == 0x80)
        s->worker[--length] = '\0';
}

static void on_gone(void *object)
{
    struct sb_scheduler *s = object;

    sb_handover_watch_free(s->watch);
    sb_free(s);
}

static struct sb_scheduler *allocate(struct sb_client *client,
                                     const struct simba_scheduler_options *options)
{
    struct sb_scheduler *s = sb_alloc_zero(sizeof *s);

    if (s == NULL)
        return NULL;
    s->base.client = client;
    s->engine = client->engine;
    s->loop = sb_engine_loop(s->engine);
    s->work = options->work;
    s->on_closed = options->on_closed;
    s->user = options->user;
    s->strategy = options->strategy;
    s->initial_delay_ms = options->initial_delay_ms;
    s->period_ms = options->period_ms;
    atomic_init(&s->term, 1);
    s->timer.fire = on_due;
    s->run_call.run = run_work;
    s->lead_task.run = run_lead;
    s->follow_task.run = run_follow;
    s->ended_task.run = run_ended;
    return s;
}

static const struct sb_service_hooks hooks = {
    .stepped = on_step,
    .before_acquired = before_acquired,
    .gone = on_gone,
};

static int create(struct sb_client *client, const struct simba_scheduler_options *given,
                  simba_scheduler **ret_scheduler, struct simba_error *error)
{
    struct simba_scheduler_options options;
    struct sb_service_config config = {0};
    struct sb_handover_config handover = {0};
    struct sb_scheduler *s;
    int code;

    if (client->events != NULL)
        return sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "a scheduler calls its work: a client with pull_events has none");
    code = read_options(given, &options, error);
    if (code != SIMBA_OK)
        return code;
    s = allocate(client, &options);
    if (s == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    config.mutex = options.mutex;
    config.id = options.id;
    config.ttl_ms = SIMBA_UNSET;
    config.transition_ms = SIMBA_UNSET;
    config.calls.on_acquired = on_acquired;
    config.calls.on_released = on_released;
    config.calls.on_closed = options.on_closed != NULL ? on_closed : NULL;
    config.calls.user = s;
    config.calls.hooks = &hooks;
    config.object = s;
    handover.engine = client->engine;
    handover.on_handover = options.on_handover;
    handover.user = options.user;
    code = sb_handover_watch_create(&handover, &s->watch, error);
    if (code == SIMBA_OK)
        code = sb_client_contender(client, &config, &s->base.service, error);
    if (code != SIMBA_OK) {
        on_gone(s);
        return code;
    }
    name_worker(s, options.worker != NULL ? options.worker : options.mutex);
    *ret_scheduler = sb_service_handle(s->base.service);
    return SIMBA_OK;
}

int simba_scheduler_create(simba_client *handle, const struct simba_scheduler_options *options,
                           simba_scheduler **ret_scheduler, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_scheduler == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_scheduler_create needs a client and ret_scheduler");
    code = sb_client_enter(handle, "simba_scheduler_create", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = create(client, options, ret_scheduler, error);
    sb_client_leave(client);
    return code;
}

void simba_scheduler_cleanup(simba_scheduler **scheduler)
{
    simba_scheduler_close(*scheduler);
}
