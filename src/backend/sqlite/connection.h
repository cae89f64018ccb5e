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

/* The statements of the dialect, and further ones for a mutex that others wait for. */
enum sb_sqlite_statement {
    SB_SQLITE_ACQUIRE_QUEUED = SB_SQL_STATEMENTS, /* heeds a reservation if reserve_ms is not 0 */
    SB_SQLITE_ACQUIRE_RESERVED, /* if it is reserved for the id, which is the first of the queue */
    SB_SQLITE_DELETE_SERVED,    /* deletes the rows of those that have had their turn */
    SB_SQLITE_LAPSE,            /* a reservation for the id was in vain: it is out of the queue */
    SB_SQLITE_LAPSE_FIRST,      /* the same, of the id that a free mutex was reserved for */
    SB_SQLITE_COME_BACK,        /* to its old place, an id of which that is true */
    SB_SQLITE_MAKE_ROOM,   /* for that place, which may be before those that have had their turn */
    SB_SQLITE_HAND_ON,     /* of a mutex that is free: notes whom it is reserved for from now on */
    SB_SQLITE_SET_QUEUED,  /* makes the mark of the mutex fit the queue */
    SB_SQLITE_DELETE_GONE, /* deletes the waiters whose client is dead */
    SB_SQLITE_STATEMENTS
};

struct sb_sqlite_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_sqlite_settings *settings;
    sqlite3 *db;
    sqlite3_stmt *statements[SB_SQLITE_STATEMENTS];
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    struct sb_sqlite_identity file;
    struct sb_sqlite_identity log;
    struct sb_sqlite_identity index;
    struct sb_sqlite_folder folder;
    int64_t deadline_ms;                    /* for waiting on locks */
    int64_t running_since_ms;               /* the statement, or since its last wait */
    int64_t clock_ms;                       /* of the statement that runs; 0: not asked for yet */
    int64_t clock_offset_ms;                /* of this process's clock, ahead of the host's */
    int64_t noted_version;                  /* of the row that was changed last */
    struct sb_sql_waiter next[SB_SQL_TOLD]; /* to be told; none is known to be dead */
    int next_count;                         /* 0 to 2: the first ones */
    int64_t first_since;                    /* that the first of them waits */
    bool first_is_late;                     /* that one was too late for a reservation before */
    char lapsed[SIMBA_ID_MAX + 1];          /* had a reservation, and did not come */
    bool met_gone;   /* waiters whose client is dead were met, and are in the queue */
    bool crowded;    /* the mutex that was used last had waiters */
    bool committing; /* the statement that runs has begun to commit */
    uint64_t random;
    int commits;    /* counted while the connection is young */
    bool log_moved; /* by the last commit, all of it: see sb_sqlite_log_begin */
    struct sb_sqlite_wake_writer wake;
    int sender; /* the socket that waiters are told from; -1: none yet */
    struct sb_sqlite_liveness_probe probe;
};

extern const struct sb_sql_driver sb_sqlite_driver;

/* ---- file.c: the database file --------------------------------------------------------------- */

#define SB_SQLITE_PAUSE_MIN_US 200
#define SB_SQLITE_PAUSE_MAX_US 5000

/* Opens the file, creates it where it is missing and may be, and notes which file it is. Where it
 * must exist it is enough that it can be read. */
int sb_sqlite_open(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);
bool sb_sqlite_is_read_only(const struct sb_sqlite_connection *connection);

/* Brings the file into WAL mode, in which readers and a writer do not wait for each other. */
int sb_sqlite_enable_wal(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);
bool sb_sqlite_is_wal(struct sb_sqlite_connection *connection);

/* Processes that set up a new file at once would wait for each other's locks in many places. So one
 * does it at a time, by a lock on the side file. Returns a descriptor to close, or -1 where the
 * lock cannot be had: then SQLite's own locks have to do. */
int sb_sqlite_lock_set_up(struct sb_sqlite_connection *connection);

