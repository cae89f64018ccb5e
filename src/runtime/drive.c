/*
 * drive.c - steps a service's machine and does what each step asks for: requests, reports, deadlines, the end
 * of a stop. See the driver's duties in core/machine.h.
 *
 * All of it happens on the loop thread, but for the callbacks themselves. The lock of a service lets other
 * threads copy what the machine knows; it is never held while anything foreign runs.
 */
#include "runtime/service.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/error.h"
#include "core/owner.h"

#include <string.h>

/* How often a request that keeps failing for the same reason is warned of. */
#define WARN_INTERVAL_MS 60000

static bool is_observer(const struct sb_service *s)
{
    return s->member.id == NULL;
}

/* Called after every step with the lock held. STARTING turns into RUNNING only where no stop has come in
 * between; the end of a stop is shown when all is done. */
static void show(struct sb_service *s, const union sb_mind *mind)
{
    const struct sb_machine *m = &mind->contender;
    int starting = SIMBA_STARTING;
    enum simba_status status = is_observer(s) ? mind->observer.status : m->status;

    if (!is_observer(s)) {
        atomic_store_explicit(&s->fence, sb_machine_fence(m), memory_order_release);
        atomic_store_explicit(&s->ttl_ms, sb_machine_ttl_ms(m), memory_order_release);
        atomic_store_explicit(&s->belief_ms, sb_machine_belief_ms(m), memory_order_release);
    }
    if (status == SIMBA_RUNNING)
        atomic_compare_exchange_strong(&s->status, &starting, SIMBA_RUNNING);
}

/* ---- Reports to the application ------------------------------------------------------------- */

static bool calls_notify(const struct sb_service *s, const struct sb_report *report)
{
    const struct simba_state *state = &report->state;

    return s->calls.on_notify != NULL &&
           (simba_state_is_changed(state) || state->before.fence != state->after.fence);
}

static bool calls_acquired(const struct sb_service *s, const struct sb_report *report)
{
    return s->calls.on_acquired != NULL && report->acquired;
}

static bool calls_released(const struct sb_service *s, const struct sb_report *report)
{
    return s->calls.on_released != NULL && report->released;
}

static bool calls_renewed(const struct sb_service *s, const struct sb_report *report)
{
    return s->calls.on_renewed != NULL && report->renewed;
}

/* What calls nobody need not travel to a thread and back, while a release waits for it. Callbacks that are
 * running are not overtaken: the machine counts those that have returned, and waits for all. */
static bool is_heard(const struct sb_service *s, const struct sb_report *report)
{
    return calls_notify(s, report) || calls_acquired(s, report) || calls_released(s, report) ||
           calls_renewed(s, report);
}

/* Each callback is decided by itself, at the moment when it would begin: the one before it may have taken long. With
 * the lock held. `ends` is what it was when the report was taken. */
static bool may_begin(const struct sb_service *s, unsigned ends)
{
    return !s->muted && s->ends == ends;
}

/* A term that is over, or that a stop has begun to end, is not told; then its end is not told either. */
static bool begin_acquired(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->rest_lock);
    begin = report->acquired && may_begin(s, ends) && !s->told && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->fence, memory_order_acquire) == report->state.after.fence;
    s->told |= begin;
    pthread_mutex_unlock(&s->engine->rest_lock);
    return begin && s->calls.on_acquired != NULL;
}

static bool begin_released(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->rest_lock);
    begin = report->released && may_begin(s, ends) && s->told;
    s->told &= !begin;
    pthread_mutex_unlock(&s->engine->rest_lock);
    return begin && s->calls.on_released != NULL;
}

/* A heartbeat of a term that is over would be a lie. */
static bool begin_renewed(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->rest_lock);
    begin = calls_renewed(s, report) && may_begin(s, ends) && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->fence, memory_order_acquire) == report->state.after.fence;
    pthread_mutex_unlock(&s->engine->rest_lock);
    return begin;
}

