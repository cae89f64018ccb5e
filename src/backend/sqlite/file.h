/*
 * file.h - the database file under a connection.
 */
#ifndef SB_SQLITE_FILE_H
#define SB_SQLITE_FILE_H

#include "backend/sqlite/connection.h"

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
 * does it at a time, by a lock on the side file. Returns a descriptor, or -1 where the lock cannot
 * be had: then SQLite's own locks have to do. */
int sb_sqlite_lock_set_up(struct sb_sqlite_connection *connection);
void sb_sqlite_unlock_set_up(int fd);

/* Sleeps for a random time up to `most_us`, so that others get on. */
void sb_sqlite_pause(struct sb_sqlite_connection *connection, int64_t most_us);

/* From now on every commit of the connection sees to it that the log stays short. */
void sb_sqlite_log_tend(struct sb_sqlite_connection *connection);

#endif
