/*
 * service_step.c - steps a service's machine and does what each step asks for: requests, reports,
 * deadlines, the end of a stop. See the driver's duties in core/machine.h.
 *
 * All of it happens on the loop thread. The lock of the engine's services lets other threads copy
 * what the machine knows; it is never held while anything foreign runs.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/probe.h"
#include "base/time.h"
#include "runtime/shared_reads.h"

/* Called after every step with the lock held. STARTING turns into RUNNING only where no stop has
 * come in between; the end of a stop is shown when all is done. */
static void show(struct sb_service *s, const union sb_any_machine *machine)
{
    const struct sb_machine *m = &machine->contender;
    int starting = SIMBA_STARTING;
    enum simba_status status = sb_service_is_observer(s) ? machine->observer.status : m->status;

    SB_CHECK(sb_lock_is_mine(&s->engine->state_lock), "a step is shown with the lock held");
    if (!sb_service_is_observer(s)) {
        atomic_store_explicit(&s->handle->view.fence, sb_machine_fence(m), memory_order_release);
        atomic_store_explicit(&s->handle->view.ttl_ms, sb_machine_ttl_ms(m), memory_order_release);
        atomic_store_explicit(&s->handle->view.belief_ms, sb_machine_belief_ms(m),
                              memory_order_release);
    }
    if (status == SIMBA_RUNNING)
        atomic_compare_exchange_strong(&s->handle->view.status, &starting, SIMBA_RUNNING);
}

/* ---- Requests -------------------------------------------------------------------------------- */

struct service_request {
    struct sb_request base; /* first */
    struct sb_service *service;
    uint32_t generation;
};

static void step_with(struct sb_service *s, const struct sb_event *event, struct sb_name *name,
                      int64_t now_us);
static void step_at(struct sb_service *s, enum sb_event_type type, int64_t now_us);

static void on_answered(struct sb_request *base, const struct simba_reply *reply)
{
    struct service_request *request = (struct service_request *)base;
    struct sb_service *s = request->service;
    struct simba_reply told = *reply;
    struct sb_name *name = NULL;
    struct sb_event event = sb_service_take_answer(s, base, request->generation, &told, &name);

    step_with(s, &event, name, base->answered_at_us);
    sb_free(request);
    sb_service_drop(s);
}

/* Whether nobody of the client but those for which the same thread waits would wait with it for the
 * store. */
static bool delays_no_other(const struct sb_service *s)
{
    size_t own = s->party != NULL ? *s->party : s->listening;

    SB_CHECK(own <= s->engine->listeners, "a service that listens counts for its engine");
    return own == s->engine->listeners;
}

/* A READ that is shared is the same for all that follow the mutex, so it names no contender. */
static void send_request(struct sb_service *s, const struct sb_step *step, int64_t now_us)
{
    bool shared = step->request.shared;
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
        step_with(s, &event, NULL, now_us);
        return;
    }
    SB_CHECK(step->request.op == SIMBA_OP_READ || !sb_service_is_observer(s),
             "an observer only reads");
    SB_CHECK(step->request.timeout_ms > 0, "a request has time");
    SB_CHECK(!shared || step->request.revision == 0, "a READ that is shared names no record");
    request->service = s;
    request->generation = step->request.generation;
    request->base.answered = on_answered;
    request->base.wire.op = step->request.op;
    request->base.wire.mutex = s->member.mutex;
    request->base.wire.id = shared ? NULL : s->member.id;
    request->base.wire.ttl_ms = timing->ttl_ms;
    request->base.wire.transition_ms = timing->transition_ms;
    request->base.wire.revision = step->request.revision;
    request->base.wire.fence = step->request.fence;
    request->base.wire.timeout_ms = step->request.timeout_ms;
    request->base.wire.asks_place = timing->turn_ms > 0 && step->request.op == SIMBA_OP_ACQUIRE;
    request->base.wire.reserve_ms = timing->reserve_ms;
    request->base.wire.delays_no_other = delays_no_other(s);
    sb_service_hold(s);
    if (!shared || !sb_reads_join(s->engine->reads, &request->base))
        sb_request_send_as_of(s->engine, &request->base, now_us);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Why a term ended without a stop. The machine ends a belief that has run out before it takes the
 * event in. `belief_ms` is what it was before the step. */
