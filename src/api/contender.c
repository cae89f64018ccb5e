/*
 * contender.c - the public contender: a service with the application's callbacks.
 */
#include "api/client.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"

/* Lives as long as its service, and so while a callback runs. */
struct simba_contender {
    simba_client *client;
    struct sb_service *service;
};

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
    sb_client_forget(contender->client);
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
