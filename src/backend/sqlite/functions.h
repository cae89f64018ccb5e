/*
 * functions.h - what the statements ask of the library while they run.
 */
#ifndef SB_BACKEND_SQLITE_FUNCTIONS_H
#define SB_BACKEND_SQLITE_FUNCTIONS_H

#include "backend/sqlite/connection.h"

/* Adds them to the connection. Returns a code of SQLite. */
int sb_sqlite_add_functions(struct sb_sqlite_connection *connection);

#endif