static void call_back(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    const struct sb_service_calls *c = &s->calls;

    if (begin_acquired(s, report, ends))
        c->on_acquired(c->user, &report->state);
    if (begin_released(s, report, ends))
        c->on_released(c->user, &report->state);
    if (begin_renewed(s, report, ends))
        c->on_renewed(c->user, &report->state);
}

static void tell_returned(struct sb_service *s)
{
    if (atomic_fetch_add(&s->returned, 1) == 0) {
        sb_service_hold(s);
        sb_loop_post(s->engine->loop, &s->returned_task);
    }
}

static void run_report(struct sb_call *call)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, report_call, call);
    struct sb_report report;
    bool notify;
    unsigned ends;

    pthread_mutex_lock(&s->engine->rest_lock);
    report = sb_rest_take_report(&s->rest);
    s->report_queued = false;
    ends = s->ends;
    notify = report.pending && may_begin(s, ends) && calls_notify(s, &report);
    pthread_mutex_unlock(&s->engine->rest_lock);
    if (!report.pending)
        return;
    sb_service_tell_times(s, &report.state.before);
    sb_service_tell_times(s, &report.state.after);
    if (notify)
        s->calls.on_notify(s->calls.user, &report.state);
    call_back(s, &report, ends);
    tell_returned(s);
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct service_request {
    struct sb_request base; /* first */
    struct sb_service *service;
    uint32_t generation;
};

static void drive(struct sb_service *s, const struct sb_event *event, struct sb_name *name,
                  int64_t now_us);
static void drive_plain(struct sb_service *s, enum sb_event_type type, int64_t now_us);

static enum sb_answer answer_of(const struct sb_service *s, const struct simba_reply *reply)
{
    if (reply->code == SIMBA_EUNKNOWN)
        return SB_ANSWER_UNKNOWN;
    if (reply->code != SIMBA_OK)
        return SB_ANSWER_FAILED;
    if (reply->owner == NULL || reply->owner[0] == '\0' || reply->transition_left_ms < 0)
        return SB_ANSWER_NOBODY;
    return !is_observer(s) && strcmp(reply->owner, s->member.id) == 0 ? SB_ANSWER_MINE
                                                                      : SB_ANSWER_OTHER;
}

/* What failed, in a word that readers of logs know. A release that names no record leaves the queue. */
static const char *op_name(const struct simba_request *wire)
{
    static const char *const names[] = {"do anything", "acquire", "renew",
                                        "release",     "read",    "list"};

    return wire->op == SIMBA_OP_RELEASE && wire->revision == 0 ? "leave the queue"
                                                               : names[wire->op];
}

/* One failed attempt is a warning. A store that has failed for longer than a lease cannot be kept waiting for: an
 * owner has lost by then, and nobody else can win. */
static bool is_away(struct sb_service *s, int64_t now_ms)
{
    const struct sb_timing *timing = sb_service_timing(s);

    if (s->failing_since_ms == 0)
        s->failing_since_ms = now_ms;
    return now_ms - s->failing_since_ms >= sb_later(timing->ttl_ms, timing->transition_ms);
}

static void keep_error(struct sb_service *s, const struct simba_request *wire,
                       const struct simba_reply *reply)
{
    int64_t now_ms = simba_now_ms();
    bool away = is_away(s, now_ms);
    bool refused = reply->code == SIMBA_EINVAL; /* the name, which no waiting heals */
    enum simba_log_level level = away || refused ? SIMBA_LOG_ERROR : SIMBA_LOG_WARN;
    bool warn;

    pthread_mutex_lock(&s->engine->rest_lock);
    if (s->last_error == NULL)
        s->last_error = sb_alloc_zero(sizeof *s->last_error);
    warn = s->last_error == NULL || s->last_error->code != reply->code ||
           now_ms - s->warned_at_ms >= WARN_INTERVAL_MS || away != s->away_told;
    s->away_told = away;
    if (warn)
        s->warned_at_ms = now_ms;
    if (s->last_error != NULL) {
        if (reply->error != NULL)
            *s->last_error = *reply->error;
        else
            sb_error_plain(s->last_error, reply->code);
        s->last_error->code = reply->code;
    }
    pthread_mutex_unlock(&s->engine->rest_lock);
    sb_log(&s->engine->log, warn ? level : SIMBA_LOG_DEBUG, "mutex '%s': cannot %s%s: %s",
           s->member.mutex, op_name(wire), away ? " for longer than a lease" : "",
           reply->error != NULL ? reply->error->text : simba_strerror(reply->code));
}

