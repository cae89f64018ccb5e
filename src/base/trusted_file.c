/*
 * trusted_file.c - walks to a file from descriptor to descriptor, so that nothing can change between a check and its
 * use.
 */
#include "base/trusted_file.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef PIPEFS_MAGIC
#define PIPEFS_MAGIC 0x50495045
#endif

#define LINKS_MAX 40 /* as the kernel has it */
#define REASON_MAX 256

struct walk {
    int folder;         /* where the walk is */
    bool folder_sticky; /* others may write it, but not rename what is not theirs */
    char rest[PATH_MAX];
    char name[NAME_MAX + 1]; /* of the entry that is looked at */
    int links;
    int system_code; /* why it failed; 0: `reason` says it */
    char reason[REASON_MAX];
};

static bool fail_system(struct walk *walk)
{
    walk->system_code = errno;
    return false;
}

__attribute__((format(printf, 2, 3))) static bool fail_rule(struct walk *walk, const char *format,
                                                            ...)
{
    va_list arguments;

    walk->system_code = 0;
    va_start(arguments, format);
    vsnprintf(walk->reason, sizeof walk->reason, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_code(struct walk *walk, int system_code)
{
    errno = system_code;
    return fail_system(walk);
}

/* ---- Rules -------------------------------------------------------------------------------- */

static bool is_ours(const struct stat *status)
{
    return status->st_uid == 0 || status->st_uid == geteuid();
}

/* `what` is the file itself or a folder on the way to it. */
static bool check_owner(struct walk *walk, const char *what, const struct stat *status)
{
    if (is_ours(status))
        return true;
    return fail_rule(walk,
                     "%s belongs to user %u, not to root or the user that runs this: chown it",
                     what, (unsigned)status->st_uid);
}

static bool check_writers(struct walk *walk, const char *what, const struct stat *status)
{
    if ((status->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return true;
    return fail_rule(walk, "%s can write %s: chmod go-w it",
                     (status->st_mode & S_IWOTH) != 0 ? "everybody" : "its group", what);
}

static bool check_file(struct walk *walk, const struct stat *status)
{
    if (!S_ISREG(status->st_mode))
        return fail_rule(walk, "it is no regular file");
    return check_owner(walk, "it", status) && check_writers(walk, "it", status);
}

static bool check_folder(struct walk *walk, const struct stat *status)
{
    char what[128];

    snprintf(what, sizeof what, "the folder '%.80s' on the way to it", walk->name);
    walk->folder_sticky = (status->st_mode & S_ISVTX) != 0;
    return check_owner(walk, what, status) &&
           (walk->folder_sticky || check_writers(walk, what, status));
}

/* ---- Folders ------------------------------------------------------------------------------ */

/* Takes the descriptor. */
static bool enter(struct walk *walk, int folder)
{
    struct stat status;

    if (walk->folder >= 0)
        close(walk->folder);
    walk->folder = folder;
    if (folder < 0 || fstat(folder, &status) != 0)
        return fail_system(walk);
    return check_folder(walk, &status);
}

static bool enter_root(struct walk *walk)
{
    strcpy(walk->name, "/");
    return enter(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes the next name off the rest. What is left is empty for the last one; a slash behind it counts as nothing. */
static bool take_name(struct walk *walk)
{
    size_t begin = strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest + begin, "/");
    size_t next = begin + length + strspn(walk->rest + begin + length, "/");

    if (length == 0 || length > NAME_MAX)
        return fail_code(walk, length == 0 ? EISDIR : ENAMETOOLONG); /* "/" */
    memcpy(walk->name, walk->rest + begin, length);
    walk->name[length] = '\0';
    memmove(walk->rest, walk->rest + next, strlen(walk->rest + next) + 1);
    return true;
}

/* ---- Links -------------------------------------------------------------------------------- */

static bool follow(struct walk *walk, int link)
{
    char target[PATH_MAX];
    char whole[2 * PATH_MAX];
    ssize_t length = readlinkat(link, "", target, sizeof target - 1);

    if (length < 0)
        return fail_system(walk);
    if (length == 0 || ++walk->links > LINKS_MAX)
        return fail_code(walk, length == 0 ? ENOENT : ELOOP);
    target[length] = '\0';
    snprintf(whole, sizeof whole, "%s%s%s", target, walk->rest[0] != '\0' ? "/" : "", walk->rest);
    if (strlen(whole) >= sizeof walk->rest)
        return fail_code(walk, ENAMETOOLONG);
    strcpy(walk->rest, whole);
    return walk->rest[0] != '/' || enter_root(walk);
}

/* Whether the entry stands for a descriptor of a process: its text is no path. */
static bool is_descriptor(const struct walk *walk)
{
    struct statfs system;

    return fstatfs(walk->folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
           walk->name[strspn(walk->name, "0123456789")] == '\0';
}

static bool is_pipe(int fd, const struct stat *status)
{
    struct statfs system;

    return S_ISFIFO(status->st_mode) && fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

/* ---- The file ----------------------------------------------------------------------------- */

/* Without O_NONBLOCK the open of a FIFO would wait for a writer. A read of a pipe waits as usual. */
static bool open_entry(struct walk *walk, int flags, int *ret_fd, struct stat *ret_status)
{
    int fd = openat(walk->folder, walk->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    bool opened;

    if (fd < 0)
        return fail_system(walk);
    if (fstat(fd, ret_status) != 0)
        opened = fail_system(walk);
    else if (flags == 0 && is_pipe(fd, ret_status))
        opened = check_owner(walk, "it", ret_status);
    else
        opened = check_file(walk, ret_status);
    if (opened && fcntl(fd, F_SETFL, 0) != 0)
        opened = fail_system(walk);
    if (opened)
        *ret_fd = fd;
    else
        close(fd);
    return opened;
}

enum step { STEP_FAILED, STEP_ON, STEP_ARRIVED };

static enum step on(bool succeeded)
{
    return succeeded ? STEP_ON : STEP_FAILED;
}

static enum step arrive(bool opened)
{
    return opened ? STEP_ARRIVED : STEP_FAILED;
}

/* The entry was looked at by a descriptor that opens nothing: a device could take that for a request. */
static enum step look_at(struct walk *walk, int entry, int *ret_fd, struct stat *ret_status)
{
    struct stat status;

    if (fstat(entry, &status) != 0)
        return on(fail_system(walk));
    if (walk->folder_sticky && !S_ISDIR(status.st_mode) && !check_owner(walk, "it", &status))
        return STEP_FAILED;
    if (S_ISLNK(status.st_mode) && is_descriptor(walk))
        return arrive(open_entry(walk, 0, ret_fd, ret_status));
    if (S_ISLNK(status.st_mode))
        return on(follow(walk, entry));
    if (walk->rest[0] != '\0')
        return on(enter(
            walk, openat(walk->folder, walk->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
    return arrive(check_file(walk, &status) && open_entry(walk, O_NOFOLLOW, ret_fd, ret_status));
}

static enum step step(struct walk *walk, int *ret_fd, struct stat *ret_status)
{
    enum step outcome;
    int entry;

    if (!take_name(walk))
        return STEP_FAILED;
    entry = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (entry < 0)
        return on(fail_system(walk));
    outcome = look_at(walk, entry, ret_fd, ret_status);
    close(entry);
    return outcome;
}

/* From the root, also where the path is relative: the file may be opened again when this process is elsewhere. */
static bool begin(struct walk *walk, const char *path)
{
    char here[PATH_MAX] = "";
    int length;

    if (path[0] == '\0')
        return fail_code(walk, ENOENT);
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL)
        return fail_system(walk);
    length = snprintf(walk->rest, sizeof walk->rest, "%s/%s", here, path);
    return length < (int)sizeof walk->rest || fail_code(walk, ENAMETOOLONG);
}

static bool go(struct walk *walk, const char *path, int *ret_fd, struct stat *ret_status)
{
    enum step outcome = STEP_ON;

    if (!begin(walk, path) || !enter_root(walk))
        return false;
    while (outcome == STEP_ON)
        outcome = step(walk, ret_fd, ret_status);
    return outcome == STEP_ARRIVED;
}

/* ---- Telling ------------------------------------------------------------------------------ */

static bool has_other_rights(void)
{
    return getuid() != geteuid() || getgid() != getegid();
}

static int code_of(int system_code)
{
    switch (system_code) {
    case EACCES:
    case EPERM:
        return SIMBA_EDENIED;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return SIMBA_ENOMEM;
    default:
        return SIMBA_ECONFIG;
    }
}

static int tell(const struct walk *walk, const char *kind, const char *path,
                struct simba_error *error)
{
    int system_code = walk->system_code;

    if (has_other_rights())
        return sb_error_set(error, SIMBA_ECONFIG, "the %s %s cannot be used", kind, path);
    if (system_code == 0)
        return sb_error_set(error, SIMBA_ECONFIG, "the %s %s is not used: %s", kind, path,
                            walk->reason);
    return sb_error_set_backend(error, code_of(system_code), system_code,
                                "the %s %s cannot be read: %s", kind, path, strerror(system_code));
}

int sb_trusted_open(const char *kind, const char *path, int *ret_fd, struct stat *ret_status,
                    struct simba_error *error)
{
    struct walk walk = {.folder = -1};
    struct stat status;
    bool opened = go(&walk, path, ret_fd, &status);

    if (walk.folder >= 0)
        close(walk.folder);
    if (!opened)
        return tell(&walk, kind, path, error);
    if (ret_status != NULL)
        *ret_status = status;
    return SIMBA_OK;
}
