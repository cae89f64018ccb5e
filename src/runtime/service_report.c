/*
 * service_report.c - decides which callbacks of the application a service calls, and calls them.
 *
 * What a step has changed waits in the report, under the lock of the engine's services. A call on
 * the service's queue takes it and calls back, away from the loop.
 */
#include "runtime/service_state.h"

#include "base/check.h"
#include "base/container.h"

/* ---- Who is called --------------------------------------------------------------------------- */

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

/* What calls nobody need not travel to a thread and back, while a release waits for it. Callbacks
 * that are running are not overtaken: the machine counts those that have returned, and waits for
 * all. */
static bool is_heard(const struct sb_service *s, const struct sb_report *report)
{
    return calls_notify(s, report) || calls_acquired(s, report) || calls_released(s, report) ||
           calls_renewed(s, report);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

/* Each callback is decided by itself, at the moment when it would begin: the one before it may have
 * taken long. With the lock held. `ends` is what it was when the report was taken. */
static bool may_begin(const struct sb_service *s, unsigned ends)
{
    return !s->muted && s->ends == ends;
}

/* A term that is over, or that a stop has begun to end, is not told; then its end is not told
 * either. */
static bool begin_acquired(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->state_lock);
    begin = report->acquired && may_begin(s, ends) && !s->told && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->fence, memory_order_acquire) == report->state.after.fence;
    s->told |= begin;
    pthread_mutex_unlock(&s->engine->state_lock);
    return begin && s->calls.on_acquired != NULL;
}

static bool begin_released(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->state_lock);
    begin = report->released && may_begin(s, ends) && s->told;
    s->told &= !begin;
    pthread_mutex_unlock(&s->engine->state_lock);
    return begin && s->calls.on_released != NULL;
}

/* A heartbeat of a term that is over would be a lie. */
static bool begin_renewed(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    pthread_mutex_lock(&s->engine->state_lock);
    begin = calls_renewed(s, report) && may_begin(s, ends) && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->fence, memory_order_acquire) == report->state.after.fence;
    pthread_mutex_unlock(&s->engine->state_lock);
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

void sb_service_run_report(struct sb_call *call)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, report_call, call);
    struct sb_report report;
    bool notify;
    unsigned ends;

    pthread_mutex_lock(&s->engine->state_lock);
    SB_CHECK(s->report_queued, "a report that is told was put on the strand");
    report = sb_packed_take_report(&s->packed);
    s->report_queued = false;
    ends = s->ends;
    notify = report.pending && may_begin(s, ends) && calls_notify(s, &report);
    pthread_mutex_unlock(&s->engine->state_lock);
    if (!report.pending)
        return;
    sb_service_tell_times(s, &report.state.before);
    sb_service_tell_times(s, &report.state.after);
    if (notify)
        s->calls.on_notify(s->calls.user, &report.state);
    call_back(s, &report, ends);
    tell_returned(s);
}

/* ---- After a step ---------------------------------------------------------------------------- */

/* Returns how many changes will have no callback of their own. A term whose beginning calls nobody
 * counts as told. *ret_dropped: whether one of them should have had. */
unsigned sb_service_keep_report(struct sb_service *s, const struct sb_step *step,
                                struct sb_report *report, bool *ret_dropped)
{
    unsigned untold;

    sb_packed_get_report(&s->packed, report);
    SB_CHECK(report->pending || step->changed || step->renewed, "a report that is kept has news");
    untold = sb_report_keep(report, step);
    if (!is_heard(s, report) && report->pending && (report->acquired || report->released))
        s->told = report->acquired;
    *ret_dropped = step->stopped && report->pending && !s->muted && is_heard(s, report);
    if (step->stopped || !is_heard(s, report))
        untold += sb_report_drop(report);
    return untold;
}
