/*
 * contender.c - the public contender and the public observer: services with the application's
 * callbacks.
 */
#include "api/handover.h"
#include "api/object.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "runtime/view.h"

#define DEFAULT_POLL_MS 1000
#define DEFAULT_PRIORITY_AFTER_MS 30000
#define PRIORITY_AFTER_MIN_MS 100

/* Both live as long as their service, and so while a callback runs or a call has them pinned. */
struct sb_contender {
    struct sb_object base;           /* first */
    struct sb_handover_watch *watch; /* NULL: it takes no part in hand-overs */
    struct sb_event_source source;
};

struct sb_api_observer {
    struct sb_object base; /* first */
    struct sb_event_source source;
};

/* ---- Contender ------------------------------------------------------------------------------- */

static void on_gone(void *object)
{
    struct sb_contender *contender = object;

    sb_handover_watch_free(contender->watch);
    sb_free(contender);
}

static void on_step(void *object, struct sb_service *service, const struct sb_event *event,
                    const struct sb_step *step)
{
    const struct sb_contender *contender = object;

    if (contender->watch != NULL)
        sb_handover_watch_step(contender->watch, service, event, step);
}

static void before_acquired(void *object)
{
    const struct sb_contender *contender = object;

    if (contender->watch != NULL)
        sb_handover_watch_await(contender->watch);
}

static void on_stopped(void *object, int code)
{
    struct sb_contender *contender = object;

    if (contender->source.object != NULL)
        sb_event_on_stopped(&contender->source, code);
}

static const struct sb_service_hooks contender_hooks = {
    .stepped = on_step,
    .before_acquired = before_acquired,
    .stopped = on_stopped,
    .gone = on_gone,
};

/* The callbacks become events. */
static int pull_events(struct sb_contender *contender,
                       const struct simba_contender_options *options,
                       struct sb_service_calls *calls, struct simba_error *error)
{
    bool has_callbacks = options->on_acquired != NULL || options->on_released != NULL ||
                         options->on_renewed != NULL || options->on_notify != NULL ||
                         options->on_closed != NULL || options->on_handover != NULL;
    struct sb_events *events = contender->base.client->events;
    int code = sb_events_check(events, options->pull,
                               SIMBA_PULL_NOTIFIED | SIMBA_PULL_RENEWED | SIMBA_PULL_HANDOVER,
                               has_callbacks, error);

    if (code != SIMBA_OK || events == NULL)
        return code;
    contender->source = (struct sb_event_source){&contender->base, options->user};
    calls->on_acquired = sb_event_on_acquired;
    calls->on_released = sb_event_on_released;
    calls->on_renewed = options->pull & SIMBA_PULL_RENEWED ? sb_event_on_renewed : NULL;
    calls->on_notify = options->pull & SIMBA_PULL_NOTIFIED ? sb_event_on_notify : NULL;
    calls->on_closed = sb_event_on_closed;
    calls->user = &contender->source;
    return SIMBA_OK;
}

static int check_priority(int priority, struct simba_error *error)
{
    if (priority >= 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "the priority is %d; it must be 0 or more", priority);
}

/* Without on_handover a contender pays nothing for hand-overs. */
static int take_part(struct sb_contender *contender, const struct simba_contender_options *options,
                     struct simba_error *error)
{
    int64_t after_ms = options->priority_after_ms != SIMBA_UNSET ? options->priority_after_ms
                                                                 : DEFAULT_PRIORITY_AFTER_MS;
    struct sb_handover_config watch = {.engine = contender->base.client->engine,
                                       .on_handover = options->on_handover,
                                       .user = options->user,
                                       .priority = options->priority,
                                       .after_ms = after_ms};
    int code = check_priority(options->priority, error);

    if (code != SIMBA_OK)
        return code;
    if (options->pull & SIMBA_PULL_HANDOVER) {
        watch.on_handover = sb_event_on_handover;
        watch.user = &contender->source;
    }
    if (after_ms < PRIORITY_AFTER_MIN_MS)
        return sb_error_set(error, SIMBA_EINVAL, "priority_after_ms is %lld; it must be %d or more",
                            (long long)after_ms, PRIORITY_AFTER_MIN_MS);
    if (watch.on_handover == NULL && options->priority > 0)
        return sb_error_set(error, SIMBA_EINVAL, "a contender with a priority needs on_handover");
    return sb_handover_watch_create(&watch, &contender->watch, error);
}