/* Only the loop makes one, so that without the lock it can see that there is none. The first failure was warned of;
 * its end is told on the same level, so that it stands in every log that has the warning, unless a stop has asked. */
static void forget_error(struct sb_service *s)
{
    if (s->failing_since_ms != 0 && simba_status_is_active(atomic_load(&s->status)))
        sb_log(&s->engine->log, SIMBA_LOG_WARN, "mutex '%s': the store answers again",
               s->member.mutex);
    s->failing_since_ms = 0;
    s->away_told = false;
    if (s->last_error == NULL)
        return;
    pthread_mutex_lock(&s->engine->rest_lock);
    s->last_error->code = SIMBA_OK;
    pthread_mutex_unlock(&s->engine->rest_lock);
}

static void count_answer(struct sb_service *s, const struct sb_event *e,
                         const struct simba_request *wire)
{
    struct sb_metrics *metrics = &s->engine->metrics;

    if (e->op == SIMBA_OP_GUARD && e->answer == SB_ANSWER_MINE)
        sb_metrics_count(&metrics->renewals);
    if (e->op == SIMBA_OP_RELEASE && wire->revision != 0 && e->code == SIMBA_OK &&
        e->answer != SB_ANSWER_MINE && !e->missed)
        sb_metrics_count(&metrics->releases);
}

/* A lease of ours without a revision could be neither fenced nor released: nobody knows what the store has. */
static void refuse_without_revision(const struct sb_service *s, struct simba_reply *reply)
{
    static const struct simba_error error = {
        .code = SIMBA_EUNKNOWN,
        .text = "the store names this contender as the owner and tells no revision"};

    if (answer_of(s, reply) != SB_ANSWER_MINE || reply->revision != 0)
        return;
    reply->code = SIMBA_EUNKNOWN;
    reply->error = &error;
}

/* Makes the name of the owner that is told. Where there is no memory to remember it, it was not told. */
static void take_owner(const struct sb_service *s, enum simba_op op, struct simba_reply *reply,
                       struct sb_name **ret_name)
{
    enum sb_answer answer = answer_of(s, reply);
    bool has_owner = answer == SB_ANSWER_MINE || answer == SB_ANSWER_OTHER;

    if (has_owner && !sb_rest_make_name(&s->rest, reply->owner, ret_name))
        sb_engine_drop_owner(op, reply);
}

static void on_answered(struct sb_request *base, const struct simba_reply *reply)
{
    struct service_request *request = (struct service_request *)base;
    struct sb_service *s = request->service;
    struct simba_reply told = *reply;
    struct sb_name *name = NULL;
    struct sb_event event = {
        .type = SB_EVENT_REPLY,
        .now_ms = base->answered_at_us / 1000,
        .generation = request->generation,
        .op = base->wire.op,
        .named = base->wire.fence,
        .sent_at_ms = reply->as_of_ms != 0 ? reply->as_of_ms : base->sent_at_ms,
        .ttl_left_ms = reply->ttl_left_ms,
        .transition_left_ms = reply->transition_left_ms,
        .revision = reply->revision,
        .revision_counts = reply->revision_counts,
        .fence = reply->fence,
        .place = reply->place,
        .missed = reply->missed,
    };

    refuse_without_revision(s, &told);
    take_owner(s, base->wire.op, &told, &name);
    event.answer = answer_of(s, &told);
    event.code = told.code;
    event.owner = told.owner;
    if (told.code != SIMBA_OK)
        keep_error(s, &base->wire, &told);
    else
        forget_error(s);
    count_answer(s, &event, &base->wire);
    drive(s, &event, name, base->answered_at_us);
    sb_free(request);
    sb_service_drop(s);
}

