/*
 * trusted_folder.h - what another user of the machine may have put in the place of the database's
 * files.
 *
 * A user who may create files in a folder can place a link there with the name of the database, or
 * a file with the name of its log, and have it followed or replayed with our rights. So a link is
 * followed only where nobody but root and the effective user can have placed it, and a database is
 * used only in a folder where all users who may create files may write the database too. Root, the
 * effective user and the owner of the database are trusted; so is a group that may write both, and
 * the group of a trusted user alone. No folder that everybody may write is used, sticky or not.
 *
 * Root trusts nobody: SQLite, as root, gives the log and its index to the owner of the database, so
 * users who may rename a file of root's to such a name would own it. To look at the owner of that
 * file before would not help: it can be put there just afterwards.
 */
#ifndef SB_SQLITE_TRUSTED_FOLDER_H
#define SB_SQLITE_TRUSTED_FOLDER_H

#include "backend/sqlite/connection.h"

#include <limits.h>

#define SB_SQLITE_FILE_MODE 0600 /* of a new database */

struct sb_sqlite_resolved {
    char path[PATH_MAX];    /* absolute and without links */
    bool missing;           /* the file itself is not there; all folders are */
    char refused[PATH_MAX]; /* the link that is not followed; empty: none */
};

/* Follows the links of a path. Returns 0 or an errno; EPERM with `refused` for a link that others
 * may have placed. */
int sb_sqlite_resolve(const char *path, struct sb_sqlite_resolved *ret_way);

/* Refuses a folder where others may create files, whether the database exists or not, and what
 * members of the group can have placed there to have another file written. For root all are
 * others. */
int sb_sqlite_check_folder(const struct sb_sqlite_settings *settings,
                           struct sb_sql_failure *failure);

#endif
