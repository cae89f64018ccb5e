/*
 * service_lifecycle.c - creates services, starts, stops and closes them: what a thread of the
 * application asks for, and its wait for that.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/time.h"

#include <string.h>

/* ---- Start ----------------------------------------------------------------------------------- */

/* A move and the posting of its task are one under the lock: otherwise the stop of another thread
 * could reach the loop before the start that it ends. */
static int begin_start(struct sb_service *s, bool awaited, struct simba_error *error)
{
    struct sb_engine *engine = s->engine;
    int status = SIMBA_INITIAL;
    int code = sb_engine_check_process(engine, error);
    bool closing;
    bool moved;

    if (code != SIMBA_OK)
        return code;
    sb_lock_take(&engine->lock);
    closing = s->closing;
    moved = !closing &&
            atomic_compare_exchange_strong(&s->handle->view.status, &status, SIMBA_STARTING);
    if (moved) {
        s->awaited = awaited;
        sb_loop_push(engine->loop, &s->start_task);
    }
    sb_lock_release(&engine->lock);
    if (closing)
        return sb_error_set(error, SIMBA_ECLOSED, "cannot start '%s': it is being closed",
                            s->member.mutex);
    if (!moved)
        return sb_error_set(error, SIMBA_ESTATE, "cannot start '%s': it is %s, start needs %s",
                            s->member.mutex, simba_status_name((enum simba_status)status),
                            simba_status_name(SIMBA_INITIAL));
    return SIMBA_OK;
}

int sb_service_begin_start(struct sb_service *s, struct simba_error *error)
{
    return begin_start(s, true, error);
}

static int check_names(const struct sb_service *s, struct simba_error *error)
{
    const struct simba_backend_ops *ops = s->engine->ops;

    if (ops->check_names == NULL)
        return SIMBA_OK;
    return ops->check_names(s->engine->backend, s->member.mutex, s->member.id, error);
}

/* It is held meanwhile, because a callback of what begins here may close it. */
int sb_service_start(struct sb_service *s, struct simba_error *error)
{
    int code = sb_engine_check_process(s->engine, error);

    if (code == SIMBA_OK)
        code = check_names(s, error);
    if (code != SIMBA_OK)
        return code;
    sb_service_hold(s);
    code = begin_start(s, false, error);
    if (code == SIMBA_OK)
        sb_loop_wake_for_tasks(s->engine->loop);
    sb_service_drop(s);
    return code;
}

/* ---- Stop ------------------------------------------------------------------------------------ */

/* The caller wakes the loop or waits. */
static int begin_stop(struct sb_service *s, bool leaves, unsigned *ret_stops,
                      struct simba_error *error)
{
    struct sb_engine *engine = s->engine;
    int status = atomic_load(&s->handle->view.status);
    bool moved = false;

    sb_lock_take(&engine->lock);
    while (!moved && simba_status_is_active((enum simba_status)status))
        moved = atomic_compare_exchange_weak(&s->handle->view.status, &status, SIMBA_STOPPING);
    if (moved) {
        *ret_stops = s->stops;
        s->leaves = leaves;
        sb_loop_push(engine->loop, &s->stop_task);
    }
    sb_lock_release(&engine->lock);
    if (!moved)
        return sb_error_set(error, SIMBA_ESTATE, "cannot stop '%s': it is %s, stop needs %s",
                            s->member.mutex, simba_status_name((enum simba_status)status),
                            "STARTING or RUNNING");
    return SIMBA_OK;
}

struct stop_wait {
    struct sb_service *service;
    unsigned stops; /* that were complete before this one */
    int code;
};

static bool is_stopped(void *argument)
{
    struct stop_wait *wait = argument;

    SB_CHECK(sb_lock_is_mine(&wait->service->engine->lock),
             "a stop is asked for with the lock held");
    wait->code = wait->service->stop_code;
    return wait->service->stops != wait->stops;
}