static void send_request(struct sb_service *s, const struct sb_step *step, int64_t now_us)
{
    const struct sb_timing *timing = sb_service_timing(s);
    struct service_request *request = sb_alloc_zero(sizeof *request);

    if (request == NULL) {
        struct sb_event event = {
            .type = SB_EVENT_REPLY,
            .now_ms = now_us / 1000,
            .generation = step->request.generation,
            .op = step->request.op,
            .answer = SB_ANSWER_FAILED,
            .code = SIMBA_ENOMEM,
        };
        drive(s, &event, NULL, now_us);
        return;
    }
    request->service = s;
    request->generation = step->request.generation;
    request->base.answered = on_answered;
    request->base.wire.op = step->request.op;
    request->base.wire.mutex = s->member.mutex;
    request->base.wire.id = s->member.id;
    request->base.wire.ttl_ms = timing->ttl_ms;
    request->base.wire.transition_ms = timing->transition_ms;
    request->base.wire.revision = step->request.revision;
    request->base.wire.fence = step->request.fence;
    request->base.wire.timeout_ms = step->request.timeout_ms;
    request->base.wire.asks_place = timing->turn_ms > 0 && step->request.op == SIMBA_OP_ACQUIRE;
    sb_service_hold(s);
    sb_engine_send_as_of(s->engine, &request->base, now_us);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* Why a term ended without a stop. The machine ends a belief that has run out before it takes the event in.
 * `belief_ms` is what it was before the step. */
static const char *loss_reason(const struct sb_event *event, int64_t belief_ms)
{
    if (event->now_ms >= belief_ms)
        return "it was not renewed in time";
    if (event->type == SB_EVENT_SESSION_LOST)
        return "its session on the store is over";
    if (event->answer == SB_ANSWER_MINE)
        return "a contender with the same id has acquired it";
    if (event->answer == SB_ANSWER_OTHER)
        return "another contender owns it now";
    return "the store has no lease of it any more";
}

static void log_loss(struct sb_service *s, const struct sb_event *event, int64_t belief_ms)
{
    sb_log(&s->engine->log, SIMBA_LOG_ERROR, "mutex '%s': %s lost the lease: %s", s->member.mutex,
           s->member.id, loss_reason(event, belief_ms));
}

static void count_step(struct sb_service *s, const struct sb_event *event,
                       const struct sb_step *step, int64_t belief_ms, int64_t now_us)
{
    struct sb_metrics *metrics = &s->engine->metrics;

    if (step->acquired) {
        sb_metrics_count(&metrics->acquisitions);
        sb_metrics_count(&metrics->owned);
        sb_metrics_observe(&metrics->contention, now_us - s->contest_at_us);
        sb_log(&s->engine->log, SIMBA_LOG_INFO, "mutex '%s': %s owns, token %llu", s->member.mutex,
               s->member.id, (unsigned long long)step->state.after.fence);
    }
    if (step->released) {
        sb_metrics_uncount(&metrics->owned);
        s->contest_at_us = now_us;
        if (event->type == SB_EVENT_STOP) {
            sb_log(&s->engine->log, SIMBA_LOG_INFO, "mutex '%s': %s gives it up", s->member.mutex,
                   s->member.id);
        } else {
            sb_metrics_count(&metrics->losses);
            log_loss(s, event, belief_ms);
        }
    }
    if (step->stopped && step->stop_code == SIMBA_ELOST) {
        sb_metrics_count(&metrics->losses);
        sb_log(
            &s->engine->log, SIMBA_LOG_ERROR,
            "mutex '%s': %s lost the lease before it gave it up: another may have owned meanwhile",
            s->member.mutex, s->member.id);
    }
}

static void set_listening(struct sb_service *s, bool on)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    if (s->listening == on)
        return;
    s->listening = on;
    if (ops->listen != NULL)
        ops->listen(s->engine->backend, s->member.mutex, s->member.id, on);
}

