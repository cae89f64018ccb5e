/*
 * side.c - opens the files that stand beside the database, and knows the file systems to rely on. Must not know what is in them.
 */
#include "backend/sqlite/side.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SIDE_MODE 0600 /* where the database cannot be asked */
#define ZFS_MAGIC 0x2fc12fc1

/* A user who may use the database may use the file. Where it cannot be given to the database's group, those who
 * get in by the group do without; where its mode cannot be set it stays private. */
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

int sb_side_open(const char *side_path, const char *path)
{
    int fd = open_existing(side_path, O_RDWR);

    if (fd < 0 && errno == ENOENT)
        fd = create(side_path, path);
    if (fd < 0 && errno == EEXIST)
        fd = open_existing(side_path, O_RDWR);
    return fd;
}

int sb_side_open_to_read(const char *side_path, const char *path)
{
    int fd = sb_side_open(side_path, path);

    return fd < 0 && errno == EACCES ? open_existing(side_path, O_RDONLY) : fd;
}

int sb_side_find(const char *side_path)
{
    return open_existing(side_path, O_RDONLY);
}

bool sb_side_is_local(int fd)
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
