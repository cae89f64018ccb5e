/*
 * planted.h - what another user of the machine may have put in the place of the database's files.
 *
 * In a folder that others may write, anybody can place a link with the name of the database, or a file with the name of
 * its log, and have it followed or replayed with our rights. So a link is followed only where nobody but root and
 * the effective user can have placed it, and a log is taken only from those who may write the database.
 */
#ifndef SB_BACKEND_SQLITE_PLANTED_H
#define SB_BACKEND_SQLITE_PLANTED_H

#include "backend/sqlite/connection.h"

#include <limits.h>

struct sb_sqlite_way {
    char path[PATH_MAX];    /* absolute and without links */
    bool missing;           /* the file itself is not there; all folders are */
    char refused[PATH_MAX]; /* the link that is not followed; empty: none */
};

/* Follows the links of a path. Returns 0 or an errno; EPERM with `refused` for a link that others may have placed. */
int sb_sqlite_resolve(const char *path, struct sb_sqlite_way *ret_way);

/* Refuses files beside the database, and other names of it, that others may have placed. */
int sb_sqlite_check_planted(const struct sb_sqlite_settings *settings,
                            struct sb_sql_failure *failure);

#endif
