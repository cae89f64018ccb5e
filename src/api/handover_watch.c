/*
 * handover_watch.c - the part of a contender in hand-overs. Owns what it looks for on the store,
 * and when; and the request of a waiter with a priority.
 *
 *     waits for long, with a priority    asks the owner to hand over to it
 *     wins after a wait                  looks whether the mutex should pass on to another
 *     renews, or is told of a change     looks whether its term should end
 *
 * A store that pushes tells its followers of a request as of a change of the owner. An owner
 * becomes one when it has owned for FOLLOW_MS: many terms are over by then, and the store would
 * have had to make a subscription for nothing.
 *
 * A look is a request of its own, behind the answer to an ACQUIRE or a GUARD, so it delays no
 * renewal, and nothing waits for it but on_acquired. A look that fails is no look: the next renewal
 * brings another one. Who owns is decided by the lease alone.
 */
#include "api/handover.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

/* How long the store gets to answer, and on_acquired waits for that. */
#define LOOK_MS 1000

#define FOLLOW_MS 500

/* Refusals in a row after which the store is not asked again. One alone may be a table that another
 * client is creating. */
#define REFUSALS_MAX 3

struct sb_handover_watch {
    struct sb_handover_config config;
    struct sb_call call;
    _Atomic int priority;
    _Atomic bool looking;         /* a look is under way */
    _Atomic bool queued;          /* the call is on the strand and has not begun */
    _Atomic uint64_t asked_fence; /* of the term that should end; 0: none */
    pthread_mutex_t lock;
    struct simba_handover request; /* that asked for it; under the lock */

    /* Loop thread only. */
    struct sb_service *service; /* NULL before the first step; then it never changes */
    struct sb_timer timer;      /* armed while a contender with a priority waits */
    struct sb_timer follows;    /* armed while an owner does not follow yet */
    bool looks_again;           /* a change was told while a look was under way */
    bool waits;                 /* without a failure; the timer runs */
    int64_t waiting_ms;         /* since when it has had to wait for this term; 0: it has not */
    bool asking;                /* a request of a waiter is under way */
    unsigned refusals;          /* in a row: the store keeps no properties for this user */
    int64_t obeyed_ms;          /* when the last request was asked that this contender obeyed */
};

/* One request to the store, or a chain of them. Keeps the service alive. */
struct look {
    struct sb_request base; /* first */
    struct sb_handover_watch *watch;
    bool passes; /* the winner looks whether the mutex should pass on */
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
};

static bool on_loop(const struct sb_handover_watch *watch)
{
    return sb_loop_is_current(sb_engine_loop(watch->config.engine));
}

/* Sends the next request of a look. */
static void ask(struct look *look, enum simba_op op,
                void (*answered)(struct sb_request *, const struct simba_reply *))
{
    struct sb_handover_watch *watch = look->watch;

    SB_CHECK(on_loop(watch), "a look is sent on the loop thread");
    memset(&look->base, 0, sizeof look->base);
    look->base.answered = answered;
    look->base.wire.op = op;
    look->base.wire.mutex = sb_service_mutex(watch->service);
    look->base.wire.property = SB_HANDOVER_PROPERTY;
    look->base.wire.value = op == SIMBA_OP_SET_PROPERTY ? look->value : NULL;
    look->base.wire.timeout_ms = LOOK_MS;
    sb_request_send(watch->config.engine, &look->base);
}

static struct look *make_look(struct sb_handover_watch *watch)
{
    struct look *look = watch->refusals >= REFUSALS_MAX ? NULL : sb_alloc_zero(sizeof *look);

    if (look == NULL)
        return NULL; /* without memory there is no look */
    look->watch = watch;
    sb_service_hold(watch->service);
    return look;
}

static void end_look(struct look *look)
{
    struct sb_service *service = look->watch->service;

    sb_free(look);
    sb_service_drop(service);
}

