/*
 * wake.c - the side file by which processes wake each other, its writing end. Must not know SQLite.
 */
#include "backend/sqlite/wake.h"

#include "base/hash.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAKE_MODE 0600 /* where the database cannot be asked */

/* Part of the file's format: all processes must agree on it. */
size_t sb_wake_slot(const char *mutex)
{
    return sb_hash(mutex) % SB_WAKE_SLOTS;
}

/* Whoever may use the database may wake. Where the file cannot be given to the database's group, those who
 * get in by the group come by their clocks; where its mode cannot be set it stays private. */
static void share_with(int fd, const struct stat *database)
{
    uid_t owner = geteuid() == 0 ? database->st_uid : (uid_t)-1;
    mode_t mode = database->st_mode & 0666;
    struct stat status;

    if (fchown(fd, owner, database->st_gid) != 0 &&
        (fstat(fd, &status) != 0 || status.st_gid != database->st_gid))
        mode &= 0606u;
    (void)fchmod(fd, mode);
}

/* Whoever may write in the folder could have put a link there, to have a file of ours overwritten. */
static int open_existing(const char *wake_path, int access_mode)
{
    struct stat status;
    int fd = open(wake_path, access_mode | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

static int create(const char *wake_path, const char *path)
{
    struct stat database;
    int fd = open(wake_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, WAKE_MODE);

    if (fd >= 0 && stat(path, &database) == 0)
        share_with(fd, &database);
    return fd;
}

int sb_wake_open(const char *wake_path, const char *path)
{
    int fd = open_existing(wake_path, O_RDWR);

    if (fd < 0 && errno == ENOENT)
        fd = create(wake_path, path);
    if (fd < 0 && errno == EEXIST)
        fd = open_existing(wake_path, O_RDWR);
    return fd;
}

int sb_wake_open_to_read(const char *wake_path, const char *path)
{
    int fd = sb_wake_open(wake_path, path);

    return fd < 0 && errno == EACCES ? open_existing(wake_path, O_RDONLY) : fd;
}

void sb_wake_writer_init(struct sb_wake_writer *writer, const struct simba_backend_host *host,
                         const char *wake_path, const char *path)
{
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->wake_path = wake_path;
    writer->path = path;
    writer->fd = -1;
    writer->random = sb_random_seed();
}

void sb_wake_writer_close(struct sb_wake_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}

static void complain(struct sb_wake_writer *writer)
{
    if (!writer->complained)
        writer->host->log(writer->host, SIMBA_LOG_INFO,
                          "cannot write %s, so waiting processes are not woken: %s",
                          writer->wake_path, strerror(errno));
    writer->complained = true;
}

/* Nobody watches a file that has no name any more. */
static bool ensure_file(struct sb_wake_writer *writer)
{
    struct stat status;

    if (writer->fd >= 0 && fstat(writer->fd, &status) == 0 && status.st_nlink == 1)
        return true;
    sb_wake_writer_close(writer);
    writer->fd = sb_wake_open(writer->wake_path, writer->path);
    return writer->fd >= 0;
}

static bool write_slot(struct sb_wake_writer *writer, const char *mutex)
{
    uint64_t value = sb_random_next(&writer->random);
    off_t offset = (off_t)(sb_wake_slot(mutex) * sizeof value);

    return pwrite(writer->fd, &value, sizeof value, offset) == (ssize_t)sizeof value;
}

void sb_wake_write(struct sb_wake_writer *writer, enum simba_notice notice, const char *mutex)
{
    bool written;

    if (!ensure_file(writer)) {
        complain(writer);
        return;
    }
    if (notice == SIMBA_NOTICE_RELEASED)
        written = write_slot(writer, mutex);
    else
        written = futimens(writer->fd, NULL) == 0;
    if (!written)
        complain(writer);
}
