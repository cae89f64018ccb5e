/*
 * file.c - the database file: creating and opening it, and its write-ahead log.
 *
 * Nothing here may open and close the database file itself while SQLite has it open: the close
 * would drop SQLite's locks on it (POSIX locks belong to the process, not to the descriptor).
 */
#include "backend/sqlite/connection.h"

#include "backend/sqlite/trusted_folder.h"
#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The files that SQLite opens ------------------------------------------------------------- */

/* A rollback journal may name a super-journal, that of a transaction over several databases. After
 * the rollback SQLite deletes that file, whatever it is: a user who may create the journal could
 * have a client delete any file of its own. Simba has no such transactions, so no client opens, and
 * thereby none deletes, a super-journal. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sqlite3_vfs vfs; /* a copy of SQLite's own but for xOpen */
static int (*open_file)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

static int open_own(sqlite3_vfs *own, const char *path, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    if ((flags & SQLITE_OPEN_SUPER_JOURNAL) == 0)
        return open_file(own, path, file, flags, ret_flags);
    file->pMethods = NULL;
    return SQLITE_PERM;
}

static void register_copy(void)
{
    const sqlite3_vfs *unix_files = sqlite3_vfs_find("unix");

    if (unix_files == NULL)
        return;
    open_file = unix_files->xOpen;
    vfs = *unix_files;
    vfs.pNext = NULL;
    vfs.zName = "simba";
    vfs.xOpen = open_own;
    if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
        vfs.zName = NULL;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

void sb_sqlite_pause(struct sb_sqlite_connection *c, int64_t most_us)
{
    int64_t us = sb_random_between(sb_random_next(&c->random), SB_SQLITE_PAUSE_MIN_US, most_us + 1);
    const struct timespec pause = {0, (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* SQLite would create it readable for all. The umask may take rights even from its owner. The lock
 * keeps a client of this process from opening the new file before our descriptor is closed. */
static int create_file(const char *path, struct sb_sql_failure *failure)
{
    static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
    int fd;
    int code;

    pthread_mutex_lock(&creating);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, SB_SQLITE_FILE_MODE);
    code = fd < 0 ? errno : 0;
    if (fd >= 0) {
        (void)fchmod(fd, SB_SQLITE_FILE_MODE); /* where that fails SQLite says what is missing */
        close(fd);
    }
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

/* SQLite reads a file that it may not write when the log and its index are there and can be read.
 * It would create missing ones in a folder that we may write in; they would be ours, and the owner
 * of the database shut out. */
static int check_reading(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const struct sb_sqlite_settings *settings = c->settings;

    if (settings->may_create)
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
    int code = !c->settings->may_create ? find_file(path, failure) : SIMBA_OK;
    int rc;

    if (code == SIMBA_OK)
        code = sb_sqlite_check_names(c->settings, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_check_folder(c->settings, failure);
    if (code == SIMBA_OK && c->settings->may_create)
        code = create_file(path, failure);
    if (code != SIMBA_OK)
        return code;
    pthread_once(&once, register_copy);
    errno = 0; /* SQLite reports whatever it finds there */
    rc = sqlite3_open_v2(path, &c->db, flags, vfs.zName); /* NULL: it has no files of Unix */
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

/* ---- Write-ahead log ------------------------------------------------------------------------- */

static int take_mode(void *user, int count, char **values, char **names)
{
    bool *ret_is_wal = user;

    (void)names;
    *ret_is_wal = count == 1 && values[0] != NULL && strcmp(values[0], "wal") == 0;
    return 0;
}

int sb_sqlite_enable_wal(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    bool is_wal = false;

    if (sqlite3_exec(c->db, "PRAGMA journal_mode = WAL", take_mode, &is_wal, NULL) != SQLITE_OK)
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

    return sqlite3_exec(c->db, "PRAGMA journal_mode", take_mode, &is_wal, NULL) == SQLITE_OK &&
           is_wal;
}

/* ---- When the log moves into the file -------------------------------------------------------- */

/* A move costs two syncs, and the committing process pays them:
 *
 *     connections that live long    when the log has LOG_FRAMES_MAX pages
 *     short-lived connections       at LOG_FRAMES already
 *     the one that sets up a file   when it has done so
 *     a write on a full disk        when it has found no room
 *
 * The next commit then writes the log from its beginning. Nobody cuts the log off: the room that it
 * has is what a full disk leaves for renewals. */
#define YOUNG_COMMITS 8     /* a process that lives for one lease makes two */
#define LOG_FRAMES_MAX 1000 /* pages in the log */
#define LOG_FRAMES 100 /* of young connections; to read one takes 3 us, a sync as long as many */
#define LOG_TRIES 4
#define FILE_CHUNK_BYTES 65536 /* the file grows ahead of its pages, while there is room */

/* PASSIVE never waits for a lock. */
bool sb_sqlite_log_move(struct sb_sqlite_connection *c)
{
    int frames = -1;
    int moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &moved);

    return rc == SQLITE_OK && frames == moved;
}

/* A process that opens the file alone has to read all of the log, so that processes which
 * live briefly keep it short for each other: now and then one of them pays the two syncs. */
static int on_commit(void *connection, sqlite3 *db, const char *name, int frames)
{
    struct sb_sqlite_connection *c = connection;

    (void)db;
    (void)name;
    if (c->commits < YOUNG_COMMITS)
        c->commits++;
    if (frames >= LOG_FRAMES_MAX)
        sb_sqlite_log_move(c);
    else if (c->commits < YOUNG_COMMITS && frames >= LOG_FRAMES && frames % LOG_FRAMES < LOG_TRIES)
        c->log_moved = sb_sqlite_log_move(c);
    return SQLITE_OK;
}

/* SQLite writes no page that stays the same. */
static const char count_log[] = "INSERT INTO simba_meta VALUES ('log', 1)"
                                " ON CONFLICT (name) DO UPDATE SET value = value + 1";

/* That the log was moved is forgotten when the last process closes the file; a commit that begins
 * the log anew is not. If another process writes now, that one begins it. */
void sb_sqlite_log_begin(struct sb_sqlite_connection *c)
{
    int64_t deadline_ms = c->deadline_ms;

    c->log_moved = false;
    c->deadline_ms = SB_SQL_AT_ONCE;
    sb_sqlite_start_time(c);
    sqlite3_exec(c->db, count_log, NULL, NULL, NULL);
    c->deadline_ms = deadline_ms;
}

void sb_sqlite_log_tend(struct sb_sqlite_connection *c)
{
    int chunk = FILE_CHUNK_BYTES;

    sqlite3_wal_hook(c->db, on_commit, c);
    sqlite3_file_control(c->db, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
}

/* RESTART waits, within the deadline, for those that still read the log, because the next commit
 * could not begin it anew under them. It does not wait for another process that moves the log. */
bool sb_sqlite_log_make_room(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    int rc = sqlite3_wal_checkpoint_v2(c->db, "main", SQLITE_CHECKPOINT_RESTART, NULL, NULL);

    if ((rc & 0xff) == SQLITE_BUSY)
        failure->remedy = SB_SQL_RETRY;
    return rc == SQLITE_OK;
}

/* ---- One at a time --------------------------------------------------------------------------- */

int sb_sqlite_lock_set_up(struct sb_sqlite_connection *c)
{
    int fd = sb_sqlite_side_open(c->settings->wake_path, c->settings->path);

    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || simba_now_ms() >= c->deadline_ms) {
            close(fd);
            return -1;
        }
        sb_sqlite_pause(c, SB_SQLITE_PAUSE_MAX_US);
    }
    return fd;
}
