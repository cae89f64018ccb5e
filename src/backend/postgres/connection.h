/*
 * connection.h - the PostgreSQL driver: one connection to a server.
 *
 * libpq is used in its non-blocking way, so that every wait has an end, and always in pipeline mode: what
 * is sent between two synchronisation points is one transaction and one round trip.
 */
#ifndef SB_BACKEND_POSTGRES_CONNECTION_H
#define SB_BACKEND_POSTGRES_CONNECTION_H

#include "backend/postgres/exchange.h"
#include "backend/postgres/settings.h"
#include "backend/sql/driver.h"

struct sb_postgres_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_postgres_settings *settings;
    PGconn *pg;
    int64_t deadline_ms;      /* for answers */
    int64_t careful_until_ms; /* rows that are locked are passed over until then */
    bool prepared;
    bool limited; /* the session waits for no lock without an end: no request has to say so */

    char *search_path; /* the user's own, on which the table is looked for; NULL: not known yet */
    char table[SB_POSTGRES_TABLE_MAX]; /* with its schema; empty: not known yet */
    char names[SB_POSTGRES_STATEMENTS][SB_POSTGRES_NAME_MAX]; /* of what is prepared */
    bool distrusted; /* the table turned out to be a stranger's: nothing is sent any more */
};

extern const struct sb_sql_driver sb_postgres_driver;

#endif
