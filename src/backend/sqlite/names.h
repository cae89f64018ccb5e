/*
 * names.h - refuses a database file that has two names.
 *
 * SQLite derives the name of its log from the path of the database, and so do the side files. By two names of one file
 * two clients write two logs: each can own what the other owns, and both damage the file. A file gets a second name by
 * a hard link, or by a mount of the file without its folder, as containers do it. Symbolic links are followed before.
 *
 *     /srv/a.db ---+                              /srv/a.db-wal
 *                  +--- one file, two logs: ---
 *     /mnt/b.db ---+                              /mnt/b.db-wal
 *
 * A client of either name sees both links. A mount is seen only where it is: the client there is refused, and the
 * clients of the folder work on.
 */
#ifndef SB_BACKEND_SQLITE_NAMES_H
#define SB_BACKEND_SQLITE_NAMES_H

#include "backend/sqlite/connection.h"

#include <sys/stat.h>

/* Refuses a database with hard links. `status` is of the file at `path`. */
int sb_sqlite_check_links(const char *path, const struct stat *status,
                          struct sb_sql_failure *failure);

/* Refuses a database with hard links, and one that is mounted without its folder; so for its log and the index of that.
 * A mount that is made later over one of these files leads to another file, or to the same one and the same log:
 * identity.h notices the first, and the second is harmless. Files that are missing are not refused. */
int sb_sqlite_check_names(const struct sb_sqlite_settings *settings,
                          struct sb_sql_failure *failure);

#endif
