/*
 * mutex_locker.c - acquire, work, release: a contender that a thread waits for.
 *
 * The contender runs only between an acquire and its release. What happens to it arrives through
 * the hook, on the loop thread; nothing is decided there but whether the waiting thread should
 * wake.
 */
#include "api/locker.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/options.h"
#include "core/owner.h"

#include <string.h>

/* A store that has said nothing for so long is the reason why nothing was acquired. */
#define SILENCE_MS 100

enum phase {
    IDLE,
    ACQUIRING, /* a thread is inside acquire */
    GIVING_UP, /* it still is, and has not won */
    HELD,      /* acquired and not released, though perhaps lost */
    LEAVING,   /* a thread is giving it back */
    CLOSED     /* for good */
};

struct sb_mutex_locker {
    struct sb_locker base; /* first */
    struct sb_client *client;
    struct sb_service *service;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic enum phase phase; /* set with the lock held */
    bool once;                /* one attempt is enough */
    bool answered;            /* the first attempt is over */
    bool settled;             /* the wait is over, with `code` */
    bool lost;                /* the lease was lost while held */
    int code;
    struct simba_owner last_owner; /* another that owned at the end of the last contest */
    _Atomic bool cancelled; /* the acquire under way, or the next one; set with the lock held */
    bool fail_fast;         /* this and the next four never change */
    bool fail_fast_unknown;
    bool detachable;
    simba_lost_fn *on_lost;
    void *user;
    struct sb_handover_watch *watch;    /* NULL: it takes no part in hand-overs */
    struct sb_mutex_locker_group group; /* .changed is NULL: it is no part of one */
    struct sb_call lost_call;
    bool lost_queued;  /* the call is on the strand and has not begun */
    bool lost_running; /* on_lost has begun and has not returned */
};

/* ---- What happens to the contender ----------------------------------------------------------- */

static void settle(struct sb_mutex_locker *locker, int code)
{
    locker->settled = true;
    locker->code = code;
    pthread_cond_signal(&locker->changed);
}

/* Waiting does not repair wrong credentials or a wrong configuration. It may help for a store that
 * was never open: its user or its database may be created later. */
static bool is_hopeless(const struct sb_mutex_locker *locker, int code)
{
    enum simba_error_group group = simba_error_group(code);

    return (group == SIMBA_GROUP_DENIED || group == SIMBA_GROUP_CONFIG) &&
           sb_engine_is_store_open(locker->client->engine);
}

/* An attempt is also over if nobody owns and it was still not won: the owner released meanwhile, or
 * the record cannot be won at all. */
static void on_reply(struct sb_mutex_locker *locker, const struct sb_event *event)
{
    bool failed = event->answer == SB_ANSWER_FAILED || event->answer == SB_ANSWER_UNKNOWN;
    bool fails_fast = locker->fail_fast && !locker->answered &&
                      (event->code == SIMBA_ESTORE ||
                       (locker->fail_fast_unknown && event->code == SIMBA_EUNKNOWN));

    if (failed && (locker->once || fails_fast || is_hopeless(locker, event->code)))
        settle(locker, event->code);
    else if (!failed && event->answer != SB_ANSWER_MINE && locker->once)
        settle(locker, SIMBA_ECONTENDED);
    locker->answered = true;
}

/* A caller that has begun to release learns of the loss from the release. */
static void run_lost(struct sb_call *call)
{
    struct sb_mutex_locker *locker = SB_CONTAINER(struct sb_mutex_locker, lost_call, call);
    bool run;

    pthread_mutex_lock(&locker->lock);
    SB_CHECK(locker->lost_queued, "on_lost is queued before it runs");
    SB_CHECK(!locker->lost_running, "on_lost runs once at a time");
    locker->lost_queued = false;
    run = locker->phase == HELD && locker->lost;
    locker->lost_running = run;
    pthread_mutex_unlock(&locker->lock);
    if (!run)
        return;
    locker->on_lost(locker->user);
    pthread_mutex_lock(&locker->lock);
    locker->lost_running = false;
    pthread_cond_broadcast(&locker->changed);
    sb_loop_wake(sb_engine_loop(locker->client->engine));
    pthread_mutex_unlock(&locker->lock);
}

