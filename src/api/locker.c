/*
 * locker.c - the public functions of lockers. Owns nothing: each kind of locker has its table of
 * functions.
 */
#include "api/locker.h"

#include "base/error.h"

/* Every call that can fail begins with it. */
static int check_handle(const simba_locker *locker, const char *call, struct simba_error *error)
{
    if (locker == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs a locker", call);
    return sb_engine_check_process(locker->engine, error);
}

static int acquire(simba_locker *locker, int64_t timeout_ms, bool once, struct simba_error *error)
{
    int code = check_handle(locker, "an acquire", error);

    return code == SIMBA_OK ? locker->ops->acquire(locker, timeout_ms, once, error) : code;
}

int simba_locker_acquire(simba_locker *locker, struct simba_error *error)
{
    return acquire(locker, SIMBA_INFINITE, false, error);
}

int simba_locker_acquire_timeout(simba_locker *locker, int64_t timeout_ms,
                                 struct simba_error *error)
{
    if (timeout_ms < 0)
        return sb_error_set(error, SIMBA_EINVAL, "a time-out of %lld ms is negative",
                            (long long)timeout_ms);
    return acquire(locker, timeout_ms, false, error);
}

int simba_locker_try_acquire(simba_locker *locker, struct simba_error *error)
{
    return acquire(locker, SIMBA_INFINITE, true, error);
}

void simba_locker_cancel(simba_locker *locker)
{
    if (sb_engine_check_process(locker->engine, NULL) == SIMBA_OK)
        locker->ops->cancel(locker);
}

int simba_locker_release(simba_locker *locker, struct simba_error *error)
{
    int code = check_handle(locker, "simba_locker_release", error);

    return code == SIMBA_OK ? locker->ops->release(locker, error) : code;
}

int simba_locker_detach(simba_locker *locker, struct simba_error *error)
{
    int code = check_handle(locker, "simba_locker_detach", error);

    return code == SIMBA_OK ? locker->ops->detach(locker, error) : code;
}

void simba_locker_close(simba_locker *locker)
{
    if (locker != NULL && sb_engine_check_process(locker->engine, NULL) == SIMBA_OK)
        locker->ops->close(locker);
}

void simba_locker_cleanup(simba_locker **locker)
{
    simba_locker_close(*locker);
}

/* ---- Questions ------------------------------------------------------------------------------- */

bool simba_locker_is_held(const simba_locker *locker)
{
    return locker->ops->is_held(locker);
}

uint64_t simba_locker_fence(const simba_locker *locker)
{
    return locker->ops->fence(locker, NULL);
}

uint64_t simba_locker_fence_of(const simba_locker *locker, const char *mutex)
{
    return mutex != NULL ? locker->ops->fence(locker, mutex) : 0;
}

int simba_locker_slot(const simba_locker *locker)
{
    return locker->ops->slot(locker);
}

int64_t simba_locker_place(const simba_locker *locker)
{
    return locker->ops->place(locker);
}

int64_t simba_locker_deadline_ms(const simba_locker *locker)
{
    return locker->ops->deadline_ms(locker);
}

int64_t simba_locker_window_ms(const simba_locker *locker)
{
    return locker->ops->window_ms(locker);
}

bool simba_locker_handover_asked(simba_locker *locker, struct simba_handover *ret_request)
{
    return locker->ops->is_asked(locker, ret_request);
}

const char *simba_locker_id(const simba_locker *locker)
{
    return locker->ops->id(locker);
}

const char *simba_locker_mutex(const simba_locker *locker)
{
    return locker->ops->mutex(locker);
}

void simba_locker_owner(simba_locker *locker, struct simba_owner *ret_owner)
{
    locker->ops->owner(locker, ret_owner);
}
