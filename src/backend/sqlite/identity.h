/*
 * identity.h - which files a connection has open, whatever their names lead to now.
 */
#ifndef SB_BACKEND_SQLITE_IDENTITY_H
#define SB_BACKEND_SQLITE_IDENTITY_H

#include "backend/sqlite/connection.h"

/* Notes which file the database is, and makes sure that it is the one that SQLite has opened. */
int sb_sqlite_identify_file(struct sb_sqlite_connection *connection,
                            struct sb_sql_failure *failure);

/* Notes which files the log and its index are, once the set-up has opened them. */
int sb_sqlite_identify_log(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);

/* Whether the names still lead to the files that were opened, and the database has but one. On failure *ret_moved tells
 * that they do not; otherwise the system did not say, or there is another name. */
int sb_sqlite_check(struct sb_sqlite_connection *connection, bool *ret_moved,
                    struct sb_sql_failure *failure);

/* Whether that of the database does, for a client that believes nothing afterwards. */
int sb_sqlite_check_name(struct sb_sqlite_connection *connection, bool *ret_moved,
                         struct sb_sql_failure *failure);

/* After one of those two: the same number as before where no name beside the database has changed meanwhile; 0 where
 * that is not known. */
uint64_t sb_sqlite_names_note(const struct sb_sqlite_connection *connection);

/* Closes what was opened for that. */
void sb_sqlite_forget_folder(struct sb_sqlite_connection *connection);

#endif
