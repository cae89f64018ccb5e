/*
 * connection.h - the PostgreSQL driver: one connection to a server.
 *
 * libpq is used in its non-blocking way, so that every wait has an end, and always in pipeline
 * mode: what is sent between two synchronisation points is one transaction and one round trip.
 */
#ifndef SB_POSTGRES_CONNECTION_H
#define SB_POSTGRES_CONNECTION_H

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

/* ---- login.c: connecting, without telling a server the password ------------------------------ */

enum sb_postgres_login {
    SB_POSTGRES_LOGIN_READING, /* wait until the socket can be read */
    SB_POSTGRES_LOGIN_WRITING,
    SB_POSTGRES_LOGIN_DONE,
    SB_POSTGRES_LOGIN_FAILED,
    SB_POSTGRES_LOGIN_TELLING, /* the server asks for the password itself, without TLS: leave it */
    SB_POSTGRES_LOGIN_COSTLY,  /* its proof takes longer than anybody waits: leave it */
    SB_POSTGRES_LOGIN_PLAIN,   /* it is connected without the TLS that the URL asks for */
    SB_POSTGRES_LOGIN_FLOOD,   /* it sends more than SB_POSTGRES_RECEIVED_MAX */
    SB_POSTGRES_LOGIN_SHORT    /* the process is short of descriptors */
};

/* In the place of PQconnectPoll: does what can be done without waiting. *received counts what the
 * server has sent, from 0 on. */
enum sb_postgres_login sb_postgres_login_poll(const struct sb_postgres_settings *settings,
                                              PGconn *pg, size_t *received);

/* Connects by the settings of `connection`, whose `pg` is NULL, until its deadline. After a failure
 * `pg` may be there: the caller finishes it in any case. */
int sb_postgres_log_in(struct sb_postgres_connection *connection, struct sb_sql_failure *failure);

/* ---- failure.c: what PostgreSQL's states mean ------------------------------------------------ */

/* A result that is an error; returns the code. */
int sb_postgres_fail_result(struct sb_postgres_connection *connection, const PGresult *result,
                            struct sb_sql_failure *failure);

/* The connection broke or kept silent; `sent` tells whether a change was on its way. */
int sb_postgres_fail_lost(const struct sb_postgres_connection *connection, bool sent,
                          const char *what, struct sb_sql_failure *failure);

/* There is no connection: why the last attempt failed, and perhaps why its password was an old
 * one. */
int sb_postgres_fail_connect(const PGconn *pg, const struct simba_error *unread,
                             struct sb_sql_failure *failure);

/* The server wants to be told the password. */
int sb_postgres_fail_telling(struct sb_sql_failure *failure);

/* The server wants a proof of the password that takes too long. */
int sb_postgres_fail_costly(struct sb_sql_failure *failure);

/* The URL asks for TLS, and the connection has none. */
int sb_postgres_fail_plain(struct sb_sql_failure *failure);

/* The process cannot open a descriptor. */
int sb_postgres_fail_short(struct sb_sql_failure *failure);

int sb_postgres_fail_memory(struct sb_sql_failure *failure);

/* ---- schema.c: the table on the server ------------------------------------------------------- */

/* The statement that creates the table. */
extern const char sb_postgres_schema[];

/* Looks at the table, and creates it where it is missing and the user may. Refuses one of a
 * stranger. Takes note of its schema and of the width of its columns. */
int sb_postgres_init_schema(struct sb_postgres_connection *connection,
                            struct sb_sql_failure *failure);

#endif
