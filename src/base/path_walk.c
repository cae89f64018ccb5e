/*
 * path_walk.c - walks along a path from descriptor to descriptor. Owns the descriptors; must not
 * know which folders and links its caller trusts.
 */
#include "base/path_walk.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

int sb_path_walk_begin(struct sb_path_walk *walk, const char *path)
{
    char here[PATH_MAX] = "";
    struct sb_text text;

    memset(walk, 0, sizeof *walk);
    walk->folder = -1;
    walk->entry = -1;
    if (path[0] == '\0')
        return ENOENT;
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL)
        return errno;
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