static enum sb_loss loss_reason(const struct sb_event *event, int64_t belief_ms)
{
    if (event->now_ms >= belief_ms)
        return SB_LOSS_NOT_RENEWED;
    if (event->type == SB_EVENT_SESSION_LOST)
        return SB_LOSS_SESSION;
    if (event->answer == SB_ANSWER_MINE)
        return SB_LOSS_SAME_ID;
    return event->answer == SB_ANSWER_OTHER ? SB_LOSS_TAKEN : SB_LOSS_NO_LEASE;
}

static void tell_loss(struct sb_service *s, enum sb_loss why)
{
    static const char *const sentences[SB_LOSSES] = {
        [SB_LOSS_NOT_RENEWED] = "it was not renewed in time",
        [SB_LOSS_SESSION] = "its session on the store is over",
        [SB_LOSS_SAME_ID] = "a contender with the same id has acquired it",
        [SB_LOSS_TAKEN] = "another contender owns it now",
        [SB_LOSS_NO_LEASE] = "the store has no lease of it any more",
    };

    sb_metrics_count(&s->engine->metrics.losses[why]);
    sb_log(&s->engine->log, SIMBA_LOG_ERROR, "mutex '%s': %s lost the lease: %s", s->member.mutex,
           s->member.id, sentences[why]);
}

static void count_step(struct sb_service *s, const struct sb_event *event,
                       const struct sb_step *step, int64_t belief_ms, int64_t now_us)
{
    struct sb_metrics *metrics = &s->engine->metrics;

    if (step->acquired) {
        sb_metrics_count(&metrics->acquisitions);
        sb_metrics_count(&metrics->owned);
        sb_metrics_observe(&metrics->contention, now_us - s->phase_at_us);
        s->phase_at_us = now_us;
        SB_PROBE(acquire, s->member.mutex, s->member.id, step->state.after.fence);
        sb_log(&s->engine->log, SIMBA_LOG_INFO, "mutex '%s': %s owns, token %llu", s->member.mutex,
               s->member.id, (unsigned long long)step->state.after.fence);
    }
    SB_CHECK(!(step->acquired || step->released) || !sb_service_is_observer(s),
             "an observer never owns");
    if (step->released) {
        sb_metrics_uncount(&metrics->owned);
        sb_metrics_observe(&metrics->hold, now_us - s->phase_at_us);
        s->phase_at_us = now_us;
        if (event->type == SB_EVENT_STOP) {
            SB_PROBE(release, s->member.mutex, s->member.id, step->state.before.fence);
            sb_log(&s->engine->log, SIMBA_LOG_INFO, "mutex '%s': %s releases it", s->member.mutex,
                   s->member.id);
        } else {
            enum sb_loss why = loss_reason(event, belief_ms);
            SB_PROBE(lose, s->member.mutex, s->member.id, step->state.before.fence,
                     sb_metrics_losses[why]);
            tell_loss(s, why);
        }
    }
    if (step->stopped && step->stop_code == SIMBA_ELOST) {
        sb_metrics_count(&metrics->losses[SB_LOSS_AT_RELEASE]);
        SB_PROBE(lose, s->member.mutex, s->member.id, (uint64_t)0,
                 sb_metrics_losses[SB_LOSS_AT_RELEASE]);
        sb_log(&s->engine->log, SIMBA_LOG_ERROR,
               "mutex '%s': %s lost the lease before it released it: another contender may have "
               "owned meanwhile",
               s->member.mutex, s->member.id);
    }
}

static void count_listener(size_t *listeners, bool on)
{
    SB_CHECK(on || *listeners > 0, "a listener that leaves has come before");
    *listeners = on ? *listeners + 1 : *listeners - 1;
}

static void set_listening(struct sb_service *s, bool on)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    if (s->listening == on)
        return;
    SB_CHECK(sb_loop_is_current(s->engine->loop),
             "a store is told of listeners on the loop thread");
    SB_CHECK(on || !s->following, "a service that listens no more does not follow");
    s->listening = on;
    count_listener(&s->engine->listeners, on);
    if (s->party != NULL)
        count_listener(s->party, on);
    if (ops->listen != NULL)
        ops->listen(s->engine->backend, s->member.mutex, s->member.id, on);
}

/* A store that was not open has not heard of it. */
void sb_service_introduce(struct sb_service *s)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    SB_CHECK(sb_loop_is_current(s->engine->loop), "services are introduced on the loop thread");
    if (s->listening && ops->listen != NULL)
        ops->listen(s->engine->backend, s->member.mutex, s->member.id, true);
}