/* A user without the right to the table of properties would only fill the server's log. */
static void note_code(struct sb_handover_watch *watch, int code)
{
    SB_CHECK(on_loop(watch), "a look is answered on the loop thread");
    if (code == SIMBA_OK)
        watch->refusals = 0;
    if (code != SIMBA_EDENIED && code != SIMBA_EUNSUPPORTED && code != SIMBA_ECONFIG)
        return;
    if (++watch->refusals == REFUSALS_MAX)
        sb_log(sb_engine_log(watch->config.engine), SIMBA_LOG_INFO,
               "mutex '%s': requests to hand over cannot be heard: %s",
               sb_service_mutex(watch->service), simba_strerror(code));
}

/* ---- An owner -------------------------------------------------------------------------------- */

static void run_handover(struct sb_call *call)
{
    struct sb_handover_watch *watch = SB_CONTAINER(struct sb_handover_watch, call, call);
    struct simba_handover request;

    atomic_store(&watch->queued, false);
    if (sb_handover_watch_asked(watch, watch->service, &request)) /* the term may be over */
        watch->config.on_handover(watch->config.user, &request);
}

/* Whether the request is about this term: it names the term, or a winner finds that it was for
 * another. */
static bool is_for_term(const struct look *look, const struct simba_handover *request,
                        uint64_t fence)
{
    const char *id = sb_service_id(look->watch->service);
    bool names =
        strcmp(request->owner, id) == 0 && (request->fence == 0 || request->fence == fence);

    return names || (look->passes && request->to[0] != '\0' && request->fence < fence);
}

/* A contender obeys a request once: one that is dead, or does not try, keeps nobody out. */
static bool obeys(const struct look *look, const struct simba_handover *request, uint64_t fence)
{
    struct sb_handover_watch *watch = look->watch;

    return request->owner[0] != '\0' && fence != 0 && is_for_term(look, request, fence) &&
           strcmp(request->to, sb_service_id(watch->service)) != 0 &&
           request->asked_ms != watch->obeyed_ms &&
           (request->priority < 0 || request->priority > atomic_load(&watch->priority));
}

static void take_request(const struct look *look, const struct simba_handover *request)
{
    struct sb_handover_watch *watch = look->watch;
    uint64_t fence = sb_service_fence(watch->service);

    if (!obeys(look, request, fence))
        return;
    watch->obeyed_ms = request->asked_ms;
    if (atomic_load(&watch->asked_fence) == fence)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->request = *request;
    pthread_mutex_unlock(&watch->lock);
    atomic_store(&watch->asked_fence, fence);
    sb_log(sb_engine_log(watch->config.engine), SIMBA_LOG_INFO,
           "mutex '%s': %s is asked to hand over to %s", sb_service_mutex(watch->service),
           sb_service_id(watch->service),
           request->to[0] != '\0' ? request->to : "the first in line");
    if (!atomic_exchange(&watch->queued, true))
        sb_service_call(watch->service, &watch->call);
}

static void begin_look(struct sb_handover_watch *watch, bool passes);

static void on_looked(struct sb_request *base, const struct simba_reply *reply)
{
    struct look *look = (struct look *)base;
    struct sb_handover_watch *watch = look->watch;
    struct simba_handover request;

    SB_CHECK(atomic_load(&watch->looking), "a look is answered once");
    note_code(watch, reply->code);
    if (reply->code == SIMBA_OK && reply->property != NULL) {
        sb_handover_read(reply->property, &request);
        take_request(look, &request);
    }
    atomic_store(&watch->looking, false);
    sb_engine_tell_progress(watch->config.engine); /* on_acquired may wait for it */
    if (watch->looks_again)
        begin_look(watch, false);
    end_look(look);
}

static void begin_look(struct sb_handover_watch *watch, bool passes)
{
    struct look *look;

    watch->looks_again = atomic_load(&watch->looking);
    look = watch->looks_again ? NULL : make_look(watch);
    if (look == NULL)
        return;
    look->passes = passes;
    atomic_store(&watch->looking, true);
    ask(look, SIMBA_OP_GET_PROPERTY, on_looked);
}