static int create_contender(struct sb_client *client, const struct simba_contender_options *given,
                            simba_contender **ret_contender, struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_CONTENDER_OPTIONS_INIT",
                                                offsetof(struct simba_contender_options, id),
                                                sizeof(struct simba_contender_options)};
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct sb_service_config config = {0};
    struct sb_contender *contender;
    int code;

    code = sb_options_read(&form, given, &options, error);
    if (code != SIMBA_OK)
        return code;
    contender = sb_alloc_zero(sizeof *contender);
    if (contender == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    contender->base.client = client;
    config.mutex = options.mutex;
    config.id = options.id;
    config.ttl_ms = options.ttl_ms;
    config.transition_ms = options.transition_ms;
    config.calls.on_acquired = options.on_acquired;
    config.calls.on_released = options.on_released;
    config.calls.on_notify = options.on_notify;
    config.calls.on_renewed = options.on_renewed;
    config.calls.on_closed = options.on_closed;
    config.calls.user = options.user;
    config.calls.hooks = &contender_hooks;
    config.object = contender;
    code = pull_events(contender, &options, &config.calls, error);
    if (code == SIMBA_OK)
        code = take_part(contender, &options, error);
    if (code == SIMBA_OK)
        code = sb_client_contender(client, &config, &contender->base.service, error);
    if (code != SIMBA_OK) {
        on_gone(contender);
        return code;
    }
    *ret_contender = sb_service_handle(contender->base.service);
    return SIMBA_OK;
}

int simba_contender_create(simba_client *handle, const struct simba_contender_options *options,
                           simba_contender **ret_contender, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_contender == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_contender_create needs a client and ret_contender");
    code = sb_client_enter(handle, "simba_contender_create", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = create_contender(client, options, ret_contender, error);
    sb_client_leave(client);
    return code;
}

/* Pins the contender for a call that answers with a code. */
static int use_contender(simba_contender *handle, const char *call,
                         struct sb_contender **ret_contender, struct simba_error *error)
{
    void *object;
    int code = sb_handle_use(handle, call, "a contender", &object, error);

    if (code == SIMBA_OK)
        *ret_contender = object;
    return code;
}

int simba_contender_start(simba_contender *handle, struct simba_error *error)
{
    return sb_object_start(handle, "simba_contender_start", "a contender", error);
}

int simba_contender_stop(simba_contender *handle, struct simba_error *error)
{
    return sb_object_stop(handle, "simba_contender_stop", "a contender", error);
}

int simba_contender_begin_stop(simba_contender *handle, struct simba_error *error)
{
    struct sb_contender *contender;
    int code = use_contender(handle, "simba_contender_begin_stop", &contender, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_service_begin_stop(contender->base.service, error);
    sb_service_unpin(contender->base.service);
    return code;
}

void simba_contender_close(simba_contender *handle)
{
    sb_object_close(handle);
}

bool simba_contender_is_owner(const simba_contender *handle)
{
    return sb_view_is_owner_of(handle);
}

bool simba_contender_is_in_ttl(const simba_contender *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);

    return view != NULL && sb_view_is_in_ttl(view) && sb_handle_is_valid(handle);
}

int64_t simba_contender_place(const simba_contender *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);
    int64_t place = view != NULL ? sb_view_place(view) : 0;

    return sb_handle_is_valid(handle) ? place : 0;
}

uint64_t simba_contender_fence(const simba_contender *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);
    uint64_t fence = view != NULL ? sb_view_fence(view) : 0;

    return sb_handle_is_valid(handle) ? fence : 0;
}

enum simba_status simba_contender_status(const simba_contender *handle)
{
    return sb_view_status_of(handle);
}

int64_t simba_contender_deadline_ms(const simba_contender *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);
    int64_t deadline_ms = view != NULL ? sb_view_deadline_ms(view) : 0;

    return sb_handle_is_valid(handle) ? deadline_ms : 0;
}

int64_t simba_contender_window_ms(const simba_contender *handle)
{
    const struct sb_handle_view *view = sb_handle_look(handle);
    int64_t window_ms = view != NULL ? sb_view_window_ms(view) : 0;

    return sb_handle_is_valid(handle) ? window_ms : 0;
}

bool simba_contender_handover_asked(simba_contender *handle, struct simba_handover *ret_request)
{
    struct sb_contender *contender = sb_handle_ask(handle);
    bool asked;

    if (contender == NULL)
        return false;
    asked = sb_handover_watch_asked(contender->watch, contender->base.service, ret_request);
    sb_service_unpin(contender->base.service);
    return asked;
}

static int set_priority(const struct sb_contender *contender, int priority,
                        struct simba_error *error)
{
    int code = check_priority(priority, error);

    if (code == SIMBA_OK && contender->watch == NULL)
        code = sb_error_set(error, SIMBA_ESTATE, "a contender with a priority needs on_handover");
    if (code == SIMBA_OK)
        sb_handover_watch_set_priority(contender->watch, priority);
    return code;
}

int simba_contender_set_priority(simba_contender *handle, int priority, struct simba_error *error)
{
    struct sb_contender *contender;
    int code = use_contender(handle, "simba_contender_set_priority", &contender, error);

    if (code != SIMBA_OK)
        return code;
    code = set_priority(contender, priority, error);
    sb_service_unpin(contender->base.service);
    return code;
}

