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

/* What is behind a simba_client. */
struct sb_client {
    struct sb_handle *handle;
    struct sb_engine *engine;
    struct sb_events *events; /* NULL: it calls back */
    simba_id_generator *id_generator;
    void *id_user;
    _Atomic size_t objects; /* made from this client and not closed */
    _Atomic bool closing;   /* questions to the store are given up */
};

/* ---- client_call.c --------------------------------------------------------------------------- */

/* Around a call with a client: between the two the client is not freed, and a close waits for its
 * end. SIMBA_EMISUSE: NULL; SIMBA_ECLOSED; SIMBA_EFORKED. */
int sb_client_enter(simba_client *handle, const char *call, struct sb_client **ret_client,
                    struct simba_error *error);
void sb_client_leave(struct sb_client *client);

/* The first half of an entry, for the close: sb_handle_unpin ends it. */
int sb_client_pin(simba_client *handle, const char *call, struct sb_client **ret_client,
                  struct simba_error *error);

/* ---- client.c -------------------------------------------------------------------------------- */

/* What every URL takes behind the '?', on whatever store. */
extern const struct sb_url_option sb_client_url_options[];

/* Creates the service of an object, which counts as open until sb_client_remove_object. */
int sb_client_service(struct sb_client *client, const struct sb_service_config *config,
                      struct sb_service **ret_service, struct simba_error *error);

/* The same for a contender: checks the names and times, and makes an id if config->id is NULL. */
int sb_client_contender(struct sb_client *client, const struct sb_service_config *config,
                        struct sb_service **ret_service, struct simba_error *error);

/* Remove before the service is closed: that keeps the engine, and the close of the client waits for
 * it. */
void sb_client_remove_object(struct sb_client *client);

/* Says that no store serves the scheme, what stores this build has, and which one may have been
 * meant. Loads nothing. Returns SIMBA_ECONFIG. */
int sb_client_fail_scheme(const char *scheme, struct simba_error *error);

#endif
