/*
 * statements.h - what is done to the rows of the file.
 */
#ifndef SB_BACKEND_SQLITE_STATEMENTS_H
#define SB_BACKEND_SQLITE_STATEMENTS_H

#include "backend/sqlite/connection.h"

/* See `run` of struct sb_sql_driver. */
int sb_sqlite_run(struct sb_sqlite_connection *connection, enum sb_sql_statement which,
                  const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                  int64_t *ret_count, struct sb_sql_failure *failure);

/* Prepares a statement when it is first needed: a process that is here for one lease needs few of them. Returns
 * SQLite's code. */
int sb_sqlite_prepare_once(struct sb_sqlite_connection *connection, const char *text,
                           sqlite3_stmt **statement);

#endif
