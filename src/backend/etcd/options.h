/*
 * options.h - what the URL of an etcd store says.
 *
 *     etcd://[user:password@]h1:2379,h2:2379[/PREFIX]?connect-timeout=5s        etcds:// over TLS
 */
#ifndef SB_ETCD_OPTIONS_H
#define SB_ETCD_OPTIONS_H

#include "backend/wire/stream.h"
#include "base/secret.h"
#include "base/url_options.h"

#include <simba/backend.h>

#define SB_ETCD_PLACES_MAX 16
#define SB_ETCD_PREFIX_MAX 256 /* bytes, with the last slash */

struct sb_etcd_options {
    struct sb_wire_place places[SB_ETCD_PLACES_MAX];
    size_t place_count;
    char prefix[SB_ETCD_PREFIX_MAX + 1]; /* of all keys; ends in a slash, or is empty */
    char *user;                          /* NULL: none */
    struct sb_secret password;
    bool tls;
    struct sb_wire_tls_options trust; /* with TLS */
    int64_t connect_timeout_ms;       /* to be connected, encrypted, authenticated */
    int64_t silence_ms;               /* command-timeout: of a server that owes an answer */
    int64_t lease_ms;                 /* ttl and transition of the client */
    int64_t ttl_ms;
};

/* What the URLs take. */
extern const struct sb_url_option sb_etcd_option_table[];

bool sb_etcd_serves(const char *scheme);

/* Reads everything and refuses what it does not know. The options are to be freed in any case. */
int sb_etcd_options_read(struct sb_etcd_options *options, const struct simba_backend_config *config,
                         struct simba_error *error);
void sb_etcd_options_free(struct sb_etcd_options *options);

#endif
