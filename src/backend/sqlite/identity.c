/*
 * identity.c - which files were opened, and whether their names still lead to them. Must not know what is in them.
 *
 * A file that was deleted or replaced takes writes as before, but nobody else sees them. So every answer is preceded
 * by a look at the name of the database. Its log and its index lie beside it, and whatever happens to a name changes
 * the date of its folder, so that for them a look at the folder is enough most times:
 *
 *     the database       x       x       x       x       x
 *     the folder         x       x       x       x       x
 *     log and index      x                               x
 *                        |<----- at most RECHECK_MS ---->|
 *
 * Dates follow the kernel's ticks: what happens twice within one leaves one date. A folder that has changed just now
 * therefore tells nothing, nor does one on a file system with coarse dates. And a mount over a file is no change
 * of the folder: that is why the database is looked at each time, and the others from time to time.
 */
#include "backend/sqlite/identity.h"

#include "backend/sqlite/failure.h"
#include "base/error.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#define SETTLED_MS 100 /* ten of the longest ticks that a kernel has */
#define RECHECK_MS 1000
#define COARSE_NS 1000000 /* a date of whole milliseconds may be one of whole seconds */

/* ---- The files ------------------------------------------------------------------------------ */

/* Returns 0 or an errno. */
static int identify(const char *path, struct sb_sqlite_identity *ret_identity)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return errno;
    ret_identity->device = status.st_dev;
    ret_identity->inode = status.st_ino;
    return 0;
}

static int fail_moved(const char *path, enum sb_sql_remedy remedy, struct sb_sql_failure *failure)
{
    failure->remedy = remedy;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE, "the file %s was deleted or replaced",
                        path);
}

static int check_file(const char *path, const struct sb_sqlite_identity *identity,
                      struct sb_sql_failure *failure)
{
    struct sb_sqlite_identity now = {0};
    int system_code = identify(path, &now);

    if (system_code == 0 && now.device == identity->device && now.inode == identity->inode)
        return SIMBA_OK;
    if (system_code == EACCES) /* it may be there, but we are not to see it any more */
        return sb_sqlite_fail_system(path, system_code, failure);
    return fail_moved(path, SB_SQL_RECONNECT, failure);
}

static int check_log(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const struct sb_sqlite_settings *settings = c->settings;
    int code = check_file(settings->log_path, &c->log, failure);

    if (code == SIMBA_OK)
        code = check_file(settings->index_path, &c->index, failure);
    return code;
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

/* Another connection of this process that still has a deleted one open would share it with us: then it
 * has no name, and we wait for the other one to notice. */
int sb_sqlite_identify_log(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    if (identify(c->settings->log_path, &c->log) != 0)
        return fail_moved(c->settings->log_path, SB_SQL_RETRY, failure);
    if (identify(c->settings->index_path, &c->index) != 0)
        return fail_moved(c->settings->index_path, SB_SQL_RETRY, failure);
    return SIMBA_OK;
}

/* ---- The folder ----------------------------------------------------------------------------- */

/* By the clock that dates are taken from, which stands still between two ticks. */
static int64_t age_ms(const struct timespec *date)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (now.tv_sec - date->tv_sec) * 1000 + (now.tv_nsec - date->tv_nsec) / 1000000;
}

/* Whether another change after this date would show. */
static bool is_telling(const struct timespec *date)
{
    return date->tv_nsec % COARSE_NS != 0 && age_ms(date) > SETTLED_MS;
}

static bool is_unchanged(const struct sb_sqlite_folder *before, const struct stat *now)
{
    return before->identity.device == now->st_dev && before->identity.inode == now->st_ino &&
           before->changed.tv_sec == now->st_ctim.tv_sec &&
           before->changed.tv_nsec == now->st_ctim.tv_nsec;
}

/* What the folder was before the log and its index were looked at. */
static void note_folder(struct sb_sqlite_folder *folder, const struct stat *status, int64_t now_ms)
{
    folder->identity.device = status->st_dev;
    folder->identity.inode = status->st_ino;
    folder->changed = status->st_ctim;
    folder->good_until_ms = is_telling(&status->st_ctim) ? now_ms + RECHECK_MS : 0;
}

int sb_sqlite_check(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    int64_t now_ms = simba_now_ms();
    struct stat folder;
    bool found = stat(c->settings->folder_path, &folder) == 0;
    int code = check_file(c->settings->path, &c->file, failure);

    if (code == SIMBA_OK && found && now_ms < c->folder.good_until_ms &&
        is_unchanged(&c->folder, &folder))
        return SIMBA_OK;
    c->folder.good_until_ms = 0;
    if (code == SIMBA_OK)
        code = check_log(c, failure);
    if (code == SIMBA_OK && found)
        note_folder(&c->folder, &folder, now_ms);
    return code;
}