const char *simba_contender_id(const simba_contender *handle)
{
    return sb_object_id(handle);
}

const char *simba_contender_mutex(const simba_contender *handle)
{
    return sb_object_mutex(handle);
}

void simba_contender_state(simba_contender *handle, struct simba_state *ret_state)
{
    sb_object_state(handle, ret_state);
}

int simba_contender_last_error(simba_contender *handle, struct simba_error *error)
{
    struct sb_contender *contender;
    void *object;
    int code =
        sb_handle_ask_code(handle, "simba_contender_last_error", "a contender", &object, error);

    if (code != SIMBA_OK)
        return code;
    contender = object;
    code = sb_service_last_error(contender->base.service, error);
    sb_service_unpin(contender->base.service);
    return code;
}

void simba_contender_cleanup(simba_contender **contender)
{
    simba_contender_close(*contender);
}

/* ---- Observer -------------------------------------------------------------------------------- */

static int read_observer_options(const struct simba_observer_options *given,
                                 struct simba_observer_options *ret_options,
                                 struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_OBSERVER_OPTIONS_INIT",
                                                offsetof(struct simba_observer_options, on_notify),
                                                sizeof(struct simba_observer_options)};
    const struct simba_observer_options defaults = SIMBA_OBSERVER_OPTIONS_INIT;
    int code;

    *ret_options = defaults;
    code = sb_options_read(&form, given, ret_options, error);
    if (code != SIMBA_OK)
        return code;
    if (ret_options->poll_ms == SIMBA_UNSET)
        ret_options->poll_ms = DEFAULT_POLL_MS;
    if (ret_options->poll_ms < 1 || ret_options->poll_ms > INT32_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "poll_ms is %lld; it must be from 1 to %d",
                            (long long)ret_options->poll_ms, INT32_MAX);
    return simba_mutex_validate(ret_options->mutex, error);
}

/* The callbacks become events. */
static int pull_observer_events(struct sb_api_observer *observer,
                                const struct simba_observer_options *options,
                                struct sb_service_calls *calls, struct simba_error *error)
{
    bool has_callbacks = options->on_notify != NULL || options->on_closed != NULL;
    struct sb_events *events = observer->base.client->events;
    int code = sb_events_check(events, 0, 0, has_callbacks, error);

    if (code != SIMBA_OK || events == NULL)
        return code;
    observer->source = (struct sb_event_source){&observer->base, options->user};
    calls->on_notify = sb_event_on_notify;
    calls->on_closed = sb_event_on_closed;
    calls->user = &observer->source;
    return SIMBA_OK;
}

static const struct sb_service_hooks observer_hooks = {.gone = sb_free};

static int create_observer(struct sb_client *client, const struct simba_observer_options *given,
                           simba_observer **ret_observer, struct simba_error *error)
{
    struct simba_observer_options options;
    struct sb_service_config config = {0};
    struct sb_api_observer *observer;
    int code;

    code = read_observer_options(given, &options, error);
    if (code != SIMBA_OK)
        return code;
    observer = sb_alloc(sizeof *observer);
    if (observer == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    config.mutex = options.mutex;
    config.poll_ms = options.poll_ms;
    config.calls.on_notify = options.on_notify;
    config.calls.on_closed = options.on_closed;
    config.calls.user = options.user;
    config.calls.hooks = &observer_hooks;
    config.object = observer;
    observer->base.client = client;
    code = pull_observer_events(observer, &options, &config.calls, error);
    if (code == SIMBA_OK)
        code = sb_client_service(client, &config, &observer->base.service, error);
    if (code != SIMBA_OK) {
        sb_free(observer);
        return code;
    }
    *ret_observer = sb_service_handle(observer->base.service);
    return SIMBA_OK;
}

int simba_observer_create(simba_client *handle, const struct simba_observer_options *options,
                          simba_observer **ret_observer, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_observer == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_observer_create needs a client and ret_observer");
    code = sb_client_enter(handle, "simba_observer_create", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = create_observer(client, options, ret_observer, error);
    sb_client_leave(client);
    return code;
}

int simba_observer_start(simba_observer *handle, struct simba_error *error)
{
    return sb_object_start(handle, "simba_observer_start", "an observer", error);
}

int simba_observer_stop(simba_observer *handle, struct simba_error *error)
{
    return sb_object_stop(handle, "simba_observer_stop", "an observer", error);
}

void simba_observer_close(simba_observer *handle)
{
    sb_object_close(handle);
}

enum simba_status simba_observer_status(const simba_observer *handle)
{
    return sb_view_status_of(handle);
}

const char *simba_observer_mutex(const simba_observer *handle)
{
    return sb_object_mutex(handle);
}

void simba_observer_state(simba_observer *handle, struct simba_state *ret_state)
{
    sb_object_state(handle, ret_state);
}

void simba_observer_cleanup(simba_observer **observer)
{
    simba_observer_close(*observer);
}