static bool is_lost_told(void *argument)
{
    const struct sb_mutex_locker *locker = argument;

    return !locker->lost_running;
}

/* With the lock held. After it on_lost does not run and will not begin, except around its own
 * caller, and except one that does not return for as long as the stop timeout. */
static void leave(struct sb_mutex_locker *locker)
{
    struct sb_engine *engine = locker->client->engine;
    struct sb_wait wait = {.lock = &locker->lock,
                           .changed = &locker->changed,
                           .done = is_lost_told,
                           .argument = locker,
                           .until_ms =
                               sb_later(simba_now_ms(), sb_engine_timing(engine)->stop_timeout_ms)};

    SB_CHECK(locker->phase == HELD, "a locker leaves what it holds");
    locker->phase = LEAVING;
    if (!is_lost_told(locker) && !sb_service_is_inside(locker->service))
        sb_engine_wait(engine, &wait, NULL);
}

/* What a step means is decided under the lock; what it leads to is done without, because it may
 * call the application's executor. Returns whether the lease was lost. */
static bool take_in(struct sb_mutex_locker *locker, const struct sb_event *event,
                    const struct sb_step *step)
{
    if (locker->phase == ACQUIRING) {
        if (step->acquired)
            settle(locker, SIMBA_OK);
        else if (step->released)
            locker->settled = false; /* gone before the thread woke: it goes on waiting */
        else if (event->type == SB_EVENT_REPLY && event->op == SIMBA_OP_ACQUIRE && !locker->settled)
            on_reply(locker, event);
    }
    if (event->type == SB_EVENT_STOP && step->changed && !step->released)
        locker->last_owner = step->state.before;
    if (event->type == SB_EVENT_REPLY && event->answer == SB_ANSWER_OTHER &&
        locker->phase == GIVING_UP)
        locker->last_owner = sb_owner_in_time_left(
            event->owner, event->now_ms, event->ttl_left_ms, event->transition_left_ms,
            sb_service_timing(locker->service)->ttl_ms, event->fence);
    if (locker->phase != HELD || !step->released)
        return false;
    locker->lost = true;
    return true;
}

static void on_step(void *user, struct sb_service *service, const struct sb_event *event,
                    const struct sb_step *step)
{
    struct sb_mutex_locker *locker = user;
    bool lost;
    bool tell;

    SB_CHECK(sb_loop_is_current(sb_engine_loop(locker->client->engine)),
             "a step is told on the loop thread");
    if (locker->watch != NULL)
        sb_handover_watch_step(locker->watch, service, event, step);
    pthread_mutex_lock(&locker->lock);
    lost = take_in(locker, event, step);
    tell = lost && locker->on_lost != NULL && !locker->lost_queued;
    locker->lost_queued |= tell;
    pthread_mutex_unlock(&locker->lock);
    if (lost)
        sb_service_stop_soon(service); /* no work is under way: the lease must not be won back */
    if (tell)
        sb_service_call(service, &locker->lost_call);
    if (locker->group.changed != NULL)
        locker->group.changed(locker->group.group);
}

/* ---- Acquire --------------------------------------------------------------------------------- */

/* A win counts only while it is believed: after a pause the lease may have ended unnoticed. Without
 * a win, a cancel counts. A close counts in any case: it has begun to release. */
static bool is_settled(void *argument)
{
    struct sb_mutex_locker *locker = argument;

    if (locker->phase == CLOSED) {
        settle(locker, SIMBA_ECLOSED);
        return true;
    }
    if (locker->settled && locker->code == SIMBA_OK && !sb_service_is_owner(locker->service))
        locker->settled = false;
    if (!locker->settled && atomic_load(&locker->cancelled))
        settle(locker, SIMBA_ECANCELED);
    return locker->settled;
}

