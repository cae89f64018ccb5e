/*
 * client.h - what the objects made from a client need of it.
 */
#ifndef SB_API_CLIENT_H
#define SB_API_CLIENT_H

#include "api/events.h"
#include "base/url_options.h"
#include "runtime/service.h"

#include <stdatomic.h>

#define SB_CLIENT_URL_MAX 8192 /* bytes, more than a URL may have */

struct simba_client {
    struct sb_engine *engine;
    struct sb_events *events; /* NULL: it calls back */
    simba_id_generator *id_generator;
    void *id_user;
    _Atomic size_t objects; /* made from this client and not closed */
};

/* What every URL takes behind the '?', on whatever store. */
extern const struct sb_url_option sb_client_url_options[];

/* Checks the names and times, makes an id if config->id is NULL, and creates the service of a
 * contender. Counts as an object until sb_client_remove_object. */
int sb_client_contender(simba_client *client, const struct sb_service_config *config,
                        struct sb_service **ret_service, struct simba_error *error);

/* Remove before the service is closed: that keeps the engine, and the close of the client waits for
 * it. */
void sb_client_add_object(simba_client *client);
void sb_client_remove_object(simba_client *client);

/* Says that no store serves the scheme, what stores this build has, and which one may have been
 * meant. Loads nothing. Returns SIMBA_ECONFIG. */
int sb_client_fail_scheme(const char *scheme, struct simba_error *error);

#endif