/* What was asked before that went unheard. */
static void on_follow_due(struct sb_timer *timer)
{
    struct sb_handover_watch *watch = SB_CONTAINER(struct sb_handover_watch, follows, timer);

    SB_CHECK(on_loop(watch), "a timer fires on the loop thread");
    if (!sb_service_is_owner(watch->service))
        return;
    sb_service_follow(watch->service);
    begin_look(watch, false);
}

/* ---- A waiter with a priority ---------------------------------------------------------------- */

static void arm(struct sb_handover_watch *watch)
{
    sb_loop_arm(sb_engine_loop(watch->config.engine), &watch->timer,
                sb_later(simba_now_ms(), watch->config.after_ms));
}

static void set_waits(struct sb_handover_watch *watch, bool waits)
{
    SB_CHECK(on_loop(watch), "a wait begins and ends on the loop thread");
    if (watch->waits == waits || watch->config.after_ms == 0)
        return;
    watch->waits = waits;
    if (waits)
        arm(watch);
    else
        sb_loop_cancel(sb_engine_loop(watch->config.engine), &watch->timer);
}

static void end_asking(struct look *look)
{
    SB_CHECK(look->watch->asking, "a request of a waiter ends once");
    look->watch->asking = false;
    end_look(look);
}

static void on_written(struct sb_request *base, const struct simba_reply *reply)
{
    struct look *look = (struct look *)base;

    note_code(look->watch, reply->code);
    end_asking(look);
}

/* The owner hears of it with a renewal: it holds for two leases. */
static void on_owner(struct sb_request *base, const struct simba_reply *reply)
{
    struct look *look = (struct look *)base;
    struct sb_handover_watch *watch = look->watch;
    const struct sb_timing *timing = sb_service_timing(watch->service);
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    const char *id = sb_service_id(watch->service);
    bool has_owner = reply->code == SIMBA_OK && reply->owner != NULL && reply->owner[0] != '\0' &&
                     reply->transition_left_ms >= 0 && strcmp(reply->owner, id) != 0;

    if (!has_owner || !watch->waits) {
        end_asking(look);
        return;
    }
    sb_text_copy(request.owner, sizeof request.owner, reply->owner);
    sb_text_copy(request.to, sizeof request.to, id);
    sb_text_copy(request.by, sizeof request.by, id);
    request.fence = reply->fence;
    request.priority = atomic_load(&watch->priority);
    request.left_ms =
        sb_earlier(2 * (timing->ttl_ms + timing->transition_ms), SB_HANDOVER_VALID_MAX_MS);
    sb_handover_write(&request, look->value);
    ask(look, SIMBA_OP_SET_PROPERTY, on_written);
}

/* A person goes before a priority, and so does a waiter of the same or a higher one. */
static void on_present(struct sb_request *base, const struct simba_reply *reply)
{
    struct look *look = (struct look *)base;
    struct sb_handover_watch *watch = look->watch;
    struct simba_handover present = SIMBA_HANDOVER_NONE;
    bool is_mine;

    note_code(watch, reply->code);
    if (reply->code == SIMBA_OK && reply->property != NULL)
        sb_handover_read(reply->property, &present);
    is_mine = strcmp(present.to, sb_service_id(watch->service)) == 0;
    if (reply->code == SIMBA_OK && watch->waits &&
        (present.owner[0] == '\0' || is_mine ||
         (present.priority >= 0 && present.priority < atomic_load(&watch->priority))))
        ask(look, SIMBA_OP_READ, on_owner);
    else
        end_asking(look);
}

static void on_waited(struct sb_timer *timer)
{
    struct sb_handover_watch *watch = SB_CONTAINER(struct sb_handover_watch, timer, timer);
    struct look *look;

    SB_CHECK(on_loop(watch), "a timer fires on the loop thread");
    SB_CHECK(watch->waits, "the timer runs while a contender waits");
    arm(watch);
    if (watch->asking || atomic_load(&watch->priority) == 0)
        return;
    look = make_look(watch);
    if (look == NULL)
        return;
    watch->asking = true;
    ask(look, SIMBA_OP_GET_PROPERTY, on_present);
}

/* ---- What happens to the contender ----------------------------------------------------------- */

