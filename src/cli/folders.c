/*
 * folders.c - goes to a folder from descriptor to descriptor, so that nobody can exchange one between a check and its use.
 */
#include "cli/folders.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANOTHERS (-1) /* no errno: a folder or a link of another user */

static bool is_ours(const struct stat *status)
{
    return status->st_uid == 0 || status->st_uid == geteuid();
}

static bool is_our_folder(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && is_ours(&status);
}

/* Opens the folder, and creates it where it is missing. Returns 0, an errno or ANOTHERS. */
static int enter(int parent, const char *name, int *ret_fd)
{
    int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    struct stat entry;

    if (fstatat(parent, name, &entry, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return errno;
        if (!is_our_folder(parent))
            return ANOTHERS;
        if (mkdirat(parent, name, 0700) != 0 && errno != EEXIST)
            return errno;
    } else if (S_ISLNK(entry.st_mode)) {
        if (!is_ours(&entry) || !is_our_folder(parent))
            return ANOTHERS;
        flags &= ~O_NOFOLLOW;
    }
    *ret_fd = openat(parent, name, flags);
    return *ret_fd >= 0 ? 0 : errno;
}

static int fail(const char *path, size_t length, int failure, struct simba_error *error)
{
    bool refused = failure == EACCES || failure == EPERM || failure == EROFS;

    if (failure == ANOTHERS)
        return sb_error_set(error, SIMBA_EDENIED,
                            "cannot create the folder '%.*s': what it is in belongs to another "
                            "user; give a store with --url or SIMBA_URL",
                            (int)length, path);
    return sb_error_set(error, refused ? SIMBA_EDENIED : SIMBA_ECONFIG,
                        "cannot create the folder '%.*s': %s", (int)length, path,
                        strerror(failure));
}

int cli_create_folders(const char *path, struct simba_error *error)
{
    int parent = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failure = parent >= 0 ? 0 : errno;
    const char *name = path + 1;
    const char *end = strchr(name, '/');

    for (; end != NULL && failure == 0; name = end + 1, end = strchr(name, '/')) {
        char text[PATH_MAX];
        int fd = -1;

        if (end == name)
            continue;
        memcpy(text, name, (size_t)(end - name));
        text[end - name] = 0;
        failure = enter(parent, text, &fd);
        close(parent);
        parent = fd;
        if (failure != 0)
            break;
    }
    if (parent >= 0)
        close(parent);
    return failure == 0 ? SIMBA_OK
                        : fail(path, end != NULL ? (size_t)(end - path) : 1, failure, error);
}
