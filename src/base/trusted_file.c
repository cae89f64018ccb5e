/*
 * trusted_file.c - which files and folders are trusted, and the walk to them from descriptor to
 * descriptor.
 */
#include "base/trusted_file.h"

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- A walk along a path --------------------------------------------------------------------- */

#define LINKS_MAX 40 /* as the kernel has it */

static void close_at(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- Where the walk is ----------------------------------------------------------------------- */

/* Takes the descriptor, or -1 with errno. */
static int stand_in(struct sb_path_walk *walk, int folder)
{
    if (folder < 0)
        return errno;
    close_at(&walk->folder);
    walk->folder = folder;
    return fstat(folder, &walk->folder_status) == 0 ? 0 : errno;
}

/* The root has an empty path, so that names can be added to it. */
static int go_to_root(struct sb_path_walk *walk)
{
    strcpy(walk->name, "/");
    walk->path[0] = '\0';
    return stand_in(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes the last name off the path. */
static void cut_path(struct sb_path_walk *walk)
{
    char *slash = strrchr(walk->path, '/');

    if (slash != NULL)
        *slash = '\0';
}

static int add_to_path(struct sb_path_walk *walk, const char *name)
{
    size_t length = strlen(walk->path);
    struct sb_text text;

    sb_text_init(&text, walk->path + length, sizeof walk->path - length);
    sb_text_add(&text, "/%s", name);
    return text.cut ? ENAMETOOLONG : 0;
}

/* ---- The way --------------------------------------------------------------------------------- */

/* Uses the system call. For a folder in another mount namespace, getcwd of the C library makes up a
 * path that leads elsewhere here; the kernel returns one without a leading slash. */
static int find_here(char ret_path[PATH_MAX])
{
    if (syscall(SYS_getcwd, ret_path, (size_t)PATH_MAX) < 0)
        return errno;
    return ret_path[0] == '/' ? 0 : EXDEV;
}

int sb_path_walk_begin(struct sb_path_walk *walk, const char *path)
{
    char here[PATH_MAX] = "";
    struct sb_text text;
    int code;

    memset(walk, 0, sizeof *walk);
    walk->folder = -1;
    walk->entry = -1;
    if (path[0] == '\0')
        return ENOENT;
    code = path[0] != '/' ? find_here(here) : 0;
    if (code != 0)
        return code;
    sb_text_init(&text, walk->rest, sizeof walk->rest);
    sb_text_add(&text, "%s/%s", here, path);
    return text.cut ? ENAMETOOLONG : go_to_root(walk);
}

/* What is left is empty for the last name; a slash behind it counts as nothing. */
static int take_name(struct sb_path_walk *walk)
{
    size_t begin = strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest + begin, "/");
    size_t next = begin + length + strspn(walk->rest + begin + length, "/");

    if (length == 0 || length > NAME_MAX)
        return length == 0 ? EISDIR : ENAMETOOLONG;
    memcpy(walk->name, walk->rest + begin, length);
    walk->name[length] = '\0';
    memmove(walk->rest, walk->rest + next, strlen(walk->rest + next) + 1);
    return 0;
}

/* By a descriptor that opens nothing: a device could take that for a request. */
int sb_path_walk_look(struct sb_path_walk *walk)
{
    int code = take_name(walk);

    if (code == 0 && strcmp(walk->name, "..") == 0)
        cut_path(walk);
    else if (code == 0 && strcmp(walk->name, ".") != 0)
        code = add_to_path(walk, walk->name);
    if (code != 0)
        return code;
    close_at(&walk->entry);
    walk->entry = openat(walk->folder, walk->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return walk->entry >= 0 && fstat(walk->entry, &walk->entry_status) == 0 ? 0 : errno;
}

bool sb_path_walk_is_link(const struct sb_path_walk *walk)
{
    return S_ISLNK(walk->entry_status.st_mode);
}

bool sb_is_proc_folder(int folder)
{
    struct statfs system;

    return fstatfs(folder, &system) != 0 || system.f_type == PROC_SUPER_MAGIC;
}

bool sb_path_walk_is_magic(const struct sb_path_walk *walk)
{
    return sb_path_walk_is_link(walk) && sb_is_proc_folder(walk->folder) &&
           strcmp(walk->name, "self") != 0 && strcmp(walk->name, "thread-self") != 0;
}

/* Once more by its name: what is mounted on demand is mounted only for O_DIRECTORY. */
int sb_path_walk_enter(struct sb_path_walk *walk)
{
    return stand_in(
        walk, openat(walk->folder, walk->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

int sb_path_walk_follow(struct sb_path_walk *walk)
{
    char target[PATH_MAX];
    char rest[PATH_MAX];
    struct sb_text text;
    ssize_t length = readlinkat(walk->entry, "", target, sizeof target - 1);

    if (length < 0)
        return errno;
    if (length == 0 || ++walk->links > LINKS_MAX)
        return length == 0 ? ENOENT : ELOOP;
    target[length] = '\0';
    sb_text_init(&text, rest, sizeof rest);
    sb_text_add(&text, "%s%s%s", target, walk->rest[0] != '\0' ? "/" : "", walk->rest);
    if (text.cut)
        return ENAMETOOLONG;
    strcpy(walk->rest, rest);
    cut_path(walk);
    return target[0] == '/' ? go_to_root(walk) : 0;
}

void sb_path_walk_end(struct sb_path_walk *walk)
{
    close_at(&walk->entry);
    close_at(&walk->folder);
}

/* ---- Trusted users --------------------------------------------------------------------------- */

#define TRUST_MAX 32 /* users, and groups; further ones are not trusted */

/* The users who may have written what this process uses: root and the effective user, and for code
 * that a program loads those who could replace the program. */
struct trust {
    bool of_program; /* false: root and the effective user only */
    uid_t users[TRUST_MAX];
    size_t user_count;
    gid_t groups[TRUST_MAX];
    size_t group_count;
    bool everybody; /* may replace the program */
};

static bool trusts_user(const struct trust *trust, uid_t user)
{
    for (size_t i = 0; i < trust->user_count; i++)
        if (trust->users[i] == user)
            return true;
    return user == 0 || user == geteuid();
}

static bool trusts_group(const struct trust *trust, gid_t group)
{
    for (size_t i = 0; i < trust->group_count; i++)
        if (trust->groups[i] == group)
            return true;
    return false;
}

/* Adds those who could replace the program by what is at the path: the program or a folder on the
 * way to it. */
static void add_writers(struct trust *trust, const char *path)
{
    struct stat found;
    bool shared;

    if (stat(path, &found) != 0)
        return;
    shared = !S_ISDIR(found.st_mode) || (found.st_mode & S_ISVTX) == 0;
    if (!trusts_user(trust, found.st_uid) && trust->user_count < TRUST_MAX)
        trust->users[trust->user_count++] = found.st_uid;
    if (shared && (found.st_mode & S_IWGRP) != 0 && !trusts_group(trust, found.st_gid) &&
        trust->group_count < TRUST_MAX)
        trust->groups[trust->group_count++] = found.st_gid;
    if (shared && (found.st_mode & S_IWOTH) != 0)
        trust->everybody = true;
}

/* `program` is the real path of a program or a library, or NULL. Its owner can replace it; so can
 * those who own or may write a folder on the way to it, unless that has the sticky bit, by which
 * others rename only what is theirs. */
static void trust_init(struct trust *trust, const char *program)
{
    char path[PATH_MAX];

    memset(trust, 0, sizeof *trust);
    if (program == NULL || !sb_text_copy(path, sizeof path, program))
        return;
    trust->of_program = true;
    for (char *end = path + strlen(path); end != NULL; end = strrchr(path, '/')) {
        *end = '\0';
        add_writers(trust, path[0] != '\0' ? path : "/");
    }
}

/* ---- Trusted files --------------------------------------------------------------------------- */

#ifndef PIPEFS_MAGIC
#define PIPEFS_MAGIC 0x50495045
#endif

#define REASON_MAX 256

struct walk {
    struct sb_path_walk at;
    struct trust trust;
    bool by_path;       /* the path is opened again: no way through /proc is the same then */
    bool by_descriptor; /* the way led through a descriptor, of the file `given` */
    struct stat given;
    int system_code;  /* why it failed; 0: `reason` says it */
    bool is_writable; /* the reason: others can write to the file itself */
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

    if (trusts_user(&walk->trust, status->st_uid))
        return true;
    return fail_rule(walk,
                     "%s belongs to user %u, not to root or the user that runs this%s: chown it",
                     what, (unsigned)status->st_uid, others);
}

static bool check_writers(struct walk *walk, const char *what, const struct stat *status)
{
    bool everybody = (status->st_mode & S_IWOTH) != 0;
    bool group = (status->st_mode & S_IWGRP) != 0 && !trusts_group(&walk->trust, status->st_gid);

    if (!everybody && !group)
        return true;
    walk->is_writable = strcmp(what, "it") == 0;
    return fail_rule(walk, "%s can write to %s%s", everybody ? "every user" : "its group", what,
                     walk->is_writable ? "" : "; run chmod go-w on it");
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

    if (walk->by_path && sb_is_proc_folder(walk->at.folder))
        return fail_rule(walk, "its path leads through /proc: give another path");
    snprintf(what, sizeof what, "the folder '%.80s' on the way to it", walk->at.name);
    return check_owner(walk, what, status) &&
           (is_sticky(walk) || walk->trust.everybody || check_writers(walk, what, status));
}

/* Each folder is checked when the walk is in it. */
static bool go_on(struct walk *walk)
{
    struct sb_path_walk *at = &walk->at;

    if (sb_path_walk_is_magic(at))
        return fail_rule(walk,
                         "the link '%.80s' in /proc leads where the process chooses: give a path "
                         "without it",
                         at->name);
    return take_code(walk,
                     sb_path_walk_is_link(at) ? sb_path_walk_follow(at) : sb_path_walk_enter(at)) &&
           check_folder(walk);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Whether the entry, which is a link of /proc, stands for a descriptor of this process. By its
 * path: numbers of inodes repeat in /proc, and the number of the process may be another one
 * there. */
static bool is_own_descriptor(const struct walk *walk)
{
    static const char *const links[] = {"/proc/self", "/proc/thread-self"};

    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        char process[64];
        char path[sizeof process + NAME_MAX + sizeof "/proc//fd/"];
        ssize_t length = readlink(links[i], process, sizeof process - 1);

        if (length <= 0)
            continue;
        process[length] = '\0';
        snprintf(path, sizeof path, "/proc/%s/fd/%s", process, walk->at.name);
        if (strcmp(walk->at.path, path) == 0)
            return true;
    }
    return false;
}

/* Files that the kernel makes up may contain words of another user, such as a command line. */
static bool check_system(struct walk *walk, int fd)
{
    struct statfs system;

    if (fstatfs(fd, &system) != 0)
        return fail_system(walk);
    if (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC)
        return fail_rule(walk, "it is no file on a disk, but in /proc or /sys");
    return true;
}

static bool is_pipe(int fd, const struct stat *status)
{
    struct statfs system;

    return S_ISFIFO(status->st_mode) && fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

/* Memory that is sealed: no process can write it, even with its descriptor. */
static bool is_sealed(int fd)
{
    int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & wanted) == wanted;
}

static bool refuse_given(struct walk *walk)
{
    return fail_rule(walk, "it is the descriptor of a file that its path does not lead to: give "
                           "the path, or a pipe");
}

static bool check_same(struct walk *walk, const struct stat *status)
{
    return !walk->by_descriptor ||
           (walk->given.st_dev == status->st_dev && walk->given.st_ino == status->st_ino) ||
           refuse_given(walk);
}

/* Takes the descriptor. A read of a pipe waits as usual. */
static bool take_file(struct walk *walk, int fd, bool opened, int *ret_fd)
{
    if (opened && fcntl(fd, F_SETFL, 0) != 0)
        opened = fail_system(walk);
    if (opened)
        *ret_fd = fd;
    else
        close(fd);
    return opened;
}

/* Without O_NONBLOCK the open of a FIFO would wait for a writer. */
static int open_entry(struct walk *walk, int flags, struct stat *ret_status)
{
    int fd = openat(walk->at.folder, walk->at.name,
                    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);

    if (fd >= 0 && fstat(fd, ret_status) == 0)
        return fd;
    fail_system(walk);
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool open_file(struct walk *walk, int *ret_fd, struct stat *ret_status)
{
    int fd = open_entry(walk, O_NOFOLLOW, ret_status);

    return fd >= 0 && take_file(walk, fd,
                                check_file(walk, ret_status) && check_system(walk, fd) &&
                                    check_same(walk, ret_status),
                                ret_fd);
}

/* The text of the link is no path, or one that may lead elsewhere by now. A pipe has no path, nor
 * has sealed memory, so its owner decides. A file counts only by its path, as the descriptor may
 * have come from another user: *ret_fd stays -1, and the walk goes on there. */
static bool open_descriptor(struct walk *walk, int *ret_fd, struct stat *ret_status)
{
    int fd = open_entry(walk, 0, ret_status);

    if (fd < 0)
        return false;
    if (is_pipe(fd, ret_status) || is_sealed(fd))
        return take_file(walk, fd, check_owner(walk, "it", ret_status), ret_fd);
    close(fd);
    walk->by_descriptor = true;
    walk->given = *ret_status;
    return check_file(walk, ret_status) && take_code(walk, sb_path_walk_follow(&walk->at)) &&
           check_folder(walk);
}

/* ---- The way --------------------------------------------------------------------------------- */

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
    if (sb_path_walk_is_magic(at) && is_own_descriptor(walk))
        return open_descriptor(walk, ret_fd, ret_status);
    if (sb_path_walk_is_link(at) || at->rest[0] != '\0')
        return go_on(walk);
    return check_file(walk, status) && open_file(walk, ret_fd, ret_status);
}

static bool go(struct walk *walk, const char *path, int *ret_fd, struct stat *ret_status)
{
    int fd = -1;

    if (!take_code(walk, sb_path_walk_begin(&walk->at, path)) || !check_folder(walk))
        return false;
    while (fd < 0)
        if (!step(walk, &fd, ret_status))
            return walk->by_descriptor && walk->system_code == ENOENT ? refuse_given(walk) : false;
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
        return sb_error_set(error, SIMBA_ECONFIG, "the %s %s is refused: %s%s%s", kind, path,
                            walk->reason, walk->is_writable ? "; run chmod go-w " : "",
                            walk->is_writable ? path : "");
    return sb_error_set_backend(error, code_of(system_code), system_code,
                                "the %s %s cannot be read: %s", kind, path, strerror(system_code));
}

int sb_trusted_open(const char *kind, const char *path, int *ret_fd, struct stat *ret_status,
                    struct simba_error *error)
{
    struct walk walk = {.by_descriptor = false};
    struct stat status;
    bool opened;

    trust_init(&walk.trust, NULL);
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
    struct walk walk = {.by_path = true};
    struct stat status;
    int fd;
    bool opened = go(&walk, path, &fd, &status);
    bool walked = walk.at.folder >= 0; /* not where the working folder was removed: ".." leads on */
    bool missing = !opened && walked && walk.system_code == ENOENT;
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

int sb_trusted_folder(const char *kind, const char *path, int *ret_fd, struct simba_error *error)
{
    struct walk walk = {.by_path = true};
    bool trusted = go_into(&walk, path);

    if (trusted) {
        *ret_fd = walk.at.folder;
        walk.at.folder = -1;
    }
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
    struct walk walk = {.by_path = true};
    struct stat status;
    bool opened;
    int fd;

    trust_init(&walk.trust, program);
    opened = go(&walk, path, &fd, &status);
    sb_path_walk_end(&walk.at);
    if (opened)
        close(fd);
    if (opened && check_place(&walk, path, "") && check_place(&walk, path, "/.."))
        return SIMBA_OK;
    return tell(&walk, kind, path, error);
}