/* Returns what the contest came to. */
static int wait_settled(struct sb_mutex_locker *locker, int64_t until_ms)
{
    struct sb_wait wait = {.lock = &locker->lock,
                           .changed = &locker->changed,
                           .done = is_settled,
                           .argument = locker,
                           .until_ms = until_ms};
    struct sb_help help = sb_service_help_mutex(locker->service);
    int code;

    pthread_mutex_lock(&locker->lock);
    code = sb_engine_wait(locker->client->engine, &wait, &help) ? locker->code : SIMBA_ETIMEDOUT;
    if (locker->phase != CLOSED)
        locker->phase = code == SIMBA_OK ? HELD : GIVING_UP;
    atomic_store(&locker->cancelled, false);
    pthread_mutex_unlock(&locker->lock);
    return code;
}

static bool is_closed(struct sb_mutex_locker *locker)
{
    bool closed;

    pthread_mutex_lock(&locker->lock);
    closed = locker->phase == CLOSED;
    pthread_mutex_unlock(&locker->lock);
    return closed;
}

static int fail_closed(const struct sb_mutex_locker *locker, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECLOSED, "the locker of '%s' is being closed",
                        sb_service_mutex(locker->service));
}

static int fail_cancelled(const struct sb_mutex_locker *locker, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECANCELED, "the acquire of '%s' was cancelled",
                        sb_service_mutex(locker->service));
}

static int begin(struct sb_mutex_locker *locker, bool once, struct simba_error *error)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;
    static const char *const doing[] = {"", "another acquire is under way",
                                        "another acquire is under way", "it is held",
                                        "a release is under way"};
    int code = SIMBA_OK;

    pthread_mutex_lock(&locker->lock);
    if (locker->phase == CLOSED) {
        code = fail_closed(locker, error);
    } else if (locker->phase != IDLE) {
        code = sb_error_set(error, SIMBA_EBUSY, "cannot acquire '%s': %s by this locker",
                            sb_service_mutex(locker->service), doing[locker->phase]);
    } else if (atomic_exchange(&locker->cancelled, false)) {
        code = fail_cancelled(locker, error);
    } else {
        locker->phase = ACQUIRING;
        locker->once = once;
        locker->settled = false;
        locker->answered = false;
        locker->lost = false;
        locker->last_owner = nobody;
    }
    pthread_mutex_unlock(&locker->lock);
    return code;
}

static void set_phase(struct sb_mutex_locker *locker, enum phase phase)
{
    pthread_mutex_lock(&locker->lock);
    if (locker->phase != CLOSED)
        locker->phase = phase;
    pthread_mutex_unlock(&locker->lock);
}

/* Says why the wait failed: another contender owns, or what the store said, or that it did not
 * answer. */
int sb_mutex_locker_explain(struct sb_mutex_locker *locker, int code, int64_t timeout_ms,
                            struct simba_error *error)
{
    const char *mutex = sb_service_mutex(locker->service);
    bool unanswered = sb_service_status(locker->service) == SIMBA_STARTING;
    struct simba_error last;
    struct simba_state state;
    int last_code = sb_service_last_error(locker->service, &last);

    SB_CHECK(code != SIMBA_OK, "only a failure is explained");
    if (code == SIMBA_ECANCELED)
        return fail_cancelled(locker, error);
    if (code == SIMBA_ECLOSED)
        return fail_closed(locker, error);
    sb_service_state(locker->service, &state);
    if (code == SIMBA_ETIMEDOUT && last_code != SIMBA_OK)
        code = last_code;
    if (code == last_code && last_code != SIMBA_OK)
        return sb_error_set_backend(error, code, last.backend_code, "cannot acquire '%s': %s",
                                    mutex, last.text);
    if (code == SIMBA_ETIMEDOUT && unanswered)
        return sb_error_set(error, timeout_ms < SILENCE_MS ? SIMBA_ETIMEDOUT : SIMBA_EUNAVAILABLE,
                            "cannot acquire '%s': the store has not answered in time", mutex);
    if (state.after.id[0] != '\0')
        return sb_error_set(error, code, "'%s' is owned by %s", mutex, state.after.id);
    return sb_error_set(error, code, "'%s' was not acquired: %s", mutex, simba_strerror(code));
}

