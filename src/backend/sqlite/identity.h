/*
 * identity.h - which files a connection has open, whatever their names lead to now; and refuses a
 * database file that has two names.
 *
 * SQLite derives the name of its log from the path of the database, and so do the side files. By
 * two names of one file two clients write two logs: each can own what the other owns, and both
 * damage the file. A file gets a second name by a hard link, or by a mount of the file without its
 * folder, as containers do it. Symbolic links are followed before.
 *
 *     /srv/a.db ---+                              /srv/a.db-wal
 *                  +--- one file, two logs: ---
 *     /mnt/b.db ---+                              /mnt/b.db-wal
 *
 * A client of either name sees both links. A mount is seen only where it is: the client there is
 * refused, and the clients of the folder work on.
 */
#ifndef SB_SQLITE_IDENTITY_H
#define SB_SQLITE_IDENTITY_H

#include "backend/sql/driver.h"
#include "backend/sqlite/settings.h"

#include <sys/stat.h>
#include <time.h>

struct sb_sqlite_connection;

/* Which file it is that was opened, whatever its name leads to now. */
struct sb_sqlite_identity {
    dev_t device;
    ino_t inode;
};

/* The folder when its names led to those files. */
struct sb_sqlite_folder {
    int fd; /* to ask it without its path; -1: none */
    struct sb_sqlite_identity identity;
    bool is_local; /* its date tells of every change */
    struct timespec changed;
    int64_t good_until_ms; /* 0: it tells nothing */
    uint64_t note;         /* counts what was noted of it */
    bool quiet;            /* since the last statement it was seen to be as it was noted */
};

/* Notes which file the database is, and makes sure that it is the one that SQLite has opened. */
int sb_sqlite_identify_file(struct sb_sqlite_connection *connection,
                            struct sb_sql_failure *failure);

/* Notes which files the log and its index are, once the set-up has opened them. */
int sb_sqlite_identify_log(struct sb_sqlite_connection *connection, struct sb_sql_failure *failure);

/* Whether the names still lead to the files that were opened, and the database has but one. On
 * failure *ret_moved tells that they do not; otherwise the system did not say, or there is another
 * name. */
int sb_sqlite_check(struct sb_sqlite_connection *connection, bool *ret_moved,
                    struct sb_sql_failure *failure);

/* Whether that of the database does, for a client that believes nothing afterwards. */
int sb_sqlite_check_name(struct sb_sqlite_connection *connection, bool *ret_moved,
                         struct sb_sql_failure *failure);

/* After one of those two: the same number as before where no name beside the database has changed
 * meanwhile; 0 where that is not known. */
uint64_t sb_sqlite_names_note(const struct sb_sqlite_connection *connection);

/* Closes what was opened for that. */
void sb_sqlite_forget_folder(struct sb_sqlite_connection *connection);

/* ---- Names ----------------------------------------------------------------------------------- */

/* Refuses a database with hard links. `status` is of the file at `path`. */
int sb_sqlite_check_links(const char *path, const struct stat *status,
                          struct sb_sql_failure *failure);

/* Refuses a database with hard links, and one that is mounted without its folder; so for its log
 * and the index of that. A mount that is made later over one of these files leads to another file,
 * or to the same one and the same log: sb_sqlite_check notices the first, and the second is
 * harmless. Files that are missing are not refused. */
int sb_sqlite_check_names(const struct sb_sqlite_settings *settings,
                          struct sb_sql_failure *failure);

#endif
