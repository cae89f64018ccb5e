/*
 * failure.h - what SQLite's codes mean to the library: a code, a sentence and what may help.
 */
#ifndef SB_SQLITE_FAILURE_H
#define SB_SQLITE_FAILURE_H

#include "backend/sqlite/connection.h"

/* Describes what the last call on the connection failed with. `applied`: the call may have
 * committed before it failed. Returns the code. */
int sb_sqlite_fail(const struct sb_sqlite_connection *connection, bool applied,
                   struct sb_sql_failure *failure);

/* What an errno of the system means to a caller of the library. */
int sb_sqlite_code_of(int system_code);

/* Describes a failed system call on the file. */
int sb_sqlite_fail_system(const char *path, int system_code, struct sb_sql_failure *failure);

/* The same for a file that SQLite has opened for reading only; finds out why. */
int sb_sqlite_fail_read_only(const char *path, struct sb_sql_failure *failure);

/* The same for a file that was to be created; names the folder where that is what refuses. */
int sb_sqlite_fail_create(const char *path, int system_code, struct sb_sql_failure *failure);

#endif
