/*
 * identity.c - which files were opened, and whether their names still lead to them. Must not know
 * what is in them.
 *
 * A file that was deleted or replaced takes writes as before, but other processes do not see them.
 * So before each answer that a client believes comes a look at the name of the database. Its log
 * and its index lie beside it, and whatever happens to a name changes the date of its folder, so
 * that for them a look at the folder is enough most times. It is enough for all files before the
 * answer to a release, after which the client believes nothing:
 *
 *     acquire, release   A   R   A   R   A   R   A   R   A
 *     the folder         x   x   x   x   x   x   x   x   x
 *     the database       x       x       x       x       x
 *     log and index      x                               x
 *                        |<----- at most RECHECK_MS ---->|
 *
 * The folder is asked by a descriptor, which takes a third of the time that its path takes. The
 * database has but one name, or is refused (see identity.h): so a path that leads to the database
 * leads through that folder.
 *
 * Without the look at the folder in place of those at the files an uncontended cycle takes a fifth
 * longer: 1.73 times as long as two committed UPDATEs, with it 1.44 times. The limit is 1.6.
 *
 * Dates follow the kernel's ticks: what happens twice within one leaves one date. A folder that had
 * changed just before it was looked at therefore tells nothing, however long ago that look is by
 * now. Nor does one on a file system with coarse dates, or with names that others can change behind
 * this kernel's back, such as those of a network. And neither a mount over a file nor another
 * folder further up in the path is a change of the folder: that is why the database is looked at
 * for each acquire, and the others from time to time. A release that goes into a file which was
 * hidden so less than RECHECK_MS before is lost to the processes that see the other one: there the
 * lease runs out.
 */
#include "backend/sqlite/identity.h"

#include "backend/sqlite/connection.h"
#include "backend/sqlite/wake.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000 /* older C libraries do not name it */
#endif

#define MOUNTS_FILE "/proc/self/mounts"
#define MOUNT_MAX (2 * PATH_MAX) /* of a line in it; what follows is options */

/* ---- Hard links ------------------------------------------------------------------------------ */

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

/* ---- Mounts ---------------------------------------------------------------------------------- */

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

/* Kernels before 5.8 do not tell of a file whether it is mounted, and some sandboxes do not let us
 * ask. */
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

/* ---- Devices --------------------------------------------------------------------------------- */

/* A disk has the size 0: SQLite would take it for an empty file, and write over what it holds. Of a
 * folder SQLite itself says what it is. */
static int check_kind(const char *path, const struct stat *status, struct sb_sql_failure *failure)
{
    if (S_ISREG(status->st_mode) || S_ISDIR(status->st_mode) || S_ISLNK(status->st_mode))
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ECONFIG, "%s is no plain file", path);
}

/* ---- All of them ----------------------------------------------------------------------------- */

int sb_sqlite_check_names(const struct sb_sqlite_settings *settings, struct sb_sql_failure *failure)
{
    const char *const paths[] = {settings->path, settings->log_path, settings->index_path};
    struct stat database;
    int code = SIMBA_OK;

    if (lstat(settings->path, &database) == 0) { /* where that fails the file cannot be opened */
        code = check_kind(settings->path, &database, failure);
        if (code == SIMBA_OK)
            code = sb_sqlite_check_links(settings->path, &database, failure);
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && code == SIMBA_OK; i++)
        code = check_mount(paths[i], failure);
    return code;
}

#define SETTLED_MS 20 /* two of the longest ticks that a kernel has; one would do */
#define RECHECK_MS 1000
#define COARSE_NS 1000000 /* a date of whole milliseconds may be one of whole seconds */

/* ---- The files ------------------------------------------------------------------------------- */

static struct sb_sqlite_identity identity_of(const struct stat *status)
{
    struct sb_sqlite_identity identity = {.device = status->st_dev, .inode = status->st_ino};

    return identity;
}

static bool is_same(const struct sb_sqlite_identity *identity, const struct stat *status)
{
    return identity->device == status->st_dev && identity->inode == status->st_ino;
}

/* Returns 0 or an errno. */
static int identify(const char *path, struct sb_sqlite_identity *ret_identity)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return errno;
    *ret_identity = identity_of(&status);
    return 0;
}

static int fail_moved(const char *path, enum sb_sql_remedy remedy, struct sb_sql_failure *failure)
{
    failure->remedy = remedy;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE, "the file %s was deleted or replaced",
                        path);
}

/* On success *ret_now is the file. What else the system says tells nothing of the file: it may be
 * there still. */
static int check_file(const char *path, const struct sb_sqlite_identity *identity,
                      struct stat *ret_now, bool *ret_moved, struct sb_sql_failure *failure)
{
    int system_code = stat(path, ret_now) == 0 ? 0 : errno;

    if (system_code == 0 && is_same(identity, ret_now))
        return SIMBA_OK;
    *ret_moved = system_code == 0 || system_code == ENOENT || system_code == ENOTDIR;
    if (*ret_moved)
        return fail_moved(path, SB_SQL_RECONNECT, failure);
    return sb_sqlite_fail_system(path, system_code, failure);
}

/* A second name may have been made since it was opened. What was written is in the log of ours,
 * where others may see it when the second name is gone. */
static int check_database(const struct sb_sqlite_connection *c, bool *ret_moved,
                          struct sb_sql_failure *failure)
{
    const char *path = c->settings->path;
    struct stat now;
    int code = check_file(path, &c->file, &now, ret_moved, failure);

