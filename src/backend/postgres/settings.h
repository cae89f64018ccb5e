/*
 * settings.h - what all connections of one PostgreSQL client have in common, in the words of libpq.
 *
 * The URL's values win; what it leaves out libpq takes from PGSERVICE, PGHOST and its other
 * variables as it always does. Of the files that it looks for in HOME, which may be another user's,
 * it gets to see the service file and the password file, where they are to be trusted, and none of
 * ~/.postgresql.
 */
#ifndef SB_POSTGRES_SETTINGS_H
#define SB_POSTGRES_SETTINGS_H

#include "backend/sql/address.h"

#include <libpq-fe.h>
#include <stdatomic.h>

#define SB_POSTGRES_KEYWORDS_MAX 28
#define SB_POSTGRES_CHANNEL_MAX 32

struct sb_postgres_settings {
    struct sb_sql_address address;         /* first: see sb_sql_address_read */
    const struct simba_backend_host *host; /* for its log; set behind the reading, may be NULL */
    char *hosts;                           /* separated by commas, like the ports */
    char *ports;
    char *service;
    char *
        password_file; /* libpq's, not the URL's; NULL: it is not asked for, or HOME says nothing */
    int target_word;   /* the URL's, in the list of the option */
    char *target;      /* which of several hosts to use: "read-write", "any" */
    const char *keywords[SB_POSTGRES_KEYWORDS_MAX];
    const char *values[SB_POSTGRES_KEYWORDS_MAX];

    /* A pooler hands every transaction to another session, which does not have what was
     * prepared. */
    atomic_bool unprepared;

    /* A session did not answer in time, although its waits are limited: something may have undone
     * the limit, and may do it again. The next connection sends it with each request. */
    atomic_bool doubted;

    atomic_bool warned_of_other; /* a second table, in another schema */
    atomic_bool warned_of_queue; /* the table of waiters cannot be used */
    atomic_bool warned_of_order; /* it has no index */

    char channel[SB_POSTGRES_CHANNEL_MAX]; /* on which waiters of this client are told */
};

/* What the URLs take behind the '?'. */
extern const struct sb_url_option sb_postgres_options[];

/* On failure `settings` holds nothing. The caller looks for options that nobody knows. */
int sb_postgres_settings_read(struct sb_postgres_settings *settings, simba_url *url,
                              struct simba_error *error);
void sb_postgres_settings_clear(struct sb_postgres_settings *settings);

/* Whether the URL asks for TLS, verified or not. */
bool sb_postgres_settings_need_tls(const struct sb_postgres_settings *settings);

/* How many hosts the URL names; 1 where libpq's variables do. */
size_t sb_postgres_settings_hosts(const struct sb_postgres_settings *settings);

/* Begins to connect to one of the hosts behind the first `skipped` ones, with what stands in the
 * password file now; see PQconnectPoll. libpq tries the next host when one refuses, and waits for
 * ever for one that is silent. Fails where libpq would open a file that is not to be trusted, and
 * when memory is short. Where the file cannot be read any more the password of before is used, and
 * *ret_unread tells why: of interest when the server refuses it. NULL: nobody asks. */
int sb_postgres_settings_connect(const struct sb_postgres_settings *settings, size_t skipped,
                                 PGconn **ret_pg, struct simba_error *ret_unread,
                                 struct simba_error *error);

#endif
