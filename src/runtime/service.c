/*
 * service.c - references to a service, what other threads may ask of it, and its callbacks.
 *
 * What a step has changed waits in the report, under the lock of the engine's services. A call on
 * the service's strand takes it and calls back, away from the loop.
 *
 * A service that is not closed has one reference; so do its handle with all its pins, each request
 * under way, a start that waits for its turn, a busy queue of callbacks, and a task in the inbox
 * that comes from there. The last one frees the service, on whatever thread.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/view.h"

#include <limits.h>
#include <string.h>

struct sb_service *sb_service_of_member(struct sb_member *member)
{
    return SB_CONTAINER(struct sb_service, member, member);
}

const struct sb_timing *sb_service_timing(const struct sb_service *s)
{
    return s->own_timing != NULL ? s->own_timing : &s->engine->timing;
}

void sb_service_free(struct sb_service *s)
{
    SB_CHECK(!s->start.is_queued, "a service is freed when it has left the queue of starts");
    SB_CHECK(!s->timer.armed, "a service is freed when its timer is off");
    SB_CHECK(!s->listening && !s->following, "a service is freed when it listens no more");
    SB_CHECK(atomic_load(&s->handle->view.status) == SIMBA_INITIAL,
             "a service is freed when it has stopped");
    sb_strand_end(&s->strand);
    sb_handle_free(s->handle);
    sb_packed_free(&s->packed);
    sb_free(s->own_timing);
    sb_free(s->failure);
    sb_free(s);
}

void sb_service_hold(struct sb_service *s)
{
    unsigned before = atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);

    SB_CHECK(before > 0, "a service that is held is alive");
}

void sb_service_drop(struct sb_service *s)
{
    struct sb_engine *engine = s->engine;
    unsigned before = atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel);

    SB_CHECK(before > 0, "a reference to a service is dropped once");
    if (before > 1)
        return;
    s->calls.hooks->gone(s->handle->object);
    sb_service_free(s);
    sb_engine_pending_remove(engine);
}

void sb_service_unpin(struct sb_service *s)
{
    if (sb_handle_unpin(s->handle))
        sb_service_drop(s);
}

bool sb_service_begin_close(struct sb_service *s)
{
    return sb_engine_check_process(s->engine, NULL) == SIMBA_OK && sb_handle_begin_close(s->handle);
}

void *sb_service_handle(const struct sb_service *s)
{
    return sb_handle_value(s->handle);
}

/* ---- What other threads may ask -------------------------------------------------------------- */

enum simba_status sb_service_status(const struct sb_service *s)
{
    return sb_view_status(&s->handle->view);
}

int64_t sb_service_deadline_ms(const struct sb_service *s)
{
    return sb_view_deadline_ms(&s->handle->view);
}

bool sb_service_is_owner(const struct sb_service *s)
{
    return sb_view_is_owner(&s->handle->view);
}

int64_t sb_service_place(const struct sb_service *s)
{
    return sb_view_place(&s->handle->view);
}

uint64_t sb_service_fence(const struct sb_service *s)
{
    return sb_view_fence(&s->handle->view);
}

int64_t sb_service_window_ms(const struct sb_service *s)
{
    return sb_view_window_ms(&s->handle->view);
}

void sb_service_tell_times(const struct sb_service *s, struct simba_owner *owner)
{
    if (!s->engine->ops->has_sessions || owner->id[0] == '\0')
        return;
    owner->ttl_at_ms = SIMBA_INFINITE;
    owner->transition_at_ms = SIMBA_INFINITE;
}

/* In a child the lock may be held by a thread that is not there, so it is not touched. Before the
 * store has answered nobody is known; what the last life knew is gone. */
void sb_service_state(struct sb_service *s, struct simba_state *ret_state)
{
    const struct simba_state none = SIMBA_STATE_NONE;

    *ret_state = none;
    if (sb_engine_check_process(s->engine, NULL) != SIMBA_OK)
        return;
    sb_lock_take(&s->engine->state_lock);
    if (sb_service_status(s) != SIMBA_STARTING)
        sb_packed_state(&s->packed, ret_state);
    sb_lock_release(&s->engine->state_lock);
    sb_service_tell_times(s, &ret_state->before);
    sb_service_tell_times(s, &ret_state->after);
}

int sb_service_last_error(struct sb_service *s, struct simba_error *error)
{
    int code = sb_engine_check_process(s->engine, error);
    union sb_any_machine machine;

    if (code != SIMBA_OK)
        return code;
    sb_lock_take(&s->engine->state_lock);
    sb_packed_get_machine(&s->packed, sb_service_timing(s), &machine);
    code = sb_service_is_observer(s) ? machine.observer.last_code : machine.contender.last_code;
    if (code != SIMBA_OK && s->failure != NULL && s->failure->error.code == code && error != NULL)
        *error = s->failure->error;
    else
        sb_error_plain(error, code);
    sb_lock_release(&s->engine->state_lock);
    return code;
}

/* ---- For the library's own objects ----------------------------------------------------------- */

const char *sb_service_mutex(const struct sb_service *s)
{
    return s->member.mutex;
}

const char *sb_service_id(const struct sb_service *s)
{
    return s->member.id;
}

bool sb_service_is_inside(const struct sb_service *s)
{
    return sb_dispatcher_is_on(&s->strand);
}

bool sb_service_begin_thread(struct sb_service *s, const char *name)
{
    SB_CHECK(sb_loop_is_current(s->engine->loop), "a thread is begun on the loop thread");
    return sb_strand_begin_thread(&s->strand, name);
}

