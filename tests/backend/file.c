/*
 * file.c - a database file in a folder of its own, and SQL on it past the library.
 */
#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOBODY 54321   /* a user that owns nothing */
#define SETTLED_MS 150 /* after that the date of a folder tells of every change */

void file_create(struct file *file)
{
    test_folder_create(file->folder);
    snprintf(file->path, sizeof file->path, "%s/simba.db", file->folder);
    snprintf(file->url, sizeof file->url, "sqlite:%s", file->path);
}

void file_remove(struct file *file)
{
    test_folder_remove(file->folder);
}

int file_setup(void **state)
{
    struct file *file = calloc(1, sizeof *file);

    file_create(file);
    *state = file;
    return 0;
}

int file_teardown(void **state)
{
    file_remove(*state);
    free(*state);
    return 0;
}

sqlite3 *file_open(const struct file *file)
{
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(file->path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_timeout(db, 5000);
    return db;
}

bool file_sql(const struct file *file, const char *sql)
{
    sqlite3 *db = file_open(file);
    bool done = db != NULL && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;

    sqlite3_close(db);
    return done;
}

/* The log stays where it is. */
bool file_forget_lives(const struct file *file)
{
    sqlite3 *db = file_open(file);
    bool done = db != NULL &&
                sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK &&
                sqlite3_exec(db, "UPDATE simba_mutex SET life = 0", NULL, NULL, NULL) == SQLITE_OK;

    sqlite3_close(db);
    return done;
}

int64_t file_number(const struct file *file, const char *sql)
{
    sqlite3 *db = file_open(file);
    sqlite3_stmt *statement = NULL;
    int64_t number = -1;

    if (db != NULL && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

/* The log: a header of 32 bytes, then frames of 24 bytes and a page. The second word of a frame is
 * other than zero where a transaction ends. Frames whose salt is not the header's are left over. */
int file_commits(const struct file *file)
{
    char path[TEST_PATH_MAX + 32];
    unsigned char header[32];
    unsigned char frame[24 + 4096];
    FILE *log;
    int commits = 0;

    snprintf(path, sizeof path, "%s-wal", file->path);
    log = fopen(path, "re");
    if (log == NULL)
        return 0;
    if (fread(header, sizeof header, 1, log) == 1)
        while (fread(frame, sizeof frame, 1, log) == 1 && memcmp(frame + 8, header + 16, 8) == 0)
            if (memcmp(frame + 4, "\0\0\0\0", 4) != 0)
                commits++;
    fclose(log);
    return commits;
}

void file_unlink(const struct file *file, const char *suffix)
{
    char path[TEST_PATH_MAX + 32];

    snprintf(path, sizeof path, "%s%s", file->path, suffix);
    unlink(path);
}

void file_unlink_store(const struct file *file)
{
    file_unlink(file, "");
    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
}

static bool is_settled(void *user)
{
    const struct file *file = user;
    struct timespec now;
    struct stat folder;

    clock_gettime(CLOCK_REALTIME, &now);
    return stat(file->folder, &folder) == 0 &&
           (now.tv_sec - folder.st_ctim.tv_sec) * 1000 +
                   (now.tv_nsec - folder.st_ctim.tv_nsec) / 1000000 >
               SETTLED_MS;
}

bool file_settle(struct file *file)
{
    return test_wait(is_settled, file);
}

bool file_give_folder(const struct file *file)
{
    return geteuid() != 0 || chown(file->folder, NOBODY, NOBODY) == 0;
}

pid_t file_fork(int (*function)(struct file *file), struct file *file, bool other_user)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (other_user && geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        _exit(126);
    _exit(function(file));
}

int file_wait(pid_t pid)
{
    int status = 0;

    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