static int wait_stopped(struct sb_service *s, unsigned stops)
{
    struct stop_wait wait = {.service = s, .stops = stops};
    struct sb_help help = sb_service_help(s);

    SB_CHECK(!sb_service_is_inside(s), "a callback does not wait for its own stop");
    sb_engine_wait_progress(s->engine, is_stopped, &wait, SIMBA_INFINITE, &help);
    return wait.code;
}

void sb_service_stop_soon(struct sb_service *s)
{
    unsigned stops;

    if (begin_stop(s, false, &stops, NULL) == SIMBA_OK) /* else it stops or has stopped already */
        sb_loop_wake_for_tasks(s->engine->loop);
}

int sb_service_begin_stop(struct sb_service *s, struct simba_error *error)
{
    unsigned stops;
    int code = sb_engine_check_process(s->engine, error);

    if (code == SIMBA_OK)
        code = begin_stop(s, false, &stops, error);
    if (code == SIMBA_OK)
        sb_loop_wake_for_tasks(s->engine->loop);
    return code;
}

static int explain_stop(const struct sb_service *s, int code, struct simba_error *error)
{
    if (code == SIMBA_ETIMEDOUT)
        return sb_error_set(error, code,
                            "the stop of '%s' was given up: a callback has not returned or the "
                            "store has not answered; what is left on the store expires by itself",
                            s->member.mutex);
    if (code == SIMBA_ELOST)
        return sb_error_set(
            error, code,
            "'%s' was lost before it was released: another contender may have owned it meanwhile",
            s->member.mutex);
    if (code != SIMBA_OK)
        return sb_error_set(error, code, "'%s' was stopped, but the store could not be told: %s",
                            s->member.mutex, simba_strerror(code));
    return SIMBA_OK;
}

/* It is held meanwhile, because on_released may close it. */
static int stop(struct sb_service *s, bool leaves, struct simba_error *error)
{
    unsigned stops;
    int code = sb_engine_check_process(s->engine, error);

    if (code != SIMBA_OK)
        return code;
    sb_service_hold(s);
    code = begin_stop(s, leaves, &stops, error);
    if (code == SIMBA_OK && sb_dispatcher_is_on(&s->strand))
        sb_loop_wake_for_tasks(s->engine->loop);
    else if (code == SIMBA_OK)
        code = explain_stop(s, wait_stopped(s, stops), error);
    sb_service_drop(s);
    return code;
}

int sb_service_stop(struct sb_service *s, struct simba_error *error)
{
    return stop(s, false, error);
}

int sb_service_leave(struct sb_service *s, struct simba_error *error)
{
    return stop(s, true, error);
}

static bool is_not_stopping(void *argument)
{
    return sb_service_status(argument) != SIMBA_STOPPING;
}

bool sb_service_wait_initial(struct sb_service *s, int64_t until_ms)
{
    struct sb_help help = sb_service_help(s);

    return is_not_stopping(s) ||
           sb_engine_wait_progress(s->engine, is_not_stopping, s, until_ms, &help);
}

void sb_service_stop_until(struct sb_service *s, int64_t until_ms)
{
    unsigned stops;

    if (begin_stop(s, false, &stops, NULL) != SIMBA_OK)
        return;
    if (sb_dispatcher_is_on(&s->strand))
        sb_loop_wake_for_tasks(s->engine->loop);
    else
        sb_service_wait_initial(s, until_ms);
}

/* ---- Close ----------------------------------------------------------------------------------- */

static void tell_closed(struct sb_service *s)
{
    struct sb_engine *engine = s->engine;
    bool last = sb_handle_retire(s->handle);

    sb_lock_take(&engine->lock);
    SB_CHECK(!s->is_closed, "a service is closed once");
    SB_CHECK(sb_service_status(s) == SIMBA_INITIAL, "a service is closed when it has stopped");
    s->is_closed = true;
    pthread_cond_broadcast(&engine->progress);
    sb_loop_wake(engine->loop);
    sb_lock_release(&engine->lock);
    if (last) /* not the last reference: the caller has one */
        sb_service_drop(s);
}

