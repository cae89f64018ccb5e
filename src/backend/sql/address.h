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
#include "base/url_options.h"

#include <simba/backend.h>

#include <stddef.h>

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
    bool tls_on; /* what the URL says, or else true, like the next one */
    bool tls_verify;
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    int64_t connect_timeout_ms;
    int64_t timeout_ms; /* how long a request may take at most */
    int64_t poll_ms;    /* the longest time between two looks at what is waited for */
};

/* The rows of these options in the table of a store, whose settings begin with the address. Member,
 * otherwise, least, most, when. */
#define SB_SQL_ADDRESS_AT(member) offsetof(struct sb_sql_address, member)
#define SB_SQL_ADDRESS_OPTIONS                                                                     \
    SB_URL_OPTION(PATH, "socket", NULL, SB_SQL_ADDRESS_AT(socket), 0, 0, 0, 0),                    \
        SB_URL_OPTION(SWITCH, "tls", "on off", SB_SQL_ADDRESS_AT(tls_on), true, 0, 0, 0),          \
        SB_URL_OPTION(SWITCH, "tls-verify", "yes no", SB_SQL_ADDRESS_AT(tls_verify), true, 0, 0,   \
                      0),                                                                          \
        SB_URL_OPTION(PATH, "tls-ca", NULL, SB_SQL_ADDRESS_AT(tls_ca), 0, 0, 0, 0),                \
        SB_URL_OPTION(PATH, "tls-cert", NULL, SB_SQL_ADDRESS_AT(tls_cert), 0, 0, 0, 0),            \
        SB_URL_OPTION(PATH, "tls-key", NULL, SB_SQL_ADDRESS_AT(tls_key), 0, 0, 0, 0),              \
        SB_URL_OPTION(DURATION, "connect-timeout", NULL, SB_SQL_ADDRESS_AT(connect_timeout_ms),    \
                      5000, 1, 0, 0),                                                              \
        SB_URL_OPTION(DURATION, "timeout", NULL, SB_SQL_ADDRESS_AT(timeout_ms), 5000, 1, 0, 0),    \
        SB_URL_OPTION(DURATION, "poll", NULL, SB_SQL_ADDRESS_AT(poll_ms), 200, 1, 0, 0)

/* Fills in the address, and what else the table names in the settings of the store, which are
 * zeroed before. On failure `address` holds nothing. The caller looks for options that are not in
 * the table. */
int sb_sql_address_read(struct sb_sql_address *address, const struct sb_url_option *table,
                        simba_url *url, struct simba_error *error) SB_SHARED("sql_address_read");
void sb_sql_address_clear(struct sb_sql_address *address, const struct sb_url_option *table)
    SB_SHARED("sql_address_clear");

/* A copy that is freed with sb_free; none of NULL. */
int sb_sql_copy(char **target, const char *text, struct simba_error *error) SB_SHARED("sql_copy");

#endif
