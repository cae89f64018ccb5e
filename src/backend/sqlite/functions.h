/*
 * functions.h - what the statements ask of the library while they run.
 */
#ifndef SB_BACKEND_SQLITE_FUNCTIONS_H
#define SB_BACKEND_SQLITE_FUNCTIONS_H

#include "backend/sqlite/connection.h"

/* The host's boot clock, the same in all time namespaces. */
int64_t sb_sqlite_now_ms(const struct sb_sqlite_connection *connection);

/* Adds them to the connection. Returns a code of SQLite. */
int sb_sqlite_add_functions(struct sb_sqlite_connection *connection);

#endif