bool sb_service_hears_changes(const struct sb_service *s)
{
    return sb_service_is_observer(s) || s->following;
}

/* To the store it is then one of the observers of the mutex. */
static void set_following(struct sb_service *s, bool on)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    if (s->following == on || ops->listen == NULL)
        return;
    SB_CHECK(sb_loop_is_current(s->engine->loop), "followers change on the loop thread");
    SB_CHECK(s->listening && !sb_service_is_observer(s), "a contender that listens follows");
    s->following = on;
    ops->listen(s->engine->backend, s->member.mutex, NULL, on);
}

void sb_service_follow(struct sb_service *s)
{
    if (s->listening)
        set_following(s, true);
}

/* A contender with on_notify is told of changes from the first attempt that it has lost until it
 * stops. One that wins at once costs the store nothing more. */
static bool begins_to_follow(const struct sb_service *s, const struct sb_event *event)
{
    return s->calls.on_notify != NULL && !sb_service_is_observer(s) && s->listening &&
           !s->following && s->engine->ops->listen != NULL && event->type == SB_EVENT_REPLY &&
           event->op == SIMBA_OP_ACQUIRE && event->answer == SB_ANSWER_OTHER;
}

static void on_stopped(struct sb_service *s, int code)
{
    struct sb_engine *engine = s->engine;

    SB_CHECK(!s->start.waits, "a service that has stopped does not wait to start");
    SB_CHECK(atomic_load(&s->handle->view.status) == SIMBA_STOPPING, "a contest ends by a stop");
    set_following(s, false);
    set_listening(s, false);
    if (!sb_service_is_observer(s))
        sb_metrics_uncount(&engine->metrics.contenders);
    if (s->close_when_stopped)
        sb_loop_post(engine->loop, &s->close_task);
    sb_lock_take(&engine->lock);
    s->stop_code = code;
    s->stops++;
    atomic_store_explicit(&s->handle->view.status, SIMBA_INITIAL, memory_order_release);
    pthread_cond_broadcast(&engine->progress);
    sb_lock_release(&engine->lock);
    if (s->calls.hooks->stopped != NULL)
        s->calls.hooks->stopped(s->handle->object, code);
}

/* Steps the machine. Returns how many changes get no callback of their own, as
 * sb_service_keep_report. */
static unsigned step_machine(struct sb_service *s, const struct sb_event *event,
                             struct sb_name *name, struct sb_step *step, bool *ret_dropped)
{
    struct sb_report report;
    union sb_any_machine machine;
    unsigned untold;
    bool reports;

    sb_packed_get_machine(&s->packed, sb_service_timing(s), &machine);
    if (sb_service_is_observer(s))
        sb_observer_step(&machine.observer, event, step);
    else
        sb_machine_step(&machine.contender, event, step);
    show(s, &machine);
    reports = step->changed || step->renewed || s->packed.pending;
    *ret_dropped = false;
    untold = reports ? sb_service_keep_report(s, step, &report, ret_dropped) : 0;
    SB_CHECK(untold == 0 || step->changed || step->renewed || step->stopped,
             "only what a step brings goes untold");
    if (step->stopped) {
        s->ends++;
        s->told = false;
    }
    sb_packed_set(&s->packed, &machine, reports ? &report : NULL, name);
    if (step->confirmed)
        sb_packed_confirm(&s->packed);
    return untold;
}

/* One step and all that it asks for. `name` was made for the event's owner, where it has one;
 * `now_us` is the event's time. */