/* Sleeps for a random time up to `most_us`, so that others get on. */
void sb_sqlite_pause(struct sb_sqlite_connection *connection, int64_t most_us);

/* From now on every commit of the connection keeps the log short. */
void sb_sqlite_log_tend(struct sb_sqlite_connection *connection);

/* Moves the log into the file, as far as no lock is in the way. Returns whether all of it was. */
bool sb_sqlite_log_move(struct sb_sqlite_connection *connection);

/* After a commit that has left `log_moved`: makes a small one, outside of a transaction. */
void sb_sqlite_log_begin(struct sb_sqlite_connection *connection);

/* The disk is full: moves all of the log into the file, so that the next commit finds room at the
 * beginning of the log. Outside of a transaction. False: it finds none; if a lock was in the way,
 * what may help is SB_SQL_RETRY. */
bool sb_sqlite_log_make_room(struct sb_sqlite_connection *connection,
                             struct sb_sql_failure *failure);

/* ---- failure.c: what SQLite's codes mean: a code, a sentence and what may help --------------- */

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

/* ---- statements.c: what is done to the rows of the file -------------------------------------- */

/* Runs one statement, of the dialect or an own one. See `run` of struct sb_sql_driver. */
int sb_sqlite_run_one(struct sb_sqlite_connection *connection, int which,
                      const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                      int64_t *ret_count, struct sb_sql_failure *failure);

/* Prepares a statement when it is first needed: a process that is here for one lease needs few of
 * them. Returns SQLite's code. */
int sb_sqlite_prepare_once(struct sb_sqlite_connection *connection, const char *text,
                           sqlite3_stmt **statement);

/* The time of a statement begins now: it is about to be run, or has waited for others. */
void sb_sqlite_start_time(struct sb_sqlite_connection *connection);

/* The host's boot clock, the same in all time namespaces. */
int64_t sb_sqlite_now_ms(const struct sb_sqlite_connection *connection);

/* Adds the SQL functions of the library to the connection, and limits what the schema of a database
 * can do: a user who may write the database may put a view in the place of a table, or a trigger
 * that never ends. So views are refused, a statement may run for busy-timeout, without its waits
 * for others, and no value is longer than any of ours could be. Returns a code of SQLite. */
int sb_sqlite_set_functions(struct sb_sqlite_connection *connection);

/* ---- queue.c: what is done to a mutex that others wait for ----------------------------------- */

/* `run` of struct sb_sql_driver. What takes several statements is one transaction. */
int sb_sqlite_run(struct sb_sql_connection *connection, enum sb_sql_statement which,
                  const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                  int64_t *ret_count, struct sb_sql_failure *failure);

/* ---- property.c: the properties of mutexes --------------------------------------------------- */

/* `property` of struct sb_sql_driver. Its clock is the host's wall clock: the boot clock would
 * begin anew with each boot. */
int sb_sqlite_property(struct sb_sql_connection *connection, const struct sb_sql_property *property,
                       struct simba_property *ret_property, struct sb_sql_failure *failure);

/* Runs a statement with the texts of a property as its parameters. Its row, if it yields one with
 * the columns of a property, goes to ret_property, which may be NULL. */
int sb_sqlite_run_texts(struct sb_sqlite_connection *connection, const char *text,
                        const struct sb_sql_property *property, struct simba_property *ret_property,
                        struct sb_sql_failure *failure);

/* Whether the table of properties is there. */
int sb_sqlite_find_properties(struct sb_sqlite_connection *connection, bool *ret_exists,
                              struct sb_sql_failure *failure);

/* tend.c: `tend` of struct sb_sql_driver. */
int sb_sqlite_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                   bool *ret_done, struct sb_sql_failure *failure);

/* ---- inspect.c: the place of the file -------------------------------------------------------- */

/* `inspect` of struct sb_sql_driver. */
int sb_sqlite_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                      struct sb_findings *findings, struct sb_sql_failure *failure);

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
