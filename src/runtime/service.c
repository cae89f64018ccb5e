/*
 * service.c - references to a service, what other threads may ask of it, and the queue of its
 * callbacks.
 *
 * The holder of the handle has one reference; so do each request under way, a start that waits for
 * its turn, a busy queue of callbacks, and a task in the inbox that comes from there. The last one
 * frees the service, on whatever thread.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/container.h"
#include "base/error.h"
#include "base/fork.h"

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
    sb_strand_end(&s->strand);
    sb_packed_free(&s->packed);
    sb_free(s->own_timing);
    sb_free(s->last_error);
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
    if (s->calls.gone != NULL)
        s->calls.gone(s->calls.object);
    sb_service_free(s);
    sb_engine_pending_remove(engine);
}

/* ---- What other threads may ask -------------------------------------------------------------- */

/* In a child nothing runs. */
enum simba_status sb_service_status(const struct sb_service *s)
{
    if (s->engine->forks != sb_fork_count())
        return SIMBA_INITIAL;
    return (enum simba_status)atomic_load_explicit(&s->status, memory_order_acquire);
}

/* The status is asked too, because a stop ends the belief before the loop has heard of it. */
int64_t sb_service_deadline_ms(const struct sb_service *s)
{
    if (sb_service_status(s) != SIMBA_RUNNING)
        return 0;
    return atomic_load_explicit(&s->belief_ms, memory_order_acquire);
}

bool sb_service_is_owner(const struct sb_service *s)
{
    int64_t until_ms = sb_service_deadline_ms(s);

    return until_ms > 0 && simba_now_ms() < until_ms;
}

bool sb_service_is_in_ttl(const struct sb_service *s)
{
    return sb_service_is_owner(s) &&
           simba_now_ms() < atomic_load_explicit(&s->ttl_ms, memory_order_acquire);
}

/* Between the two loads a term may end and another begin; then it is asked again. */
uint64_t sb_service_fence(const struct sb_service *s)
{
    uint64_t fence = atomic_load_explicit(&s->fence, memory_order_acquire);

    for (;;) {
        bool owner = sb_service_is_owner(s);
        uint64_t again = atomic_load_explicit(&s->fence, memory_order_acquire);

        if (fence == again)
            return owner ? fence : 0;
        fence = again;
    }
}

int64_t sb_service_window_ms(const struct sb_service *s)
{
    int64_t until_ms = sb_service_deadline_ms(s);

    return until_ms > 0 ? until_ms - atomic_load_explicit(&s->ttl_ms, memory_order_acquire) : 0;
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
    pthread_mutex_lock(&s->engine->state_lock);
    if (sb_service_status(s) != SIMBA_STARTING)
        sb_packed_state(&s->packed, ret_state);
    pthread_mutex_unlock(&s->engine->state_lock);
    sb_service_tell_times(s, &ret_state->before);
    sb_service_tell_times(s, &ret_state->after);
}

int sb_service_last_error(struct sb_service *s, struct simba_error *error)
{
    int code = sb_engine_check_process(s->engine, error);
    union sb_any_machine machine;

    if (code != SIMBA_OK)
        return code;
    pthread_mutex_lock(&s->engine->state_lock);
    sb_packed_get_machine(&s->packed, &machine);
    code = sb_service_is_observer(s) ? machine.observer.last_code : machine.contender.last_code;
    if (code != SIMBA_OK && s->last_error != NULL && s->last_error->code == code && error != NULL)
        *error = *s->last_error;
    else
        sb_error_plain(error, code);
    pthread_mutex_unlock(&s->engine->state_lock);
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

void sb_service_set_on_closed(struct sb_service *s, simba_closed_fn *on_closed, void *user)
{
    s->calls.on_closed = on_closed;
    s->calls.closed_user = user;
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
    sb_strand_end_thread(&s->strand);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void on_strand_idle(struct sb_strand *strand)
{
    sb_service_drop(SB_CONTAINER(struct sb_service, strand, strand));
}

int sb_service_init_calls(struct sb_service *s)
{
    return sb_strand_init(&s->strand, s->engine->dispatcher, on_strand_idle);
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