static void step_with(struct sb_service *s, const struct sb_event *event, struct sb_name *name,
                      int64_t now_us)
{
    struct sb_step step;
    unsigned untold;
    bool dropped;
    bool report;
    int64_t belief_ms = atomic_load_explicit(&s->handle->view.belief_ms, memory_order_acquire);

    SB_CHECK(sb_loop_is_current(s->engine->loop), "a machine is stepped on the loop thread");
    sb_lock_take(&s->engine->state_lock);
    untold = step_machine(s, event, name, &step, &dropped);
    report = s->packed.pending && !s->report_queued;
    s->report_queued |= report;
    sb_lock_release(&s->engine->state_lock);

    count_step(s, event, &step, belief_ms, now_us);
    if (dropped)
        sb_log(&s->engine->log, SIMBA_LOG_ERROR,
               "mutex '%s': a callback of %s is dropped: its stop was given up", s->member.mutex,
               sb_service_is_observer(s) ? "an observer" : s->member.id);
    sb_loop_arm(s->engine->loop, &s->timer, step.deadline_ms);
    if (s->calls.hooks->stepped != NULL)
        s->calls.hooks->stepped(s->handle->object, s, event, &step);
    if (report)
        sb_service_call(s, &s->report_call);
    if (step.request.op != SIMBA_OP_NONE)
        send_request(s, &step, now_us);
    if (untold > 0) {
        struct sb_event returned = {
            .type = SB_EVENT_RETURNED, .now_ms = event->now_ms, .returned = untold};
        step_with(s, &returned, NULL, now_us);
    }
    if (step.stopped)
        on_stopped(s, step.stop_code);
    if (begins_to_follow(s, event)) {
        set_following(s, true);
        step_at(s, SB_EVENT_CHANGED, now_us); /* what came before that went unheard */
    }
}

static void step_at(struct sb_service *s, enum sb_event_type type, int64_t now_us)
{
    struct sb_event event = {.type = type, .now_ms = now_us / 1000};

    step_with(s, &event, NULL, now_us);
}

void sb_service_event(struct sb_service *s, enum sb_event_type type)
{
    step_at(s, type, sb_clock_us());
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
    SB_CHECK(event.returned > 0, "a task that tells of callbacks has some to tell of");
    step_with(s, &event, NULL, now_us);
    sb_service_drop(s);
}

/* ---- Starts and stops ------------------------------------------------------------------------ */

static void begin_contest(struct sb_service *s, int64_t now_us)
{
    SB_CHECK(!s->start.waits && !s->listening, "a contest begins once");
    set_listening(s, true);
    step_at(s, SB_EVENT_START, now_us);
}

void sb_service_begin_queued(struct sb_start *start)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, start, start);

    SB_CHECK(!start->is_queued, "a start begins when it has left the queue");
    if (start->waits) {
        start->waits = false;
        begin_contest(s, sb_clock_us());
    }
    sb_service_drop(s);
}

/* It may still be in the queue since an earlier start, which a stop has ended. */
static void queue_start(struct sb_service *s)
{
    SB_CHECK(!s->listening, "a start that waits has not begun");
    SB_CHECK(!s->awaited, "a start that a thread waits for does not queue");
    s->start.waits = true;
    if (s->start.is_queued)
        return;
    sb_service_hold(s);
    sb_starts_add(&s->engine->starts, &s->start);
}

static void run_start(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, start_task, task);

    SB_CHECK(atomic_load(&s->handle->view.status) != SIMBA_INITIAL,
             "a start has moved the status before");
    SB_CHECK(!s->start.waits && !s->listening, "a start follows the end of the contest before");
    if (!sb_service_is_observer(s))
        sb_metrics_count(&s->engine->metrics.contenders);
    s->phase_at_us = sb_clock_us();
    s->failing_since_ms = 0;
    s->away_told = false;
    sb_lock_take(&s->engine->state_lock);
    sb_packed_forget(&s->packed);
    sb_lock_release(&s->engine->state_lock);
    if (!s->awaited && sb_starts_are_held_up(&s->engine->starts))
        queue_start(s);
    else
        begin_contest(s, s->phase_at_us);
}

/* A start that waits in the queue has asked for nothing, and its machine has not begun: there is
 * nothing to end there. */
static void run_stop(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, stop_task, task);

    SB_CHECK(atomic_load(&s->handle->view.status) == SIMBA_STOPPING,
             "a stop has moved the status before");
    if (!s->start.waits) {
        int64_t now_us = sb_clock_us();
        struct sb_event event = {.type = SB_EVENT_STOP, .now_ms = now_us / 1000};

        sb_lock_take(&s->engine->lock);
        event.leaves = s->leaves;
        sb_lock_release(&s->engine->lock);
        step_with(s, &event, NULL, now_us);
        return;
    }
    s->start.waits = false;
    on_stopped(s, SIMBA_OK);
    sb_starts_begin_next(&s->engine->starts);
}

void sb_service_init_steps(struct sb_service *s)
{
    s->timer.fire = on_timer;
    s->returned_task.run = run_returned;
    s->start_task.run = run_start;
    s->stop_task.run = run_stop;
}
