/*
 * names.c - refuses a database file that has two names. Must not know SQLite, nor what is in the files.
 */
#include "backend/sqlite/names.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <string.h>

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000 /* older C libraries do not name it */
#endif

#define MOUNTS_FILE "/proc/self/mounts"
#define MOUNT_MAX (2 * PATH_MAX) /* of a line in it; what follows is options */

/* ---- Hard links ----------------------------------------------------------------------------- */

int sb_sqlite_check_links(const char *path, const struct stat *status,
                          struct sb_sql_failure *failure)
{
    if (!S_ISREG(status->st_mode) || status->st_nlink <= 1) /* 0: it was deleted meanwhile */
        return SIMBA_OK;
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "the database %s has more than one name, and each would have its own log "
                        "and its own owners: remove the other hard links (find / -samefile "
                        "%s), and let backups copy the file, not link it",
                        path, path);
}

/* ---- Mounts --------------------------------------------------------------------------------- */

static int fail_mounted(const char *path, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "the file %s is mounted alone, and what SQLite keeps beside it is not what "
                        "others have there: mount the folder of the database instead",
                        path);
}

/* The paths of the list have no links either. */
static int look_in_list(const char *path, struct sb_sql_failure *failure)
{
    FILE *mounts = setmntent(MOUNTS_FILE, "re");
    struct mntent entry;
    char line[MOUNT_MAX];
    bool found = false;

    if (mounts == NULL) {
        failure->remedy = SB_SQL_RECONNECT;
        return sb_error_set_backend(&failure->error, SIMBA_EUNAVAILABLE, errno,
                                    "%s, which tells whether %s is mounted alone, cannot be read: "
                                    "%s",
                                    MOUNTS_FILE, path, strerror(errno));
    }
    while (!found && getmntent_r(mounts, &entry, line, sizeof line) != NULL)
        found = strcmp(entry.mnt_dir, path) == 0;
    endmntent(mounts);
    return found ? fail_mounted(path, failure) : SIMBA_OK;
}

/* Kernels before 5.8 do not tell of a file whether it is mounted, and some sandboxes do not let us ask. */
static int check_mount(const char *path, struct sb_sql_failure *failure)
{
    struct statx status;

    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &status) != 0)
        return errno == ENOENT || errno == ENOTDIR ? SIMBA_OK : look_in_list(path, failure);
    if ((status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
        return look_in_list(path, failure);
    return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? fail_mounted(path, failure)
                                                                : SIMBA_OK;
}

/* ---- All of them ---------------------------------------------------------------------------- */

int sb_sqlite_check_names(const struct sb_sqlite_settings *settings, struct sb_sql_failure *failure)
{
    const char *const paths[] = {settings->path, settings->log_path, settings->index_path};
    struct stat database;
    int code = SIMBA_OK;

    if (lstat(settings->path, &database) == 0) /* where that fails the file cannot be opened */
        code = sb_sqlite_check_links(settings->path, &database, failure);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && code == SIMBA_OK; i++)
        code = check_mount(paths[i], failure);
    return code;
}