bool sb_service_hears_changes(const struct sb_service *s)
{
    return is_observer(s) || s->following;
}

/* To the store it is then one of the observers of the mutex. */
static void set_following(struct sb_service *s, bool on)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    if (s->following == on || ops->listen == NULL)
        return;
    s->following = on;
    ops->listen(s->engine->backend, s->member.mutex, NULL, on);
}

/* A contender with on_notify is told of changes from the first attempt that it has lost until it stops. One that wins
 * at once costs the store nothing more. */
static bool begins_to_follow(const struct sb_service *s, const struct sb_event *event)
{
    return s->calls.on_notify != NULL && !is_observer(s) && s->listening && !s->following &&
           s->engine->ops->listen != NULL && event->type == SB_EVENT_REPLY &&
           event->op == SIMBA_OP_ACQUIRE && event->answer == SB_ANSWER_OTHER;
}

static void on_stopped(struct sb_service *s, int code)
{
    struct sb_engine *engine = s->engine;

    set_following(s, false);
    set_listening(s, false);
    if (!is_observer(s))
        sb_metrics_uncount(&engine->metrics.contenders);
    if (s->close_when_stopped)
        sb_loop_post(engine->loop, &s->close_task);
    pthread_mutex_lock(&engine->lock);
    s->stop_code = code;
    s->stops++;
    atomic_store_explicit(&s->status, SIMBA_INITIAL, memory_order_release);
    pthread_cond_broadcast(&engine->progress);
    pthread_mutex_unlock(&engine->lock);
}

/* Returns how many changes will have no callback of their own. A term whose beginning calls nobody counts as told.
 * *ret_dropped: whether one of them should have had. */
static unsigned keep_report(struct sb_service *s, const struct sb_step *step,
                            struct sb_report *report, bool *ret_dropped)
{
    unsigned untold;

    sb_rest_wake_report(&s->rest, report);
    untold = sb_report_keep(report, step);
    if (!is_heard(s, report) && report->pending && (report->acquired || report->released))
        s->told = report->acquired;
    *ret_dropped = step->stopped && report->pending && !s->muted && is_heard(s, report);
    if (step->stopped || !is_heard(s, report))
        untold += sb_report_drop(report);
    return untold;
}

/* Steps the machine. Returns as above. */
static unsigned step_machine(struct sb_service *s, const struct sb_event *event,
                             struct sb_name *name, struct sb_step *step, bool *ret_dropped)
{
    struct sb_report report;
    union sb_mind mind;
    unsigned untold;
    bool reports;

    sb_rest_wake(&s->rest, &mind);
    if (is_observer(s))
        sb_observer_step(&mind.observer, event, step);
    else
        sb_machine_step(&mind.contender, event, step);
    show(s, &mind);
    reports = step->changed || step->renewed || s->rest.pending;
    *ret_dropped = false;
    untold = reports ? keep_report(s, step, &report, ret_dropped) : 0;
    if (step->stopped) {
        s->ends++;
        s->told = false;
    }
    sb_rest_lay(&s->rest, &mind, reports ? &report : NULL, name);
    if (step->confirmed)
        sb_rest_confirm(&s->rest);
    return untold;
}

/* One step and all that it asks for. `name` was made for the event's owner, where it has one; `now_us` is the event's
 * time. */
