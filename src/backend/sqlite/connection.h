/*
 * connection.h - the SQLite driver: one connection to the file.
 *
 * Clock: leases are counted on the host's boot clock, which all processes share and which no step
 * of the wall clock moves. It stands still during one statement, and is read when the statement has
 * the lock that it needs, not before.
 */
#ifndef SB_SQLITE_CONNECTION_H
#define SB_SQLITE_CONNECTION_H

#include "backend/sql/driver.h"
#include "backend/sqlite/identity.h"
#include "backend/sqlite/settings.h"
#include "backend/sqlite/wake.h"

#include <sqlite3.h>

struct sb_sqlite_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_sqlite_settings *settings;
    sqlite3 *db;
    sqlite3_stmt *statements[SB_SQL_STATEMENTS];
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    struct sb_sqlite_identity file;
    struct sb_sqlite_identity log;
    struct sb_sqlite_identity index;
    struct sb_sqlite_folder folder;
    int64_t deadline_ms;      /* for waiting on locks */
    int64_t running_since_ms; /* the statement, or since its last wait */
    int64_t clock_ms;         /* of the statement that runs; 0: nobody has asked yet */
    int64_t clock_offset_ms;  /* of this process's clock, ahead of the host's */
    int64_t noted_version;    /* of the row that was changed last */
    bool committing;          /* the statement that runs has begun to commit */
    uint64_t random;
    int commits; /* counted while the connection is young */
    struct sb_sqlite_wake_writer wake;
    struct sb_sqlite_liveness_probe probe;
};

extern const struct sb_sql_driver sb_sqlite_driver;

/* ---- functions.c: the SQL functions that a database may use ---------------------------------- */

/* A user who may write the database may write its schema, too: a view in the place of a table, or a
 * trigger that never ends. So views are refused, a statement may run for busy-timeout, without its
 * waits for others, and no value is longer than any of ours could be. Sets these limits, once for
 * each connection. Returns SQLite's code. */
int sb_sqlite_set_limits(struct sb_sqlite_connection *connection);

/* The time of a statement begins now: it is about to be run, or has waited for others. */
void sb_sqlite_start_time(struct sb_sqlite_connection *connection);

/* The host's boot clock, the same in all time namespaces. */
int64_t sb_sqlite_now_ms(const struct sb_sqlite_connection *connection);

/* Adds them to the connection. Returns a code of SQLite. */
int sb_sqlite_add_functions(struct sb_sqlite_connection *connection);

/* ---- statements.c: what is done to the rows of the file -------------------------------------- */

/* See `run` of struct sb_sql_driver. */
int sb_sqlite_run(struct sb_sqlite_connection *connection, enum sb_sql_statement which,
                  const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                  int64_t *ret_count, struct sb_sql_failure *failure);

/* Prepares a statement when it is first needed: a process that is here for one lease needs few of
 * them. Returns SQLite's code. */
int sb_sqlite_prepare_once(struct sb_sqlite_connection *connection, const char *text,
                           sqlite3_stmt **statement);

/* ---- schema.c: the tables of the file, and what a new boot of the host means to them --------- */

/* Creates what is missing and enters a boot that the file does not know, in one transaction; takes
 * no write lock when there is nothing to do. */
int sb_sqlite_init_schema(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);

/* Whether there is nothing to do. Takes no write lock. */
bool sb_sqlite_schema_is_current(struct sb_sqlite_connection *connection);

/* Whether the file has tables, and none of ours. Takes no write lock. */
bool sb_sqlite_schema_is_foreign(struct sb_sqlite_connection *connection);

/* The id of the host's boot. Returns 0 or an errno. */
int sb_sqlite_read_boot_id(char ret_boot_id[SB_SQLITE_BOOT_ID_MAX]);

#endif