static bool may_start_or_is_cancelled(void *argument)
{
    struct sb_mutex_locker *locker = argument;

    return sb_service_status(locker->service) != SIMBA_STOPPING || atomic_load(&locker->cancelled);
}

/* Starts the contest; the remains of an earlier one may still be on their way out. */
static int start(struct sb_mutex_locker *locker, int64_t until_ms, struct simba_error *error)
{
    struct sb_help help = sb_service_help(locker->service);
    bool ready = may_start_or_is_cancelled(locker) ||
                 sb_engine_wait_progress(locker->client->engine, may_start_or_is_cancelled, locker,
                                         until_ms, &help);

    if (atomic_exchange(&locker->cancelled, false))
        return is_closed(locker) ? fail_closed(locker, error) : fail_cancelled(locker, error);
    if (!ready)
        return sb_error_set(
            error, SIMBA_EUNAVAILABLE,
            "cannot acquire '%s': the store has not answered an earlier request yet",
            sb_service_mutex(locker->service));
    return sb_service_begin_start(locker->service, error);
}

/* Also releases a win that comes at this moment. Does not wait for a store that hangs: what is left
 * there is released when it answers, or expires. */
static void give_up(struct sb_mutex_locker *locker)
{
    sb_service_stop_soon(locker->service);
    sb_service_wait_initial(locker->service, simba_now_ms() + SB_LOCKER_CLEAN_UP_MS);
    set_phase(locker, IDLE);
}

static int acquire(struct sb_locker *base, int64_t timeout_ms, bool once, struct simba_error *error)
{
    struct sb_mutex_locker *locker = (struct sb_mutex_locker *)base;
    int64_t until_ms = sb_later(simba_now_ms(), timeout_ms);
    int code = begin(locker, once, error);

    if (code != SIMBA_OK)
        return code;
    code = start(locker, until_ms, error);
    if (code != SIMBA_OK) {
        set_phase(locker, IDLE);
        return code;
    }
    code = wait_settled(locker, until_ms);
    if (code == SIMBA_OK && locker->watch != NULL)
        sb_handover_watch_await(locker->watch);
    if (code == SIMBA_OK)
        return SIMBA_OK;
    code = sb_mutex_locker_explain(locker, code, timeout_ms, error);
    give_up(locker);
    return code;
}

/* The thread may wait for what an earlier acquire has left, for an answer, or turn the loop
 * meanwhile. */
static void cancel(struct sb_locker *base)
{
    struct sb_mutex_locker *locker = (struct sb_mutex_locker *)base;

    pthread_mutex_lock(&locker->lock);
    if (locker->phase != HELD && locker->phase != GIVING_UP)
        atomic_store(&locker->cancelled, true);
    pthread_cond_signal(&locker->changed);
    pthread_mutex_unlock(&locker->lock);
    sb_engine_tell_progress(base->engine);
}

/* ---- Release --------------------------------------------------------------------------------- */

/* Ends the contest, by a release or by leaving the lease on the store. It is held meanwhile,
 * because on_lost may close the set that it is a part of. */
static int end_term(struct sb_mutex_locker *locker, const char *verb,
                    int (*end)(struct sb_service *service, struct simba_error *error),
                    struct simba_error *error)
{
    struct sb_service *service = locker->service;
    int code = SIMBA_OK;
    bool held;
    bool lost;
    bool closed;

