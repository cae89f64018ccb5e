/*
 * client.h - what the objects made from a client need of it.
 */
#ifndef SB_API_CLIENT_H
#define SB_API_CLIENT_H

#include "base/url_options.h"
#include "runtime/service.h"

#include <stdatomic.h>

struct simba_client {
    struct sb_engine *engine;
    simba_id_generator *id_generator;
    void *id_user;
    _Atomic size_t handles; /* made from this client and not closed */
};

/* What every URL takes behind the '?', on whatever store. */
extern const struct sb_url_option sb_client_url_options[];

/* Checks the names and times, makes an id where config->id is NULL, and creates the service of a
 * contender. Counts as a handle until sb_client_forget. */
int sb_client_contender(simba_client *client, const struct sb_service_config *config,
                        struct sb_service **ret_service, struct simba_error *error);

/* The second before the service is closed: that keeps the engine, and the close of the client waits
 * for it. */
void sb_client_remember(simba_client *client);
void sb_client_forget(simba_client *client);

/* Whether a lease of these two parts can be kept. */
int sb_client_check_lease(int64_t ttl_ms, int64_t transition_ms, struct simba_error *error);

#endif
