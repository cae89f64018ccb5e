/*
 * trusted_file.c - which files and folders are trusted. The way to them is path_walk.h's.
 */
#include "base/trusted_file.h"

#include "base/error.h"
#include "base/path_walk.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/url.h"

#include <errno.h>
#include <fcntl.h>
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

#define REASON_MAX 256

struct walk {
    struct sb_path_walk at;
    struct sb_trust trust;
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

/* Whether a step of the walk has succeeded. */
static bool take_code(struct walk *walk, int system_code)
{
    walk->system_code = system_code;
    return system_code == 0;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* `what` is the file itself or a folder on the way to it. */
static bool check_owner(struct walk *walk, const char *what, const struct stat *status)
{
    const char *others =
        walk->trust.of_program ? ", nor to a user who can replace the program" : "";

    if (sb_trust_has_user(&walk->trust, status->st_uid))
        return true;
    return fail_rule(walk,
                     "%s belongs to user %u, not to root or the user that runs this%s: chown it",
                     what, (unsigned)status->st_uid, others);
}

static bool check_writers(struct walk *walk, const char *what, const struct stat *status)
{
    bool everybody = (status->st_mode & S_IWOTH) != 0;
    bool group =
        (status->st_mode & S_IWGRP) != 0 && !sb_trust_has_group(&walk->trust, status->st_gid);

    if (!everybody && !group)
        return true;
    return fail_rule(walk, "%s can write %s: chmod go-w it", everybody ? "everybody" : "its group",
                     what);
}

static bool check_file(struct walk *walk, const struct stat *status)
{
    if (!S_ISREG(status->st_mode))
        return fail_rule(walk, "it is no regular file");
    return check_owner(walk, "it", status) && check_writers(walk, "it", status);
}

/* In a folder with the sticky bit others may write, but not rename what is not theirs. */
static bool is_sticky(const struct walk *walk)
{
    return (walk->at.folder_status.st_mode & S_ISVTX) != 0;
}

static bool check_folder(struct walk *walk)
{
    const struct stat *status = &walk->at.folder_status;
    char what[128];

    snprintf(what, sizeof what, "the folder '%.80s' on the way to it", walk->at.name);
    return check_owner(walk, what, status) &&
           (is_sticky(walk) || walk->trust.everybody || check_writers(walk, what, status));
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Whether the entry stands for a descriptor of a process: its text is no path. */
static bool is_descriptor(const struct walk *walk)
{
    struct statfs system;

    return fstatfs(walk->at.folder, &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
           walk->at.name[strspn(walk->at.name, "0123456789")] == '\0';
}

static bool is_pipe(int fd, const struct stat *status)
{
    struct statfs system;

    return S_ISFIFO(status->st_mode) && fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

/* Without O_NONBLOCK the open of a FIFO would wait for a writer. A read of a pipe waits as
 * usual. */
static bool open_entry(struct walk *walk, int flags, int *ret_fd, struct stat *ret_status)
{
    int fd = openat(walk->at.folder, walk->at.name,
                    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
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

/* ---- The way --------------------------------------------------------------------------------- */

/* Each folder is checked when the walk is in it. */
static bool go_on(struct walk *walk)
{
    struct sb_path_walk *at = &walk->at;
    int code = sb_path_walk_is_link(at) ? sb_path_walk_follow(at) : sb_path_walk_enter(at);

    return take_code(walk, code) && check_folder(walk);
}

/* In a folder with the sticky bit. What is a folder itself is checked when the walk is in it. */
static bool check_entry(struct walk *walk)
{
    const struct stat *status = &walk->at.entry_status;
    char what[128] = "it";

    if (!is_sticky(walk) || S_ISDIR(status->st_mode))
        return true;
    if (walk->at.rest[0] != '\0')
        snprintf(what, sizeof what, "the link '%.80s' on the way to it", walk->at.name);
    return check_owner(walk, what, status);
}

/* Opens the entry where it is what the path leads to; *ret_fd stays -1 where the way goes on. */
static bool step(struct walk *walk, int *ret_fd, struct stat *ret_status)
{
    const struct sb_path_walk *at = &walk->at;
    const struct stat *status = &at->entry_status;

    if (!take_code(walk, sb_path_walk_look(&walk->at)))
        return false;
    if (!check_entry(walk))
        return false;
    if (sb_path_walk_is_link(at) && is_descriptor(walk))
        return open_entry(walk, 0, ret_fd, ret_status);
    if (sb_path_walk_is_link(at) || at->rest[0] != '\0')
        return go_on(walk);
    return check_file(walk, status) && open_entry(walk, O_NOFOLLOW, ret_fd, ret_status);
}

static bool go(struct walk *walk, const char *path, int *ret_fd, struct stat *ret_status)
{
    int fd = -1;

    if (!take_code(walk, sb_path_walk_begin(&walk->at, path)) || !check_folder(walk))
        return false;
    while (fd < 0)
        if (!step(walk, &fd, ret_status))
            return false;
    *ret_fd = fd;
    return true;
}

/* EISDIR: the walk is in what the path names. */
static bool go_into(struct walk *walk, const char *path)
{
    int code;

    if (!take_code(walk, sb_path_walk_begin(&walk->at, path)) || !check_folder(walk))
        return false;
    while ((code = sb_path_walk_look(&walk->at)) == 0)
        if (!check_entry(walk) || !go_on(walk))
            return false;
    return take_code(walk, code == EISDIR ? 0 : code);
}

/* ---- Telling --------------------------------------------------------------------------------- */

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
    char shown[PATH_MAX];

    path = sb_url_redact(path, shown, sizeof shown); /* a user may have given a URL in its place */
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
    struct walk walk;
    struct stat status;
    bool opened;

    sb_trust_init(&walk.trust, NULL);
    opened = go(&walk, path, ret_fd, &status);
    sb_path_walk_end(&walk.at);
    if (!opened)
        return tell(&walk, kind, path, error);
    if (ret_status != NULL)
        *ret_status = status;
    return SIMBA_OK;
}

int sb_trusted_check(const char *kind, const char *path, struct simba_error *error)
{
    struct walk walk = {.system_code = 0};
    struct stat status;
    int fd;
    bool opened = go(&walk, path, &fd, &status);
    bool missing = !opened && walk.system_code == ENOENT;
    bool shared = (walk.at.folder_status.st_mode & (S_IWGRP | S_IWOTH)) != 0;

    sb_path_walk_end(&walk.at);
    if (opened)
        close(fd);
    if (opened || (missing && !shared && !has_other_rights()))
        return SIMBA_OK;
    if (missing && shared)
        fail_rule(&walk, "it is missing, and another user could create it");
    return tell(&walk, kind, path, error);
}

int sb_trusted_folder(const char *kind, const char *path, struct simba_error *error)
{
    struct walk walk;
    bool trusted;

    sb_trust_init(&walk.trust, NULL);
    trusted = go_into(&walk, path);
    sb_path_walk_end(&walk.at);
    return trusted ? SIMBA_OK : tell(&walk, kind, path, error);
}

/* The loader looks in the folder of a module, or in the one above it, for the libraries that the
 * module needs. So nobody else may create files there, with the sticky bit or without. */
static bool check_place(struct walk *walk, const char *path, const char *place)
{
    char folder[PATH_MAX];
    char what[128];
    struct stat status;
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%.*s%s", (int)(strrchr(path, '/') - path), path, place);
    if (text.cut || stat(folder, &status) != 0)
        return take_code(walk, text.cut ? ENAMETOOLONG : errno);
    snprintf(what, sizeof what, "the folder %s",
             place[0] == '\0' ? "that it is in" : "above its own");
    return check_writers(walk, what, &status);
}

int sb_trusted_code(const char *kind, const char *path, const char *program,
                    struct simba_error *error)
{
    struct walk walk;
    struct stat status;
    bool opened;
    int fd;

    sb_trust_init(&walk.trust, program);
    opened = go(&walk, path, &fd, &status);
    sb_path_walk_end(&walk.at);
    if (opened)
        close(fd);
    if (opened && check_place(&walk, path, "") && check_place(&walk, path, "/.."))
        return SIMBA_OK;
    return tell(&walk, kind, path, error);
}