/* On the strand: what was before it has returned, and nothing comes behind it. */
static void run_closed(struct sb_call *call)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, closed_call, call);

    SB_CHECK(sb_service_is_inside(s), "the last callback runs on the strand");
    if (s->calls.on_closed != NULL)
        s->calls.on_closed(s->calls.user);
    tell_closed(s);
}

/* A strand that is idle now stays so: the machine has stopped, and nobody can start it again. */
static void run_close(struct simba_task *task)
{
    struct sb_service *s = SB_CONTAINER(struct sb_service, close_task, task);

    SB_CHECK(sb_loop_is_current(s->engine->loop), "a service is closed on the loop thread");
    SB_CHECK(!s->is_closed, "a service is closed once");
    if (sb_service_status(s) != SIMBA_INITIAL) {
        s->close_when_stopped = true;
        return;
    }
    SB_CHECK(!s->listening, "a service that is closed listens no more");
    sb_loop_cancel(s->engine->loop, &s->timer);
    sb_registry_remove(&s->engine->registry, &s->member);
    if (s->calls.on_closed != NULL || sb_strand_is_busy(&s->strand))
        sb_service_call(s, &s->closed_call);
    else
        tell_closed(s);
    sb_service_drop(s);
}

static bool is_closed(void *argument)
{
    const struct sb_service *s = argument;

    SB_CHECK(sb_lock_is_mine(&s->engine->lock), "a close is asked for with the lock held");
    return s->is_closed;
}

static void mute(struct sb_service *s)
{
    SB_CHECK(sb_service_is_inside(s), "only a close from inside silences callbacks");
    sb_lock_take(&s->engine->state_lock);
    s->muted = true;
    sb_lock_release(&s->engine->state_lock);
}

/* Whether a callback has outlasted a stop that was given up, and still runs. */
static bool is_outlasted(struct sb_service *s)
{
    bool given_up;

    sb_lock_take(&s->engine->lock);
    given_up = s->stop_code == SIMBA_ETIMEDOUT;
    sb_lock_release(&s->engine->lock);
    return given_up && sb_strand_is_busy(&s->strand);
}

/* From outside of its callbacks. A callback that does not return has had the stop timeout, in the
 * stop where there is one to be done, and else here. It is held meanwhile: the end may come before
 * the wait is over. */
static void close_and_wait(struct sb_service *s, bool stopped_here)
{
    struct sb_engine *engine = s->engine;
    struct sb_help help = sb_service_help(s);
    int64_t patience_ms = engine->timing.stop_timeout_ms;

    SB_CHECK(!sb_service_is_inside(s), "a callback does not wait for its own end");
    sb_service_wait_initial(s, SIMBA_INFINITE);
    sb_registry_remove(&engine->registry, &s->member); /* the id is free when close returns */
    sb_service_hold(s);
    sb_loop_post(engine->loop, &s->close_task);
    if (!(stopped_here && is_outlasted(s)))
        sb_engine_wait_progress(engine, is_closed, s, sb_later(simba_now_ms(), patience_ms), &help);
    sb_service_drop(s);
}

