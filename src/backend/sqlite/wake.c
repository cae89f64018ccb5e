/*
 * wake.c - the side file by which processes wake each other: its format, who listens, and the writing end. Must not
 * know SQLite.
 */
#include "backend/sqlite/wake.h"

#include "backend/sqlite/side.h"
#include "base/hash.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECHECK_MS 1000 /* as often as who listens makes sure of the file */

/* The locks of who listens. */
#define RELEASES_BYTE ((off_t)(SB_WAKE_SLOTS * sizeof(uint64_t)))
#define ACQUIRES_BYTE (RELEASES_BYTE + 1)

/* Part of the file's format: all processes must agree on it. */
size_t sb_wake_slot(const char *mutex)
{
    return sb_hash(mutex) % SB_WAKE_SLOTS;
}

/* ---- Who listens ---------------------------------------------------------------------------- */

static struct flock byte_lock(short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return lock;
}

/* The fence is half of the order that wake.h tells of; the other half is in is_heard. */
bool sb_wake_listen(int fd, bool to_acquires)
{
    struct flock releases = byte_lock(F_RDLCK, RELEASES_BYTE);
    struct flock acquires = byte_lock(to_acquires ? F_RDLCK : F_UNLCK, ACQUIRES_BYTE);
    bool locked = fcntl(fd, F_OFD_SETLK, &releases) == 0 && fcntl(fd, F_OFD_SETLK, &acquires) == 0;

    atomic_thread_fence(memory_order_seq_cst);
    return locked;
}

/* Where the kernel does not tell, somebody may listen. */
static bool is_heard(int fd, enum simba_notice notice)
{
    struct flock lock =
        byte_lock(F_WRLCK, notice == SIMBA_NOTICE_RELEASED ? RELEASES_BYTE : ACQUIRES_BYTE);

    atomic_thread_fence(memory_order_seq_cst);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* ---- The writing end ------------------------------------------------------------------------ */

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

/* Nobody watches a file that has no name any more, or soon nobody will: who listens finds out within a second. */
static bool ensure_file(struct sb_wake_writer *writer)
{
    int64_t now_ms = simba_now_ms();
    struct stat status;

    if (writer->fd >= 0 && now_ms < writer->good_until_ms)
        return true;
    if (writer->fd < 0 || fstat(writer->fd, &status) != 0 || status.st_nlink != 1) {
        sb_wake_writer_close(writer);
        writer->fd = sb_side_open(writer->wake_path, writer->path);
    }
    writer->good_until_ms = now_ms + RECHECK_MS;
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
    if (!is_heard(writer->fd, notice))
        return;
    if (notice == SIMBA_NOTICE_RELEASED)
        written = write_slot(writer, mutex);
    else
        written = futimens(writer->fd, NULL) == 0;
    if (!written)
        complain(writer);
}
