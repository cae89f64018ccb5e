/*
 * address.h - what the URL of a database server says: where it is, who connects, how.
 *
 *     scheme://user:password@host:port,host:port/database?socket=PATH&tls=on&tls-ca=FILE
 *
 * Whatever is missing is left to the client library and its own files and variables.
 */
#ifndef SB_SQL_ADDRESS_H
#define SB_SQL_ADDRESS_H

#include "base/secret.h"
#include "base/shared.h"

#include <simba/backend.h>

#define SB_SQL_HOSTS_MAX 16

enum sb_sql_tls {
    SB_SQL_TLS_UNSET, /* as the client library does by itself */
    SB_SQL_TLS_OFF,
    SB_SQL_TLS_ENCRYPT, /* without a look at the certificate */
    SB_SQL_TLS_VERIFY   /* the certificate and the name in it */
};

struct sb_sql_host {
    char *name;
    int port; /* 0: the usual one */
};

/* Strings are NULL where the URL says nothing. */
struct sb_sql_address {
    struct sb_sql_host hosts[SB_SQL_HOSTS_MAX];
    size_t host_count;
    char *socket;
    char *user;
    struct sb_secret password;
    char *database;
    enum sb_sql_tls tls;
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    int64_t connect_timeout_ms;
    int64_t timeout_ms; /* how long a request may take at most */
    int64_t poll_ms;    /* the longest time between two looks at what is waited for */
};

/* The options that are read here, for the table of a backend. */
#define SB_SQL_ADDRESS_OPTIONS                                                                     \
    {"socket", SIMBA_OPTION_PATH, NULL}, {"tls", SIMBA_OPTION_SWITCH, "on off"},                   \
        {"tls-verify", SIMBA_OPTION_SWITCH, "yes no"}, {"tls-ca", SIMBA_OPTION_PATH, NULL},        \
        {"tls-cert", SIMBA_OPTION_PATH, NULL}, {"tls-key", SIMBA_OPTION_PATH, NULL},               \
        {"connect-timeout", SIMBA_OPTION_DURATION, NULL},                                          \
        {"timeout", SIMBA_OPTION_DURATION, NULL},                                                  \
    {                                                                                              \
        "poll", SIMBA_OPTION_DURATION, NULL                                                        \
    }

/* On failure `address` holds nothing. */
int sb_sql_address_read(struct sb_sql_address *address, simba_url *url, struct simba_error *error)
    SB_SHARED("sql_address_read");
void sb_sql_address_clear(struct sb_sql_address *address) SB_SHARED("sql_address_clear");

/* A copy that is freed with sb_free; none of NULL. */
int sb_sql_copy(char **target, const char *text, struct simba_error *error) SB_SHARED("sql_copy");

#endif
