/*
 * observer.c - the public observer: a service that only looks.
 */
#include "api/client.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"

#define DEFAULT_POLL_MS 1000

/* Lives as long as its service, and so while a callback runs. */
struct simba_observer {
    simba_client *client;
    struct sb_service *service;
};

static int read_options(const struct simba_observer_options *given,
                        struct simba_observer_options *ret_options, struct simba_error *error)
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
    code = read_options(given, &options, error);
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
    sb_client_remember(client);
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
    sb_client_forget(observer->client);
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
