/*
 * failure.h - what PostgreSQL's states mean to the library.
 */
#ifndef SB_POSTGRES_FAILURE_H
#define SB_POSTGRES_FAILURE_H

#include "backend/postgres/connection.h"

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

#endif
