/*
 * limits.h - what the schema of a database may do with the rights of a client that only wants its mutexes.
 *
 * A user who may write the database may write its schema, too: a view in the place of a table, or a trigger that never
 * ends. So views are refused, a statement may run for busy-timeout, without its waits for others, and no value is longer
 * than any of ours could be.
 */
#ifndef SB_BACKEND_SQLITE_LIMITS_H
#define SB_BACKEND_SQLITE_LIMITS_H

#include "backend/sqlite/connection.h"

/* Sets them, once for each connection. Returns SQLite's code. */
int sb_sqlite_set_limits(struct sb_sqlite_connection *connection);

/* The time of a statement begins now: it is about to be run, or has waited for others. */
void sb_sqlite_start_time(struct sb_sqlite_connection *connection);

#endif
