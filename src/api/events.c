/*
 * events.c - the queue of events that the application has not taken, and the descriptor that is
 * readable while there is something to take.
 *
 *     a service has news -> its strand waits in the dispatcher -> wake: the descriptor is readable
 *     simba_client_next_event -> runs a strand -> its callbacks add events -> returns the first
 *
 * So a contender's callback "returns" when its event is taken, and all that waits for the return of
 * a callback waits for that. Stop, close and acquire run strands, too, and leave the events in the
 * queue.
 */
#include "api/events.h"

#include "api/locker.h"
#include "api/object.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct entry {
    struct simba_event event;
    struct entry *next;
};

struct sb_events {
    pthread_mutex_t lock;
    struct entry *first;
    struct entry *last;
    bool missed; /* memory was short: an event could not be kept */
    int fd;
};

/* ---- The queue ------------------------------------------------------------------------------- */

static void wake(void *user)
{
    const struct sb_events *events = user;

    eventfd_write(events->fd, 1); /* full only where it is readable anyhow */
}

/* `id` may be NULL. */
static void add(struct sb_events *events, const struct simba_event *event, const char *mutex,
                const char *id)
{
    struct entry *entry = sb_alloc(sizeof *entry);

    if (entry != NULL) {
        entry->event = *event;
        entry->next = NULL;
        sb_text_copy(entry->event.mutex, sizeof entry->event.mutex, mutex);
        if (id != NULL)
            sb_text_copy(entry->event.id, sizeof entry->event.id, id);
    }
    pthread_mutex_lock(&events->lock);
    if (entry == NULL)
        events->missed = true;
    else if (events->last != NULL)
        events->last->next = entry;
    else
        events->first = entry;
    if (entry != NULL)
        events->last = entry;
    wake(events);
    pthread_mutex_unlock(&events->lock);
}

/* Returns NULL when there is none. */
static struct entry *take(struct sb_events *events, bool *ret_missed)
{
    struct entry *entry;

    pthread_mutex_lock(&events->lock);
    *ret_missed = events->missed;
    events->missed = false;
    entry = *ret_missed ? NULL : events->first;
    if (entry != NULL)
        events->first = entry->next;
    if (events->first == NULL)
        events->last = NULL;
    pthread_mutex_unlock(&events->lock);
    return entry;
}

/* Also runs what waits to be run, until that brings an event. */
static struct entry *take_or_run(struct sb_client *client, bool *ret_missed)
{
    struct entry *entry = take(client->events, ret_missed);

    while (entry == NULL && !*ret_missed && sb_engine_pull(client->engine))
        entry = take(client->events, ret_missed);
    return entry;
}

/* What comes after the descriptor has been cleared makes it readable again. */
static struct entry *take_or_clear(struct sb_client *client, bool *ret_missed)
{
    struct entry *entry = take_or_run(client, ret_missed);
    eventfd_t ignored;

    if (entry != NULL || *ret_missed)
        return entry;
    eventfd_read(client->events->fd, &ignored);
    entry = take_or_run(client, ret_missed);
    if (entry != NULL)
        wake(client->events); /* there may be more */
    return entry;
}

/* ---- What callbacks become ------------------------------------------------------------------- */

static void add_of(const struct sb_event_source *source, struct simba_event *event)
{
    const struct sb_service *service = source->object->service;

    event->user = source->user;
    add(source->object->client->events, event, sb_service_mutex(service), sb_service_id(service));
}

static void add_state(const struct sb_event_source *source, enum simba_event_type type,
                      const struct simba_state *state, uint64_t fence)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = type;
    event.state = *state;
    event.fence = fence;
    event.deadline_ms = sb_service_deadline_ms(source->object->service);
    add_of(source, &event);
}

void sb_event_on_acquired(void *source, const struct simba_state *state)
{
    add_state(source, SIMBA_EVENT_ACQUIRED, state, state->after.fence);
}

void sb_event_on_released(void *source, const struct simba_state *state)
{
    add_state(source, SIMBA_EVENT_RELEASED, state, state->before.fence);
}

void sb_event_on_renewed(void *source, const struct simba_state *state)
{
    add_state(source, SIMBA_EVENT_RENEWED, state, state->after.fence);
}

void sb_event_on_notify(void *source, const struct simba_state *state)
{
    add_state(source, SIMBA_EVENT_NOTIFIED, state, state->after.fence);
}

void sb_event_on_handover(void *source, const struct simba_handover *request)
{
    const struct sb_event_source *from = source;
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_HANDOVER;
    event.handover = *request;
    event.fence = sb_service_fence(from->object->service);
    event.deadline_ms = sb_service_deadline_ms(from->object->service);
    add_of(from, &event);
}

void sb_event_on_stopped(struct sb_event_source *source, int code)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_STOPPED;
    event.code = code;
    add_of(source, &event);
}

void sb_event_on_closed(void *source)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_CLOSED;
    add_of(source, &event);
}

/* ---- For the objects of a client ------------------------------------------------------------- */