    sb_service_hold(service);
    pthread_mutex_lock(&locker->lock);
    held = locker->phase == HELD;
    closed = locker->phase == CLOSED;
    if (held)
        leave(locker);
    lost = locker->lost || !sb_service_is_owner(service);
    pthread_mutex_unlock(&locker->lock);
    if (held && lost) {
        sb_service_stop_soon(service);
    } else if (held) {
        code = end(service, error);
        lost = code == SIMBA_ESTATE; /* lost in this moment: the hook has stopped it */
    } else if (closed) {
        code = fail_closed(locker, error);
    } else {
        code = sb_error_set(error, SIMBA_ESTATE, "cannot %s '%s': it was not acquired", verb,
                            sb_service_mutex(service));
    }
    if (held) {
        sb_service_wait_initial(service, SIMBA_INFINITE);
        set_phase(locker, IDLE);
    }
    if (held && lost)
        code = sb_error_set(error, SIMBA_ELOST, "the lease of '%s' was lost before the %s",
                            sb_service_mutex(service), verb);
    sb_service_drop(service);
    return code;
}

int sb_mutex_locker_release(struct sb_mutex_locker *locker, struct simba_error *error)
{
    return end_term(locker, "release", sb_service_stop, error);
}

static int release(struct sb_locker *base, struct simba_error *error)
{
    return sb_mutex_locker_release((struct sb_mutex_locker *)base, error);
}

static int detach(struct sb_locker *base, struct simba_error *error)
{
    struct sb_mutex_locker *locker = (struct sb_mutex_locker *)base;

    if (!locker->detachable)
        return sb_error_set(error, SIMBA_ESTATE,
                            "cannot detach '%s': its locker was not created detachable",
                            sb_service_mutex(locker->service));
    return end_term(locker, "detach", sb_service_leave, error);
}

/* ---- A part of a group ----------------------------------------------------------------------- */

