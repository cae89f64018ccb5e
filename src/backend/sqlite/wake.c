/*
 * wake.c - the side file by which processes wake each other, its writing end. Must not know SQLite.
 */
#include "backend/sqlite/wake.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WAKE_MODE 0600 /* where the database cannot be asked */

/* FNV-1a. Part of the file's format: all processes must agree on it. */
size_t sb_wake_slot(const char *mutex)
{
    uint32_t hash = 2166136261u;

    for (; *mutex != '\0'; mutex++)
        hash = (hash ^ (unsigned char)*mutex) * 16777619u;
    return hash % SB_WAKE_SLOTS;
}

/* Whoever may use the database may wake. Where that cannot be arranged, only processes of our own
 * user can, and the others come by their clocks. */
static void share_with(int fd, const struct stat *database)
{
    if (fchmod(fd, database->st_mode & 0666) != 0)
        return;
    if (geteuid() == 0 && fchown(fd, database->st_uid, database->st_gid) != 0)
        return;
}

int sb_wake_open(const char *wake_path, const char *path)
{
    struct stat database;
    int fd = open(wake_path, O_RDWR | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open(wake_path, O_RDWR | O_CREAT | O_CLOEXEC, WAKE_MODE);
    if (fd >= 0 && stat(path, &database) == 0)
        share_with(fd, &database);
    return fd;
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

    if (writer->fd >= 0 && fstat(writer->fd, &status) == 0 && status.st_nlink > 0)
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
