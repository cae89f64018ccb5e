/*
 * file.c - the database file: creating and opening it, and bringing it into WAL mode.
 *
 * Nothing here may open and close the database file itself while SQLite has it open: the close would
 * drop SQLite's locks on it (POSIX locks belong to the process, not to the descriptor).
 */
#include "backend/sqlite/file.h"

#include "backend/sqlite/failure.h"
#include "backend/sqlite/identity.h"
#include "backend/sqlite/names.h"
#include "backend/sqlite/side.h"
#include "backend/sqlite/trusted_folder.h"
#include "backend/sqlite/vfs.h"
#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void sb_sqlite_pause(struct sb_sqlite_connection *c, int64_t most_us)
{
    int64_t us = sb_random_between(sb_random_next(&c->random), SB_SQLITE_PAUSE_MIN_US, most_us + 1);
    const struct timespec pause = {0, (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* SQLite would create it readable for all. The lock keeps a client of this process from opening the new
 * file before our descriptor is closed. */
static int create_file(const char *path, struct sb_sql_failure *failure)
{
    static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
    int fd;
    int code;

    pthread_mutex_lock(&creating);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, SB_SQLITE_FILE_MODE);
    code = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    pthread_mutex_unlock(&creating);
    if (code == 0 || code == EEXIST)
        return SIMBA_OK;
    return sb_sqlite_fail_create(path, code, failure);
}

static int find_file(const char *path, struct sb_sql_failure *failure)
{
    struct stat status;

    if (stat(path, &status) == 0)
        return SIMBA_OK;
    if (errno != ENOENT && errno != ENOTDIR)
        return sb_sqlite_fail_system(path, errno, failure);
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_ENOTFOUND, "there is no database %s", path);
}

bool sb_sqlite_is_read_only(const struct sb_sqlite_connection *c)
{
    return sqlite3_db_readonly(c->db, "main") == 1;
}

/* SQLite reads a file that it may not write when the log and its index are there and can be read. It would
 * create missing ones in a folder that we may write in; they would be ours, and the owner of the database
 * shut out. */
static int check_reading(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const struct sb_sqlite_settings *settings = c->settings;

    if (!settings->must_exist)
        return sb_sqlite_fail_read_only(settings->path, failure);
    if (access(settings->log_path, R_OK) == 0 && access(settings->index_path, R_OK) == 0)
        return SIMBA_OK;
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set_backend(
        &failure->error, SIMBA_EDENIED, errno,
        "to read the status you need write access to the database %s, because its log "
        "cannot be read: %s",
        settings->path, strerror(errno));
}

int sb_sqlite_open(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                      SQLITE_OPEN_NOFOLLOW; /* the path was resolved: a link came later */
    const char *path = c->settings->path;
    int code = c->settings->must_exist ? find_file(path, failure) : SIMBA_OK;
    int rc;

    if (code == SIMBA_OK)
        code = sb_sqlite_check_names(c->settings, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_check_folder(c->settings, failure);
    if (code == SIMBA_OK && !c->settings->must_exist)
        code = create_file(path, failure);
    if (code != SIMBA_OK)
        return code;
    errno = 0; /* SQLite reports whatever it finds there */
    rc = sqlite3_open_v2(path, &c->db, flags, sb_sqlite_vfs());
    if (c->db == NULL) {
        failure->remedy = SB_SQL_GIVE_UP;
        return sb_error_plain(&failure->error, SIMBA_ENOMEM);
    }
    if (rc != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    if (sb_sqlite_is_read_only(c))
        code = check_reading(c, failure);
    return code == SIMBA_OK ? sb_sqlite_identify_file(c, failure) : code;
}

/* ---- Write-ahead log ------------------------------------------------------------------------ */

/* Takes "wal" for an answer and nothing else. */
static int take_mode(void *user, int count, char **values, char **names)
{
    bool *ret_is_wal = user;

    (void)names;
    *ret_is_wal = count == 1 && values[0] != NULL && strcmp(values[0], "wal") == 0;
    return 0;
}

static int ask_mode(struct sb_sqlite_connection *c, const char *sql, bool *ret_is_wal)
{
    return sqlite3_exec(c->db, sql, take_mode, ret_is_wal, NULL);
}

int sb_sqlite_enable_wal(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    bool is_wal = false;

    if (ask_mode(c, "PRAGMA journal_mode = WAL", &is_wal) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    if (is_wal)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ESTORE,
                        "the file system of %s cannot hold a write-ahead log", c->settings->path);
}

bool sb_sqlite_is_wal(struct sb_sqlite_connection *c)
{
    bool is_wal = false;

    return ask_mode(c, "PRAGMA journal_mode", &is_wal) == SQLITE_OK && is_wal;
}

/* ---- One at a time -------------------------------------------------------------------------- */

int sb_sqlite_lock_set_up(struct sb_sqlite_connection *c)
{
    int fd = sb_side_open(c->settings->wake_path, c->settings->path);

    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || simba_now_ms() >= c->deadline_ms) {
            close(fd);
            return -1;
        }
        sb_sqlite_pause(c, SB_SQLITE_PAUSE_MAX_US);
    }
    return fd;
}

void sb_sqlite_unlock_set_up(int fd)
{
    if (fd >= 0)
        close(fd);
}