int sb_events_check(const struct sb_events *events, unsigned pull, unsigned allowed,
                    bool has_callbacks, struct simba_error *error)
{
    if (events == NULL && pull != 0)
        return sb_error_set(error, SIMBA_EINVAL, "`pull` needs a client with pull_events");
    if (events != NULL && has_callbacks)
        return sb_error_set(error, SIMBA_EINVAL,
                            "a client with pull_events has no callbacks: take events");
    if ((pull & ~allowed) != 0)
        return sb_error_set(error, SIMBA_EINVAL, "`pull` is %#x; this object can tell %#x", pull,
                            allowed);
    return SIMBA_OK;
}

/* ---- Lockers --------------------------------------------------------------------------------- */

struct sb_locker_source {
    struct sb_events *events;
    struct sb_locker *locker; /* not touched by the last event */
    void *user;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

static void add_of_locker(const struct sb_locker_source *source, struct simba_event *event)
{
    const struct sb_locker_ops *ops = source->locker->ops;

    event->user = source->user;
    event->fence = ops->fence(source->locker, NULL);
    event->deadline_ms = ops->deadline_ms(source->locker);
    add(source->events, event, source->mutex, ops->id(source->locker));
}

static void on_locker_lost(void *user)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_LOST;
    event.code = SIMBA_ELOST;
    add_of_locker(user, &event);
}

static void on_locker_handover(void *user, const struct simba_handover *request)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_HANDOVER;
    event.handover = *request;
    add_of_locker(user, &event);
}

static void on_locker_closed(void *user)
{
    struct sb_locker_source *source = user;
    struct simba_event event = SIMBA_EVENT_INIT;

    event.type = SIMBA_EVENT_CLOSED;
    event.user = source->user;
    add(source->events, &event, source->mutex, NULL);
    sb_free(source);
}

int sb_events_take_locker(struct sb_events *events, const char *mutex,
                          struct simba_locker_options *options,
                          struct sb_locker_source **ret_source, struct simba_error *error)
{
    bool has_callbacks =
        options->on_lost != NULL || options->on_closed != NULL || options->on_handover != NULL;
    int code = sb_events_check(events, options->pull, SIMBA_PULL_HANDOVER, has_callbacks, error);
    struct sb_locker_source *source;

    *ret_source = NULL;
    if (code != SIMBA_OK || events == NULL)
        return code;
    source = sb_alloc_zero(sizeof *source);
    if (source == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    source->events = events;
    source->user = options->user;
    sb_text_copy(source->mutex, sizeof source->mutex, mutex);
    options->on_lost = on_locker_lost;
    options->on_closed = on_locker_closed;
    options->on_handover = options->pull & SIMBA_PULL_HANDOVER ? on_locker_handover : NULL;
    options->user = source;
    *ret_source = source;
    return SIMBA_OK;
}

/* NULL is allowed. */
void sb_events_set_locker(struct sb_locker_source *source, struct sb_locker *locker)
{
    if (source != NULL)
        source->locker = locker;
}

/* ---- For the client -------------------------------------------------------------------------- */

struct sb_pull sb_events_pull(struct sb_events *events)
{
    return (struct sb_pull){wake, events};
}

int sb_events_create(struct sb_events **ret_events, struct simba_error *error)
{
    struct sb_events *events = sb_alloc_zero(sizeof *events);

    if (events == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (events->fd < 0) {
        int code = sb_error_set(error, SIMBA_ENOMEM, "cannot make the descriptor of events: %s",
                                strerror(errno));
        sb_free(events);
        return code;
    }
    pthread_mutex_init(&events->lock, NULL);
    *ret_events = events;
    return SIMBA_OK;
}

void sb_events_free(struct sb_events *events)
{
    struct entry *entry;
    bool missed;

    if (events == NULL)
        return;
    do {
        entry = take(events, &missed);
        sb_free(entry);
    } while (entry != NULL || missed);
    pthread_mutex_destroy(&events->lock);
    close(events->fd);
    sb_free(events);
}

/* ---- The public functions -------------------------------------------------------------------- */

int simba_client_event_fd(const simba_client *handle)
{
    struct sb_client *client;
    int fd = -1;

    if (sb_client_enter((simba_client *)handle, "simba_client_event_fd", &client, NULL) != SIMBA_OK)
        return -1;
    if (client->events != NULL)
        fd = client->events->fd;
    sb_client_leave(client);
    return fd;
}

static int next_event(struct sb_client *client, struct simba_event *ret_event,
                      struct simba_error *error)
{
    const struct simba_event none = SIMBA_EVENT_INIT;
    struct entry *entry;
    size_t size;
    bool missed;

    if (client->events == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "the client calls back: it was not opened with pull_events");
    entry = take_or_clear(client, &missed);
    if (missed)
        return sb_error_set(error, SIMBA_ENOMEM, "events were missed: ask the objects");
    size = ret_event->size;
    memcpy(ret_event, entry != NULL ? &entry->event : &none,
           size < sizeof none ? size : sizeof none);
    ret_event->size = size;
    sb_free(entry);
    return SIMBA_OK;
}

int simba_client_next_event(simba_client *handle, struct simba_event *ret_event,
                            struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_event == NULL || ret_event->size < sizeof ret_event->size)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_next_event needs a client and an event that "
                            "SIMBA_EVENT_INIT has initialised");
    code = sb_client_enter(handle, "simba_client_next_event", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = next_event(client, ret_event, error);
    sb_client_leave(client);
    return code;
}
