/*
 * contender.c - the public contender and the public observer: services with the application's
 * callbacks.
 */
#include "api/client.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"

#define DEFAULT_POLL_MS 1000

/* Both live as long as their service, and so while a callback runs. */
struct simba_contender {
    simba_client *client;
    struct sb_service *service;
};

struct simba_observer {
    simba_client *client;
    struct sb_service *service;
};

/* ---- Contender ------------------------------------------------------------------------------- */

int simba_contender_create(simba_client *client, const struct simba_contender_options *given,
                           simba_contender **ret_contender, struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_CONTENDER_OPTIONS_INIT",
                                                offsetof(struct simba_contender_options, id),
                                                sizeof(struct simba_contender_options)};
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct sb_service_config config = {0};
    simba_contender *contender;
    int code;

    if (client == NULL || ret_contender == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_contender_create needs a client and ret_contender");
    code = sb_options_read(&form, given, &options, error);
    if (code != SIMBA_OK)
        return code;
    contender = sb_alloc(sizeof *contender);
    if (contender == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    config.mutex = options.mutex;
    config.id = options.id;
    config.ttl_ms = options.ttl_ms;
    config.transition_ms = options.transition_ms;
    config.calls.on_acquired = options.on_acquired;
    config.calls.on_released = options.on_released;
    config.calls.on_notify = options.on_notify;
    config.calls.on_renewed = options.on_renewed;
    config.calls.user = options.user;
    config.calls.on_closed = options.on_closed;
    config.calls.closed_user = options.user;
    config.calls.gone = sb_free;
    config.calls.object = contender;
    code = sb_client_contender(client, &config, &contender->service, error);
    if (code != SIMBA_OK) {
        sb_free(contender);
        return code;
    }
    contender->client = client;
    *ret_contender = contender;
    return SIMBA_OK;
}

int simba_contender_start(simba_contender *contender, struct simba_error *error)
{
    if (contender == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_contender_start needs a contender");
    return sb_service_start(contender->service, error);
}

int simba_contender_stop(simba_contender *contender, struct simba_error *error)
{
    if (contender == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_contender_stop needs a contender");
    return sb_service_stop(contender->service, error);
}

void simba_contender_close(simba_contender *contender)
{
    if (contender == NULL || sb_engine_check_process(contender->client->engine, NULL) != SIMBA_OK)
        return;
    sb_client_remove_object(contender->client);
    sb_service_close(contender->service);
}

bool simba_contender_is_owner(const simba_contender *contender)
{
    return sb_service_is_owner(contender->service);
}

bool simba_contender_is_in_ttl(const simba_contender *contender)
{
    return sb_service_is_in_ttl(contender->service);
}

int64_t simba_contender_place(const simba_contender *contender)
{
    return sb_service_place(contender->service);
}

uint64_t simba_contender_fence(const simba_contender *contender)
{
    return sb_service_fence(contender->service);
}

enum simba_status simba_contender_status(const simba_contender *contender)
{
    return sb_service_status(contender->service);
}

int64_t simba_contender_deadline_ms(const simba_contender *contender)
{
    return sb_service_deadline_ms(contender->service);
}

int64_t simba_contender_window_ms(const simba_contender *contender)
{
    return sb_service_window_ms(contender->service);
}

const char *simba_contender_id(const simba_contender *contender)
{
    return sb_service_id(contender->service);
}

const char *simba_contender_mutex(const simba_contender *contender)
{
    return sb_service_mutex(contender->service);
}

void simba_contender_state(simba_contender *contender, struct simba_state *ret_state)
{
    sb_service_state(contender->service, ret_state);
}

int simba_contender_last_error(simba_contender *contender, struct simba_error *error)
{
    if (contender == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_contender_last_error needs a contender");
    return sb_service_last_error(contender->service, error);
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

int simba_observer_create(simba_client *client, const struct simba_observer_options *given,
                          simba_observer **ret_observer, struct simba_error *error)
{
    struct simba_observer_options options;
    struct sb_service_config config = {0};
    simba_observer *observer;
    int code;

    if (client == NULL || ret_observer == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_observer_create needs a client and ret_observer");
    code = read_observer_options(given, &options, error);
    if (code != SIMBA_OK)
        return code;
    observer = sb_alloc(sizeof *observer);
    if (observer == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    config.mutex = options.mutex;
    config.poll_ms = options.poll_ms;
    config.calls.on_notify = options.on_notify;
    config.calls.user = options.user;
    config.calls.on_closed = options.on_closed;
    config.calls.closed_user = options.user;
    config.calls.gone = sb_free;
    config.calls.object = observer;
    code = sb_service_create(client->engine, &config, &observer->service, error);
    if (code != SIMBA_OK) {
        sb_free(observer);
        return code;
    }
    sb_client_add_object(client);
    observer->client = client;
    *ret_observer = observer;
    return SIMBA_OK;
}

int simba_observer_start(simba_observer *observer, struct simba_error *error)
{
    if (observer == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_observer_start needs an observer");
    return sb_service_start(observer->service, error);
}

int simba_observer_stop(simba_observer *observer, struct simba_error *error)
{
    if (observer == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_observer_stop needs an observer");
    return sb_service_stop(observer->service, error);
}

void simba_observer_close(simba_observer *observer)
{
    if (observer == NULL || sb_engine_check_process(observer->client->engine, NULL) != SIMBA_OK)
        return;
    sb_client_remove_object(observer->client);
    sb_service_close(observer->service);
}

enum simba_status simba_observer_status(const simba_observer *observer)
{
    return sb_service_status(observer->service);
}

const char *simba_observer_mutex(const simba_observer *observer)
{
    return sb_service_mutex(observer->service);
}

void simba_observer_state(simba_observer *observer, struct simba_state *ret_state)
{
    sb_service_state(observer->service, ret_state);
}

void simba_observer_cleanup(simba_observer **observer)
{
    simba_observer_close(*observer);
}
