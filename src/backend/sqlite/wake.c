/*
 * wake.c - the side file by which processes wake each other: its format, its listeners, and the
 * writing end. Must not know SQLite.
 */
#include "backend/sqlite/wake.h"

#include "base/hash.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- The files that stand beside the database ------------------------------------------------ */

#define SIDE_MODE 0600 /* where the database cannot be asked */
#define ZFS_MAGIC 0x2fc12fc1

/* A user who may use the database may use the file. Where it cannot be given to the database's
 * group, users of the group do without; where its mode cannot be set it stays
 * private. */
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

static int open_existing(const char *side_path, int access_mode)
{
    struct stat status;
    int fd = open(side_path, access_mode | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

static int create(const char *side_path, const char *path)
{
    struct stat database;
    int fd = open(side_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, SIDE_MODE);

    if (fd >= 0 && stat(path, &database) == 0)
        share_with(fd, &database);
    return fd;
}

int sb_sqlite_side_open(const char *side_path, const char *path)
{
    int fd = open_existing(side_path, O_RDWR);

    if (fd < 0 && errno == ENOENT)
        fd = create(side_path, path);
    if (fd < 0 && errno == EEXIST)
        fd = open_existing(side_path, O_RDWR);
    return fd;
}

int sb_sqlite_side_open_to_read(const char *side_path, const char *path)
{
    int fd = sb_sqlite_side_open(side_path, path);

    return fd < 0 && errno == EACCES ? open_existing(side_path, O_RDONLY) : fd;
}

int sb_sqlite_side_find(const char *side_path)
{
    return open_existing(side_path, O_RDONLY);
}

bool sb_sqlite_side_is_local(int fd)
{
    static const unsigned long local[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                          TMPFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
                                          RAMFS_MAGIC,      ZFS_MAGIC};
    struct statfs status;

    if (fstatfs(fd, &status) != 0)
        return false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if ((unsigned long)status.f_type == local[i])
            return true;
    return false;
}

#define SLOTS_BYTES ((off_t)(SB_SQLITE_WAKE_SLOTS * sizeof(uint64_t)))

/* The locks of listeners. */
#define RELEASES_BYTE SLOTS_BYTES
#define ACQUIRES_BYTE (RELEASES_BYTE + 1)

/* Part of the file's format: all processes must agree on it. */
size_t sb_sqlite_wake_slot(const char *mutex)
{
    return sb_hash(mutex) % SB_SQLITE_WAKE_SLOTS;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Has the file its room while there is some: on a disk that is full later, a release can still be
 * told. Others may have written already, so what is in the file stays. Where it cannot be had, a
 * write will tell. */
static void reserve(int fd)
{
    struct stat status;

    if (fstat(fd, &status) == 0 && status.st_size < SLOTS_BYTES)
        (void)posix_fallocate(fd, 0, SLOTS_BYTES);
}

int sb_sqlite_wake_open_to_read(const char *wake_path, const char *path)
{
    int fd = sb_sqlite_side_open_to_read(wake_path, path);

    if (fd >= 0)
        reserve(fd);
    return fd;
}

/* ---- Listeners ------------------------------------------------------------------------------- */

static struct flock byte_lock(short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return lock;
}

/* The fence is half of the order that wake.h tells of; the other half is in is_heard. */
bool sb_sqlite_wake_listen(int fd, bool to_acquires)
{
    struct flock releases = byte_lock(F_RDLCK, RELEASES_BYTE);
    struct flock acquires = byte_lock(to_acquires ? F_RDLCK : F_UNLCK, ACQUIRES_BYTE);
    bool locked = fcntl(fd, F_OFD_SETLK, &releases) == 0 && fcntl(fd, F_OFD_SETLK, &acquires) == 0;

    atomic_thread_fence(memory_order_seq_cst);
    return locked;
}

/* Where the kernel does not tell, there may be listeners. */
static bool is_heard(int fd, enum simba_notice notice)
{
    struct flock lock =
        byte_lock(F_WRLCK, notice == SIMBA_NOTICE_RELEASED ? RELEASES_BYTE : ACQUIRES_BYTE);

    atomic_thread_fence(memory_order_seq_cst);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* ---- The writing end ------------------------------------------------------------------------- */

void sb_sqlite_wake_writer_init(struct sb_sqlite_wake_writer *writer,
                                const struct simba_backend_host *host, const char *wake_path,
                                const char *path)
{
    memset(writer, 0, sizeof *writer);
    writer->host = host;
    writer->wake_path = wake_path;
    writer->path = path;
    writer->fd = -1;
    writer->random = sb_random_seed();
}

void sb_sqlite_wake_writer_close(struct sb_sqlite_wake_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}

static void complain(struct sb_sqlite_wake_writer *writer)
{
    if (!writer->complained)
        writer->host->log(writer->host, SIMBA_LOG_INFO,
                          "cannot write %s, so waiting processes are not woken: %s",
                          writer->wake_path, strerror(errno));
    writer->complained = true;
}

/* Whether the name leads to the file that was opened, and no other name does. */
static bool is_named(const struct sb_sqlite_wake_writer *writer)
{
    struct stat named;

    return lstat(writer->wake_path, &named) == 0 && named.st_dev == writer->device &&
           named.st_ino == writer->inode && named.st_nlink == 1;
}

static void open_file(struct sb_sqlite_wake_writer *writer)
{
    struct stat opened;

    sb_sqlite_wake_writer_close(writer);
    writer->fd = sb_sqlite_side_open(writer->wake_path, writer->path);
    if (writer->fd < 0)
        return;
    reserve(writer->fd);
    if (fstat(writer->fd, &opened) != 0) {
        sb_sqlite_wake_writer_close(writer);
        return;
    }
    writer->device = opened.st_dev;
    writer->inode = opened.st_ino;
}

/* A waiter since the commit may have found another file, or none, behind the name. One that opens
 * it after this look finds the commit. */
static bool ensure_file(struct sb_sqlite_wake_writer *writer, uint64_t names_note)
{
    bool known = names_note != 0 && names_note == writer->names_note;

    if (writer->fd < 0 || !(known || is_named(writer)))
        open_file(writer);
    writer->names_note = names_note;
    return writer->fd >= 0;
}

static bool write_slot(struct sb_sqlite_wake_writer *writer, const char *mutex)
{
    uint64_t value = sb_random_next(&writer->random);
    off_t offset = (off_t)(sb_sqlite_wake_slot(mutex) * sizeof value);

    return pwrite(writer->fd, &value, sizeof value, offset) == (ssize_t)sizeof value;
}

void sb_sqlite_wake_write(struct sb_sqlite_wake_writer *writer, enum simba_notice notice,
                          const char *mutex, uint64_t names_note)
{
    bool written;

    if (!ensure_file(writer, names_note)) {
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