static void drive(struct sb_service *s, const struct sb_event *event, struct sb_name *name,
                  int64_t now_us)
{
    struct sb_step step;
    unsigned untold;
    bool dropped;
    bool report;
    int64_t belief_ms = atomic_load_explicit(&s->belief_ms, memory_order_acquire);

    pthread_mutex_lock(&s->engine->rest_lock);
    untold = step_machine(s, event, name, &step, &dropped);
    report = s->rest.pending && !s->report_queued;
    s->report_queued |= report;
    pthread_mutex_unlock(&s->engine->rest_lock);

    count_step(s, event, &step, belief_ms, now_us);
    if (dropped)
        sb_log(&s->engine->log, SIMBA_LOG_ERROR,
               "mutex '%s': a callback of %s is dropped: its stop was given up", s->member.mutex,
               is_observer(s) ? "an observer" : s->member.id);
    sb_loop_arm(s->engine->loop, &s->timer, step.deadline_ms);
    if (report)
        sb_service_call(s, &s->report_call);
    if (s->calls.hook != NULL)
        s->calls.hook(s->calls.user, s, event, &step);
    if (step.request.op != SIMBA_OP_NONE)
        send_request(s, &step, now_us);
    if (untold > 0) {
        struct sb_event returned = {
            .type = SB_EVENT_RETURNED, .now_ms = event->now_ms, .returned = untold};
        drive(s, &returned, NULL, now_us);
    }
    if (step.stopped)
        on_stopped(s, step.stop_code);
    if (begins_to_follow(s, event)) {
        set_following(s, true);
        drive_plain(s, SB_EVENT_CHANGED, now_us); /* what came before that went unheard */
    }
}

static void drive_plain(struct sb_service *s, enum sb_event_type type, int64_t now_us)
{
    struct sb_event event = {.type = type, .now_ms = now_us / 1000};

    drive(s, &event, NULL, now_us);
}

void sb_service_event(struct sb_service *s, enum sb_event_type type)
{
    drive_plain(s, type, sb_clock_us());
}

static void on_timer(struct sb_timer *timer)
{
    sb_service_event(SB_CONTAINER(struct sb_service, timer, timer), SB_EVENT_TICK);
}

static void run_returned(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, returned_task, task);
    int64_t now_us = sb_clock_us();
    struct sb_event event = {.type = SB_EVENT_RETURNED, .now_ms = now_us / 1000};

    event.returned = atomic_exchange(&s->returned, 0);
    drive(s, &event, NULL, now_us);
    sb_service_drop(s);
}

/* ---- The ends of a contest ------------------------------------------------------------------ */

static void begin_contest(struct sb_service *s, int64_t now_us)
{
    set_listening(s, true);
    drive_plain(s, SB_EVENT_START, now_us);
}

void sb_service_begin_waiting(struct sb_service *s)
{
    if (!s->start_waits)
        return;
    s->start_waits = false;
    begin_contest(s, sb_clock_us());
}

static void run_start(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, start_task, task);

    if (!is_observer(s))
        sb_metrics_count(&s->engine->metrics.contenders);
    s->contest_at_us = sb_clock_us();
    s->failing_since_ms = 0;
    s->away_told = false;
    pthread_mutex_lock(&s->engine->rest_lock);
    sb_rest_forget(&s->rest);
    pthread_mutex_unlock(&s->engine->rest_lock);
    if (!s->awaited && sb_engine_is_busy(s->engine))
        sb_engine_line_up(s->engine, s);
    else
        begin_contest(s, s->contest_at_us);
}

/* A service that waits in line has asked for nothing, and its machine has not begun: there is nothing to end there. */
static void run_stop(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, stop_task, task);

    if (!s->start_waits) {
        sb_service_event(s, SB_EVENT_STOP);
        return;
    }
    s->start_waits = false;
    on_stopped(s, SIMBA_OK);
    sb_engine_move_line(s->engine);
}

void sb_service_init_driving(struct sb_service *s)
{
    s->timer.fire = on_timer;
    s->report_call.run = run_report;
    s->returned_task.run = run_returned;
    s->start_task.run = run_start;
    s->stop_task.run = run_stop;
}
