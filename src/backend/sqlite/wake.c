/*
 * wake.c - the side file by which processes wake each other, its writing end. Must not know SQLite.
 */
#include "backend/sqlite/wake.h"

#include "backend/sqlite/side.h"
#include "base/hash.h"
#include "base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Part of the file's format: all processes must agree on it. */
size_t sb_wake_slot(const char *mutex)
{
    return sb_hash(mutex) % SB_WAKE_SLOTS;
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
    writer->fd = sb_side_open(writer->wake_path, writer->path);
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