void sb_service_close(struct sb_service *s)
{
    bool inside;
    bool stopping;

    if (s == NULL || sb_engine_check_process(s->engine, NULL) != SIMBA_OK)
        return;
    sb_lock_take(&s->engine->lock);
    s->closing = true;
    sb_lock_release(&s->engine->lock);
    inside = sb_dispatcher_is_on(&s->strand);
    if (inside)
        mute(s);
    sb_service_stop_soon(s);
    stopping = sb_service_status(s) == SIMBA_STOPPING;
    if (inside)
        sb_loop_post(s->engine->loop, &s->close_task);
    else
        close_and_wait(s, stopping);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static struct sb_service *allocate(const struct sb_service_config *config)
{
    size_t mutex_size = strlen(config->mutex) + 1;
    size_t id_size = config->id != NULL ? strlen(config->id) + 1 : 0;
    struct sb_service *s = sb_alloc_zero(sizeof *s + mutex_size + id_size);

    if (s == NULL)
        return NULL;
    SB_CHECK(mutex_size > 1 && mutex_size <= SIMBA_MUTEX_MAX + 1 && id_size != 1 &&
                 id_size <= SIMBA_ID_MAX + 1,
             "names have been checked");
    memcpy(s->names, config->mutex, mutex_size);
    s->member.mutex = s->names;
    if (config->id != NULL) {
        memcpy(s->names + mutex_size, config->id, id_size);
        s->member.id = s->names + mutex_size;
    }
    s->calls = config->calls;
    return s;
}

/* Nearly all contenders have their client's times, so those of their own are not kept in each. */
static bool make_own_timing(struct sb_service *s, const struct sb_service_config *config)
{
    struct sb_timing *timing = sb_alloc(sizeof *timing);

    if (timing == NULL)
        return false;
    SB_CHECK(config->ttl_ms > 0 && config->transition_ms >= 0, "times have been checked");
    *timing = s->engine->timing;
    timing->ttl_ms = config->ttl_ms;
    timing->transition_ms = config->transition_ms;
    timing->margin_ms = simba_drift_margin_ms(timing->ttl_ms + timing->transition_ms);
    s->own_timing = timing;
    return true;
}

static bool has_own_times(const struct sb_service *s, const struct sb_service_config *config)
{
    const struct sb_timing *timing = &s->engine->timing;

    return !sb_service_is_observer(s) &&
           (config->ttl_ms != timing->ttl_ms || config->transition_ms != timing->transition_ms);
}

static bool init_machine(struct sb_service *s, const struct sb_service_config *config)
{
    uint64_t seed = sb_random_seed();
    union sb_any_machine machine;

    if (has_own_times(s, config) && !make_own_timing(s, config))
        return false;
    if (sb_service_is_observer(s))
        sb_observer_init(&machine.observer, sb_service_timing(s), config->poll_ms, seed);
    else
        sb_machine_init(&machine.contender, sb_service_timing(s), seed);
    if (!sb_service_is_observer(s) && s->calls.on_renewed != NULL)
        sb_machine_tell_renewals(&machine.contender);
    if (!sb_service_is_observer(s) && s->calls.on_notify != NULL)
        sb_machine_follow(&machine.contender);
    sb_packed_init(&s->packed, s->member.id, &machine);
    return true;
}

int sb_service_create(struct sb_engine *engine, const struct sb_service_config *config,
                      struct sb_service **ret_service, struct simba_error *error)
{
    struct sb_service *s;
    int code = sb_engine_check_process(engine, error);

    if (code != SIMBA_OK)
        return code;
    s = allocate(config);
    if (s == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    SB_CHECK(config->calls.hooks->gone != NULL, "an object is freed with its service");
    s->engine = engine;
    s->party = config->party;
    atomic_init(&s->references, 2); /* until it is closed, and that of its handle */
    s->close_task.run = run_close;
    s->closed_call.run = run_closed;
    sb_service_init_steps(s);
    s->handle = sb_handle_create(config->object, error);
    if (s->handle == NULL) {
        sb_free(s);
        return SIMBA_ENOMEM;
    }
    if (!init_machine(s, config)) {
        sb_handle_free(s->handle);
        sb_free(s);
        return sb_error_plain(error, SIMBA_ENOMEM);
    }
    if (sb_service_init_calls(s) != SIMBA_OK) {
        sb_service_free(s);
        return sb_error_plain(error, SIMBA_ENOMEM);
    }
    code = sb_registry_add(&engine->registry, &s->member);
    if (code != SIMBA_OK) {
        sb_error_set(error, code, "this client already has a contender '%s' for '%s'", config->id,
                     config->mutex);
        sb_service_free(s);
        return code;
    }
    sb_engine_pending_add(engine);
    *ret_service = s;
    return SIMBA_OK;
}