    if (code != SIMBA_OK)
        return code;
    *ret_moved = false;
    return sb_sqlite_check_links(path, &now, failure);
}

/* The one that SQLite has opened may have lost its name by now. */
int sb_sqlite_identify_file(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const char *path = c->settings->path;
    int code = identify(path, &c->file);
    int moved = 0;

    if (code != 0)
        return sb_sqlite_fail_system(path, code, failure);
    if (sqlite3_file_control(c->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    return moved ? fail_moved(path, SB_SQL_RETRY, failure) : SIMBA_OK;
}

/* Another connection of this process that still has a deleted one open would share it with us: then
 * it has no name, and we wait for the other one to notice. */
int sb_sqlite_identify_log(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    if (identify(c->settings->log_path, &c->log) != 0)
        return fail_moved(c->settings->log_path, SB_SQL_RETRY, failure);
    if (identify(c->settings->index_path, &c->index) != 0)
        return fail_moved(c->settings->index_path, SB_SQL_RETRY, failure);
    return SIMBA_OK;
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* What the folder was, and the clock that dates are taken from, which stands still between two
 * ticks. */
struct look {
    struct timespec begin;
    struct stat folder;
};

/* The clock comes first. The thread may be held up at any point, and a date that has grown old only
 * since then tells nothing of what else has happened within its tick. */
static bool look_at_folder(const struct sb_sqlite_connection *c, struct look *ret_look)
{
    return clock_gettime(CLOCK_REALTIME_COARSE, &ret_look->begin) == 0 &&
           stat(c->settings->folder_path, &ret_look->folder) == 0;
}

/* Whether another change after the look would show. */
static bool is_telling(const struct look *look)
{
    const struct timespec *date = &look->folder.st_ctim;
    int64_t age_ms = (look->begin.tv_sec - date->tv_sec) * 1000 +
                     (look->begin.tv_nsec - date->tv_nsec) / 1000000;

    return date->tv_nsec % COARSE_NS != 0 && age_ms > SETTLED_MS;
}

/* Whether it tells that the names in it lead where they did. */
static bool is_quiet(struct sb_sqlite_folder *folder, int64_t now_ms)
{
    struct stat now;

    folder->quiet = now_ms < folder->good_until_ms && fstat(folder->fd, &now) == 0 &&
                    folder->changed.tv_sec == now.st_ctim.tv_sec &&
                    folder->changed.tv_nsec == now.st_ctim.tv_nsec;
    return folder->quiet;
}

/* Whether the folder that the path has just led to is held open, and to be believed. */
static bool hold_folder(struct sb_sqlite_connection *c, const struct stat *status)
{
    struct sb_sqlite_folder *folder = &c->folder;
    struct stat held;

    if (folder->fd >= 0 && is_same(&folder->identity, status))
        return folder->is_local;
    sb_sqlite_forget_folder(c);
    folder->fd = open(c->settings->folder_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0 || fstat(folder->fd, &held) != 0)
        return false;
    folder->identity = identity_of(&held);
    folder->is_local = sb_sqlite_side_is_local(folder->fd);
    return folder->is_local && is_same(&folder->identity, status);
}

void sb_sqlite_forget_folder(struct sb_sqlite_connection *c)
{
    if (c->folder.fd >= 0)
        close(c->folder.fd);
    c->folder.fd = -1;
    c->folder.good_until_ms = 0;
}

/* What the folder was before the log and its index were looked at. */
static void note_folder(struct sb_sqlite_connection *c, const struct look *look, int64_t now_ms)
{
    if (!is_telling(look) || !hold_folder(c, &look->folder))
        return;
    c->folder.changed = look->folder.st_ctim;
    c->folder.good_until_ms = now_ms + RECHECK_MS;
    c->folder.note++;
}

static int check_log_and_note(struct sb_sqlite_connection *c, int64_t now_ms, bool *ret_moved,
                              struct sb_sql_failure *failure)
{
    const struct sb_sqlite_settings *settings = c->settings;
    struct look look;
    bool found = look_at_folder(c, &look);
    struct stat now;
    int code = check_file(settings->log_path, &c->log, &now, ret_moved, failure);

    if (code == SIMBA_OK)
        code = check_file(settings->index_path, &c->index, &now, ret_moved, failure);
    c->folder.good_until_ms = 0;
    if (code == SIMBA_OK && found)
        note_folder(c, &look, now_ms);
    return code;
}

int sb_sqlite_check(struct sb_sqlite_connection *c, bool *ret_moved, struct sb_sql_failure *failure)
{
    int64_t now_ms = simba_now_ms();
    bool quiet = is_quiet(&c->folder, now_ms);
    int code = check_database(c, ret_moved, failure);

    if (code != SIMBA_OK || quiet)
        return code;
    return check_log_and_note(c, now_ms, ret_moved, failure);
}

int sb_sqlite_check_name(struct sb_sqlite_connection *c, bool *ret_moved,
                         struct sb_sql_failure *failure)
{
    if (is_quiet(&c->folder, simba_now_ms()))
        return SIMBA_OK;
    return check_database(c, ret_moved, failure);
}

uint64_t sb_sqlite_names_note(const struct sb_sqlite_connection *c)
{
    return c->folder.quiet ? c->folder.note : 0;
}