int sb_mutex_locker_begin(struct sb_mutex_locker *locker, bool once, struct simba_error *error)
{
    int code = begin(locker, once, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_service_begin_start(locker->service, error);
    if (code != SIMBA_OK)
        set_phase(locker, IDLE);
    return code;
}

/* Only the caller's thread begins what is idle. */
enum sb_part_sight sb_mutex_locker_look(struct sb_mutex_locker *locker, int *ret_code)
{
    enum sb_part_sight sight = SB_PART_ASKED;
    int code = SIMBA_OK;

    *ret_code = SIMBA_OK;
    if (locker->phase == IDLE)
        return sb_service_status(locker->service) == SIMBA_INITIAL ? SB_PART_IDLE : SB_PART_LEAVING;
    pthread_mutex_lock(&locker->lock);
    if (is_settled(locker)) {
        code = locker->code != SIMBA_ECONTENDED ? locker->code : SIMBA_OK;
        sight = locker->code == SIMBA_OK ? SB_PART_HELD : SB_PART_REFUSED;
    } else if (locker->answered) {
        sight = SB_PART_REFUSED;
    }
    pthread_mutex_unlock(&locker->lock);
    *ret_code = code;
    return sight;
}

bool sb_mutex_locker_take(struct sb_mutex_locker *locker)
{
    bool held;

    pthread_mutex_lock(&locker->lock);
    SB_CHECK(locker->phase == ACQUIRING || locker->phase == CLOSED,
             "what is taken is competed for");
    held = is_settled(locker) && locker->code == SIMBA_OK;
    if (held)
        locker->phase = HELD;
    pthread_mutex_unlock(&locker->lock);
    if (held && locker->watch != NULL)
        sb_handover_watch_await(locker->watch);
    return held;
}

void sb_mutex_locker_withdraw(struct sb_mutex_locker *locker)
{
    set_phase(locker, IDLE);
    sb_service_stop_soon(locker->service);
}

void sb_mutex_locker_give_back(struct sb_mutex_locker *locker, int64_t until_ms)
{
    set_phase(locker, IDLE);
    sb_service_stop_until(locker->service, until_ms);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static const struct sb_service *service_of(const struct sb_locker *base)
{
    return ((const struct sb_mutex_locker *)base)->service;
}

struct sb_service *sb_mutex_locker_service(const struct sb_mutex_locker *locker)
{
    return locker->service;
}

static bool is_held(const struct sb_locker *base)
{
    return sb_service_is_owner(service_of(base));
}

static uint64_t fence(const struct sb_locker *base, const char *mutex)
{
    const struct sb_service *service = service_of(base);

    return mutex == NULL || strcmp(mutex, sb_service_mutex(service)) == 0
               ? sb_service_fence(service)
               : 0;
}

static int64_t deadline_ms(const struct sb_locker *base)
{
    return sb_service_deadline_ms(service_of(base));
}

static int64_t window_ms(const struct sb_locker *base)
{
    return sb_service_window_ms(service_of(base));
}

static int64_t place(const struct sb_locker *base)
{
    return sb_service_place(service_of(base));
}

static int slot(const struct sb_locker *base)
{
    (void)base;
    return -1;
}

bool sb_mutex_locker_is_asked(const struct sb_mutex_locker *locker,
                              struct simba_handover *ret_request)
{
    return sb_handover_watch_asked(locker->watch, locker->service, ret_request);
}

static bool is_asked(struct sb_locker *base, struct simba_handover *ret_request)
{
    return sb_mutex_locker_is_asked((struct sb_mutex_locker *)base, ret_request);
}

static const char *id(const struct sb_locker *base)
{
    return sb_service_id(service_of(base));
}

static const char *mutex(const struct sb_locker *base)
{
    return sb_service_mutex(service_of(base));
}

void sb_mutex_locker_owner(struct sb_mutex_locker *locker, struct simba_owner *ret_owner)
{
    struct simba_state state;

    sb_service_state(locker->service, &state);
    *ret_owner = state.after;
    if (state.after.id[0] != '\0' ||
        sb_engine_check_process(locker->client->engine, NULL) != SIMBA_OK)
        return;
    pthread_mutex_lock(&locker->lock);
    *ret_owner = locker->last_owner;
    pthread_mutex_unlock(&locker->lock);
    sb_service_tell_times(locker->service, ret_owner);
}

static void owner(struct sb_locker *base, struct simba_owner *ret_owner)
{
    sb_mutex_locker_owner((struct sb_mutex_locker *)base, ret_owner);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void on_gone(void *object)
{
    struct sb_mutex_locker *locker = object;
    struct sb_mutex_locker_group group = locker->group;

    sb_handover_watch_free(locker->watch);
    pthread_cond_destroy(&locker->changed);
    pthread_mutex_destroy(&locker->lock);
    sb_free(locker);
    if (group.gone != NULL)
        group.gone(group.group);
}

/* A thread that is in an acquire gives up, and need not be waited for: it has pinned the locker. */
void sb_mutex_locker_close(struct sb_mutex_locker *locker)
{
    pthread_mutex_lock(&locker->lock);
    locker->phase = CLOSED; /* on_lost does not begin any more */
    atomic_store(&locker->cancelled, true);
    pthread_cond_broadcast(&locker->changed);
    pthread_mutex_unlock(&locker->lock);
    sb_engine_tell_progress(locker->client->engine);
    sb_client_remove_object(locker->client);
    sb_service_close(locker->service);
}

static void unpin(struct sb_locker *base)
{
    sb_service_unpin(((struct sb_mutex_locker *)base)->service);
}

static bool begin_close(struct sb_locker *base)
{
    return sb_service_begin_close(((struct sb_mutex_locker *)base)->service);
}

static void close_locker(struct sb_locker *base)
{
    sb_mutex_locker_close((struct sb_mutex_locker *)base);
}

static const struct sb_locker_ops ops = {
    .unpin = unpin,
    .begin_close = begin_close,
    .acquire = acquire,
    .cancel = cancel,
    .release = release,
    .detach = detach,
    .close = close_locker,
    .owner = owner,
    .is_held = is_held,
    .fence = fence,
    .deadline_ms = deadline_ms,
    .window_ms = window_ms,
    .place = place,
    .slot = slot,
    .is_asked = is_asked,
    .id = id,
    .mutex = mutex,
};

static const struct sb_service_hooks hooks = {.stepped = on_step, .gone = on_gone};

static struct sb_mutex_locker *allocate(struct sb_client *client,
                                        const struct simba_locker_options *options)
{
    struct sb_mutex_locker *locker = sb_alloc_zero(sizeof *locker);

    if (locker == NULL)
        return NULL;
    locker->base.ops = &ops;
    locker->base.engine = client->engine;
    locker->client = client;
    locker->fail_fast = options->fail_fast;
    locker->fail_fast_unknown = options->fail_fast_unknown;
    locker->detachable = options->detachable;
    locker->on_lost = options->on_lost;
    locker->user = options->user;
    pthread_mutex_init(&locker->lock, NULL);
    sb_wait_init_cond(&locker->changed);
    locker->lost_call.run = run_lost;
    return locker;
}

/* The group hears of the end of a part that there is. */
int sb_mutex_locker_create(struct sb_client *client, const struct simba_locker_options *options,
                           const struct sb_mutex_locker_group *group,
                           struct sb_mutex_locker **ret_locker, struct simba_error *error)
{
    struct sb_service_config config = {.ttl_ms = SIMBA_UNSET, .transition_ms = SIMBA_UNSET};
    struct sb_handover_config handover = {0};
    struct sb_mutex_locker *locker = allocate(client, options);
    int code;

    if (locker == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    handover.engine = client->engine;
    handover.on_handover = options->on_handover;
    handover.user = options->user;
    handover.look_after_ms = sb_engine_timing(client->engine)->ttl_ms;
    config.mutex = options->mutex;
    config.id = options->id;
    config.calls.on_closed = options->on_closed;
    config.calls.user = options->user;
    config.calls.hooks = &hooks;
    config.object = locker;
    config.party = group != NULL ? group->party : NULL;
    code = sb_handover_watch_create(&handover, &locker->watch, error);
    if (code == SIMBA_OK)
        code = sb_client_contender(client, &config, &locker->service, error);
    if (code != SIMBA_OK) {
        on_gone(locker);
        return code;
    }
    if (group != NULL)
        locker->group = *group;
    *ret_locker = locker;
    return SIMBA_OK;
}

static int create(struct sb_client *client, const struct simba_locker_options *given,
                  simba_locker **ret_locker, struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_LOCKER_OPTIONS_INIT",
                                                offsetof(struct simba_locker_options, id),
                                                sizeof(struct simba_locker_options)};
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct sb_locker_source *source = NULL;
    struct sb_mutex_locker *locker;
    int code = sb_options_read(&form, given, &options, error);

    if (code == SIMBA_OK && options.detachable && sb_engine_has_sessions(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "on this store a session is the lease, and it ends with its client: a "
                            "mutex cannot be held without a process");
    if (code == SIMBA_OK)
        code = simba_mutex_validate(options.mutex, error);
    if (code == SIMBA_OK)
        code = sb_events_take_locker(client->events, options.mutex, &options, &source, error);
    if (code == SIMBA_OK)
        code = sb_mutex_locker_create(client, &options, NULL, &locker, error);
    if (code != SIMBA_OK) {
        sb_free(source);
        return code;
    }
    sb_events_set_locker(source, &locker->base);
    *ret_locker = sb_service_handle(locker->service);
    return SIMBA_OK;
}

int simba_locker_create(simba_client *handle, const struct simba_locker_options *options,
                        simba_locker **ret_locker, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_locker == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_locker_create needs a client and ret_locker");
    code = sb_client_enter(handle, "simba_locker_create", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = create(client, options, ret_locker, error);
    sb_client_leave(client);
    return code;
}