static void on_acquire_answered(struct sb_handover_watch *watch, const struct sb_event *event)
{
    bool failed = event->answer == SB_ANSWER_FAILED || event->answer == SB_ANSWER_UNKNOWN;

    if (watch->waiting_ms == 0 && (event->answer == SB_ANSWER_OTHER || event->reserved_left_ms > 0))
        watch->waiting_ms = event->now_ms;
    if (event->answer == SB_ANSWER_OTHER)
        set_waits(watch, true);
    else if (failed)
        set_waits(watch, false);
}

void sb_handover_watch_step(struct sb_handover_watch *watch, struct sb_service *service,
                            const struct sb_event *event, const struct sb_step *step)
{
    bool answers = event->type == SB_EVENT_REPLY;

    if (watch->service == NULL)
        watch->service = service;
    if (event->type == SB_EVENT_START)
        watch->waiting_ms = 0;
    if (step->acquired) {
        set_waits(watch, false);
        if (watch->waiting_ms != 0 &&
            event->now_ms - watch->waiting_ms >= watch->config.look_after_ms)
            begin_look(watch, true);
        watch->waiting_ms = 0;
        sb_loop_arm(sb_engine_loop(watch->config.engine), &watch->follows,
                    sb_later(event->now_ms, FOLLOW_MS));
    } else if (answers && event->op == SIMBA_OP_ACQUIRE) {
        on_acquire_answered(watch, event);
    } else if (answers && event->op == SIMBA_OP_GUARD && event->answer == SB_ANSWER_MINE &&
               sb_service_is_owner(service)) {
        begin_look(watch, false);
    } else if ((event->type == SB_EVENT_CHANGED || event->type == SB_EVENT_WAKE) &&
               sb_service_is_owner(service)) {
        begin_look(watch, false);
    }
    if (step->released)
        sb_loop_cancel(sb_engine_loop(watch->config.engine), &watch->follows);
    if (event->type == SB_EVENT_STOP || step->stopped)
        set_waits(watch, false);
}

static bool has_looked(void *argument)
{
    struct sb_handover_watch *watch = argument;

    return !atomic_load(&watch->looking);
}

void sb_handover_watch_await(struct sb_handover_watch *watch)
{
    if (!has_looked(watch))
        sb_engine_wait_progress(watch->config.engine, has_looked, watch,
                                sb_later(simba_now_ms(), LOOK_MS), NULL);
}

bool sb_handover_watch_asked(struct sb_handover_watch *watch, const struct sb_service *service,
                             struct simba_handover *ret_request)
{
    uint64_t fence = watch != NULL ? atomic_load(&watch->asked_fence) : 0;

    if (fence == 0 || fence != sb_service_fence(service))
        return false;
    if (ret_request != NULL) {
        pthread_mutex_lock(&watch->lock);
        *ret_request = watch->request;
        pthread_mutex_unlock(&watch->lock);
    }
    return true;
}

void sb_handover_watch_set_priority(struct sb_handover_watch *watch, int priority)
{
    atomic_store(&watch->priority, priority);
}

/* ---- Creation -------------------------------------------------------------------------------- */

int sb_handover_watch_create(const struct sb_handover_config *config,
                             struct sb_handover_watch **ret_watch, struct simba_error *error)
{
    struct sb_handover_watch *watch;

    if (config->on_handover == NULL)
        return SIMBA_OK;
    watch = sb_alloc_zero(sizeof *watch);
    if (watch == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    watch->config = *config;
    watch->refusals = sb_engine_has_properties(config->engine) ? 0 : REFUSALS_MAX;
    atomic_init(&watch->priority, config->priority);
    pthread_mutex_init(&watch->lock, NULL);
    watch->call.run = run_handover;
    watch->timer.fire = on_waited;
    watch->follows.fire = on_follow_due;
    *ret_watch = watch;
    return SIMBA_OK;
}

void sb_handover_watch_free(struct sb_handover_watch *watch)
{
    if (watch == NULL)
        return;
    pthread_mutex_destroy(&watch->lock);
    sb_free(watch);
}
