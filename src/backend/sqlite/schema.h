/*
 * schema.h - the tables of the file, and what a new boot of the host means to them.
 */
#ifndef SB_BACKEND_SQLITE_SCHEMA_H
#define SB_BACKEND_SQLITE_SCHEMA_H

#include "backend/sqlite/connection.h"

/* Creates what is missing and enters a boot that the file does not know, in one transaction; takes no
 * write lock when there is nothing to do. */
int sb_sqlite_init_schema(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);

/* Whether there is nothing to do. Takes no write lock. */
bool sb_sqlite_schema_is_current(struct sb_sqlite_connection *connection);

/* Whether the file has tables, and none of ours. Takes no write lock. */
bool sb_sqlite_schema_is_foreign(struct sb_sqlite_connection *connection);

/* The id of the host's boot. Returns 0 or an errno. */
int sb_sqlite_read_boot_id(char ret_boot_id[SB_BOOT_ID_MAX]);

#endif