void sb_service_end_thread(struct sb_service *s)
{
    SB_CHECK(sb_loop_is_current(s->engine->loop), "a thread is ended on the loop thread");
    sb_strand_end_thread(&s->strand);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

void sb_service_strand_idle(struct sb_strand *strand)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, strand, strand);

    SB_CHECK(atomic_load(&s->references) > 0, "a busy strand holds its service");
    sb_service_drop(s);
}

void sb_service_call(struct sb_service *s, struct sb_call *call)
{
    sb_service_hold(s);
    if (!sb_dispatcher_call(&s->strand, call))
        sb_service_drop(s);
}

static bool is_same_strand(const struct sb_strand *strand, const void *argument)
{
    return strand == argument;
}

struct sb_help sb_service_help(const struct sb_service *s)
{
    return (struct sb_help){is_same_strand, &s->strand};
}

static bool is_same_mutex(const struct sb_strand *strand, const void *argument)
{
    const struct sb_service *s = SB_CONTAINER(struct sb_service, strand, strand);

    return strcmp(s->member.mutex, argument) == 0;
}

struct sb_help sb_service_help_mutex(const struct sb_service *s)
{
    return (struct sb_help){is_same_mutex, s->member.mutex};
}

/* ---- Which callbacks ------------------------------------------------------------------------- */

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

/* ---- Calling back ---------------------------------------------------------------------------- */

/* Each callback is decided by itself, at the moment when it would begin: the one before it may have
 * taken long. With the lock held. `ends` is what it was when the report was taken. */
static bool may_begin(const struct sb_service *s, unsigned ends)
{
    SB_CHECK(sb_lock_is_mine(&s->engine->state_lock), "a callback is decided with the lock held");
    SB_CHECK(s->ends - ends <= UINT_MAX / 2, "the count of ended stops only grows");
    return !s->muted && s->ends == ends;
}

/* A term that is over, or that a stop has begun to end, is not told; then its end is not told
 * either. */
static bool begin_acquired(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    sb_lock_take(&s->engine->state_lock);
    begin = report->acquired && may_begin(s, ends) && !s->told && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->handle->view.fence, memory_order_acquire) ==
                report->state.after.fence;
    SB_CHECK(!begin || report->state.after.fence != 0, "a term that is told has a token");
    s->told |= begin;
    sb_lock_release(&s->engine->state_lock);
    return begin && s->calls.on_acquired != NULL;
}

static bool begin_released(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    sb_lock_take(&s->engine->state_lock);
    begin = report->released && may_begin(s, ends) && s->told;
    s->told &= !begin;
    sb_lock_release(&s->engine->state_lock);
    return begin && s->calls.on_released != NULL;
}

/* A heartbeat of a term that is over would be a lie. */
static bool begin_renewed(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    bool begin;

    sb_lock_take(&s->engine->state_lock);
    begin = calls_renewed(s, report) && may_begin(s, ends) && sb_service_is_owner(s) &&
            atomic_load_explicit(&s->handle->view.fence, memory_order_acquire) ==
                report->state.after.fence;
    sb_lock_release(&s->engine->state_lock);
    return begin;
}

static void call_back(struct sb_service *s, const struct sb_report *report, unsigned ends)
{
    const struct sb_service_calls *c = &s->calls;

    SB_CHECK(sb_service_is_inside(s), "callbacks run on the strand");
    SB_CHECK(!(report->acquired && report->released),
             "a report tells of a win or of a loss, not both");
    if (report->acquired && c->hooks->before_acquired != NULL)
        c->hooks->before_acquired(s->handle->object);
    if (begin_acquired(s, report, ends))
        c->on_acquired(c->user, &report->state);
    if (begin_released(s, report, ends))
        c->on_released(c->user, &report->state);
    if (begin_renewed(s, report, ends))
        c->on_renewed(c->user, &report->state);
}

static void tell_returned(struct sb_service *s)
{
    SB_CHECK(sb_service_is_inside(s), "a callback returns on the strand");
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

    SB_CHECK(sb_service_is_inside(s), "callbacks run on the strand");
    sb_lock_take(&s->engine->state_lock);
    SB_CHECK(s->report_queued, "a report that is told was put on the strand");
    report = sb_packed_take_report(&s->packed);
    s->report_queued = false;
    ends = s->ends;
    notify = report.pending && may_begin(s, ends) && calls_notify(s, &report);
    sb_lock_release(&s->engine->state_lock);
    if (!report.pending)
        return;
    sb_service_tell_times(s, &report.state.before);
    sb_service_tell_times(s, &report.state.after);
    if (notify)
        s->calls.on_notify(s->calls.user, &report.state);
    call_back(s, &report, ends);
    tell_returned(s);
}

int sb_service_init_calls(struct sb_service *s)
{
    s->report_call.run = run_report;
    return sb_strand_init(&s->strand, s->engine->dispatcher);
}

/* ---- After a step ---------------------------------------------------------------------------- */

/* Returns how many changes will have no callback of their own. A term whose beginning calls nobody
 * counts as told. *ret_dropped: whether one of them should have had. */
unsigned sb_service_keep_report(struct sb_service *s, const struct sb_step *step,
                                struct sb_report *report, bool *ret_dropped)
{
    unsigned untold;

    SB_CHECK(sb_lock_is_mine(&s->engine->state_lock), "a report is kept with the lock held");
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
