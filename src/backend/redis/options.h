/*
 * options.h - what a URL says about the servers and how to talk to them.
 *
 *     redis://user:password@host:6379/0?connect-timeout=5s
 *     rediss://...                                   the same over TLS
 *     redis+unix:/run/redis.sock?db=0
 *     redis+sentinel://h1:26379,h2:26379/master-name/0      rediss+sentinel:// over TLS
 *     redis+cluster://h1:6379,h2:6379                       rediss+cluster:// over TLS
 *
 * "valkey" may stand for "redis" in all of them. docs/stores/redis.md lists the parameters.
 */
#ifndef SB_REDIS_OPTIONS_H
#define SB_REDIS_OPTIONS_H

#include "backend/wire/stream.h"
#include "base/secret.h"
#include "base/url_options.h"

#include <simba/backend.h>

#define SB_REDIS_PLACES_MAX 16

enum sb_redis_mode { SB_REDIS_SINGLE, SB_REDIS_SENTINEL, SB_REDIS_CLUSTER };

struct sb_redis_credentials {
    char *user; /* NULL: none */
    struct sb_secret password;
};

struct sb_redis_options {
    enum sb_redis_mode mode;
    /* The server; sentinels; or nodes to begin with. */
    struct sb_wire_place places[SB_REDIS_PLACES_MAX];
    size_t place_count;
    char *master_name; /* sentinel mode */
    int sentinel_any;  /* sentinel-quorum: 0 majority, 1 any */
    char *allow_hosts; /* that sentinels and cluster nodes may send us to: see wire/endpoint.h */
    struct sb_redis_credentials credentials;
    struct sb_redis_credentials sentinel_credentials;
    int64_t database;
    char *client_name;
    int64_t connect_timeout_ms; /* to be connected, encrypted, authenticated */
    int64_t command_timeout_ms; /* silence after a command that ends a connection */
    int64_t idle_timeout_ms;    /* silence after which the server is asked whether it is there */
    int64_t keep_alive_ms;      /* of TCP; 0: none */
    int64_t wait_replicas;      /* that must have a lease before it counts; 0: none */
    int64_t wait_timeout_ms;
    bool tls;
    struct sb_wire_tls_options trust; /* with TLS */
    int64_t transition_ms;            /* of the client, for records whose own is not known */
    int64_t lease_ms;
};

/* What a URL takes behind the '?'. */
extern const struct sb_url_option sb_redis_option_table[];

bool sb_redis_serves(const char *scheme);

/* Fills in *options. On failure nothing is left behind. */
int sb_redis_options_read(struct sb_redis_options *options,
                          const struct simba_backend_config *config, struct simba_error *error);
void sb_redis_options_free(struct sb_redis_options *options);

#endif
