/*
 * locker.c - the public functions of lockers. Owns nothing: each kind of locker has its table of
 * functions.
 */
#include "api/locker.h"

#include "base/error.h"
#include "runtime/view.h"

/* Every call that can fail begins with it, and ends with `leave` where it did not. */
static int enter(simba_locker *handle, const char *call, struct sb_locker **ret_locker,
                 struct simba_error *error)
{
    struct sb_locker *locker;
    void *object;
    int code = sb_handle_use(handle, call, "a locker", &object, error);

    if (code != SIMBA_OK)
        return code;
    locker = object;
    code = sb_engine_check_process(locker->engine, error);
    if (code == SIMBA_OK)
        *ret_locker = locker;
    else
        locker->ops->unpin(locker);
    return code;
}

static void leave(struct sb_locker *locker)
{
    locker->ops->unpin(locker);
}

static int acquire(simba_locker *handle, int64_t timeout_ms, bool once, struct simba_error *error)
{
    struct sb_locker *locker;
    int code = enter(handle, "an acquire", &locker, error);

    if (code != SIMBA_OK)
        return code;
    code = locker->ops->acquire(locker, timeout_ms, once, error);
    leave(locker);
    return code;
}

int simba_locker_acquire(simba_locker *handle, struct simba_error *error)
{
    return acquire(handle, SIMBA_INFINITE, false, error);
}

int simba_locker_acquire_timeout(simba_locker *handle, int64_t timeout_ms,
                                 struct simba_error *error)
{
    if (timeout_ms < 0)
        return sb_error_set(error, SIMBA_EINVAL, "a time-out of %lld ms is negative",
                            (long long)timeout_ms);
    return acquire(handle, timeout_ms, false, error);
}

int simba_locker_try_acquire(simba_locker *handle, struct simba_error *error)
{
    return acquire(handle, SIMBA_INFINITE, true, error);
}

void simba_locker_cancel(simba_locker *handle)
{
    struct sb_locker *locker;

    if (enter(handle, "simba_locker_cancel", &locker, NULL) != SIMBA_OK)
        return;
    locker->ops->cancel(locker);
    leave(locker);
}

int simba_locker_release(simba_locker *handle, struct simba_error *error)
{
    struct sb_locker *locker;
    int code = enter(handle, "simba_locker_release", &locker, error);

    if (code != SIMBA_OK)
        return code;
    code = locker->ops->release(locker, error);
    leave(locker);
    return code;
}

int simba_locker_detach(simba_locker *handle, struct simba_error *error)
{
    struct sb_locker *locker;
    int code = enter(handle, "simba_locker_detach", &locker, error);

    if (code != SIMBA_OK)
        return code;
    code = locker->ops->detach(locker, error);
    leave(locker);
    return code;
}

void simba_locker_close(simba_locker *handle)
{
    struct sb_locker *locker;

    if (enter(handle, "simba_locker_close", &locker, NULL) != SIMBA_OK)
        return;
    if (locker->ops->begin_close(locker))
        locker->ops->close(locker);
    leave(locker);
}

void simba_locker_cleanup(simba_locker **locker)
{
    simba_locker_close(*locker);
}

/* ---- Questions ------------------------------------------------------------------------------- */

/* A locker of one mutex shows it; of several, and where the answer may be no, the locker is
 * asked. */
bool simba_locker_is_held(const simba_locker *handle)
{
    struct sb_locker *locker;
    bool held;

    if (sb_view_is_owner_of(handle))
        return true;
    locker = sb_handle_ask(handle);
    if (locker == NULL)
        return false;
    held = locker->ops->is_held(locker);
    leave(locker);
    return held;
}

static uint64_t fence_of(const simba_locker *handle, const char *mutex)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    uint64_t fence;

    if (locker == NULL)
        return 0;
    fence = locker->ops->fence(locker, mutex);
    leave(locker);
    return fence;
}

uint64_t simba_locker_fence(const simba_locker *handle)
{
    return fence_of(handle, NULL);
}

uint64_t simba_locker_fence_of(const simba_locker *handle, const char *mutex)
{
    return mutex != NULL ? fence_of(handle, mutex) : 0;
}

int simba_locker_slot(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    int slot;

    if (locker == NULL)
        return -1;
    slot = locker->ops->slot(locker);
    leave(locker);
    return slot;
}

int64_t simba_locker_place(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    int64_t place;

    if (locker == NULL)
        return 0;
    place = locker->ops->place(locker);
    leave(locker);
    return place;
}

int64_t simba_locker_deadline_ms(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    int64_t deadline_ms;

    if (locker == NULL)
        return 0;
    deadline_ms = locker->ops->deadline_ms(locker);
    leave(locker);
    return deadline_ms;
}

int64_t simba_locker_window_ms(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    int64_t window_ms;

    if (locker == NULL)
        return 0;
    window_ms = locker->ops->window_ms(locker);
    leave(locker);
    return window_ms;
}

bool simba_locker_handover_asked(simba_locker *handle, struct simba_handover *ret_request)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    bool asked;

    if (locker == NULL)
        return false;
    asked = locker->ops->is_asked(locker, ret_request);
    leave(locker);
    return asked;
}

/* The strings are freed with the locker. */
const char *simba_locker_id(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    const char *id;

    if (locker == NULL)
        return "";
    id = locker->ops->id(locker);
    leave(locker);
    return id;
}

const char *simba_locker_mutex(const simba_locker *handle)
{
    struct sb_locker *locker = sb_handle_ask(handle);
    const char *mutex;

    if (locker == NULL)
        return "";
    mutex = locker->ops->mutex(locker);
    leave(locker);
    return mutex;
}

void simba_locker_owner(simba_locker *handle, struct simba_owner *ret_owner)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;
    struct sb_locker *locker = sb_handle_ask(handle);

    *ret_owner = nobody;
    if (locker == NULL)
        return;
    locker->ops->owner(locker, ret_owner);
    leave(locker);
}
