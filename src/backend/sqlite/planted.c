/*
 * planted.c - tells what others may have placed beside the database. Must not know SQLite.
 */
#include "backend/sqlite/planted.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40
#define NAMES_MAX 4096 /* of an entry in the lists of users and groups */

static bool is_trusted(uid_t user)
{
    return user == 0 || user == geteuid();
}

/* Whether nobody else can create or exchange names in it. */
static bool is_private(const struct stat *folder)
{
    return is_trusted(folder->st_uid) && (folder->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* In a folder with the sticky bit others can create names, but not exchange those of ours. */
static bool is_placed_by_us(const struct stat *folder, const struct stat *entry)
{
    if (is_private(folder))
        return true;
    return (folder->st_mode & S_ISVTX) != 0 && is_trusted(folder->st_uid) &&
           is_trusted(entry->st_uid);
}

/* ---- Links ---------------------------------------------------------------------------------- */

/* What is left of a path to be followed. */
struct walk {
    struct sb_sqlite_way *way;
    char rest[PATH_MAX];
    int links;
};

/* Takes the next name from the rest. */
static void take_name(struct walk *walk, char name[NAME_MAX + 2])
{
    size_t begin = strspn(walk->rest, "/");
    size_t length = strcspn(walk->rest + begin, "/");
    struct sb_text text;

    sb_text_init(&text, name, NAME_MAX + 2);
    sb_text_add(&text, "%.*s", (int)length, walk->rest + begin);
    memmove(walk->rest, walk->rest + begin + length, strlen(walk->rest + begin + length) + 1);
}

static void go_up(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        *slash = '\0';
}

static int go_down(char path[PATH_MAX], const char *name)
{
    size_t length = strlen(path);
    struct sb_text text;

    sb_text_init(&text, path + length, PATH_MAX - length);
    sb_text_add(&text, "/%s", name);
    return text.cut ? ENAMETOOLONG : 0;
}

/* The folder that the last name of the path is in. */
static int stat_folder(const char *path, struct stat *ret_status)
{
    char folder[PATH_MAX];

    sb_text_copy(folder, sizeof folder, path);
    go_up(folder);
    return stat(folder[0] != '\0' ? folder : "/", ret_status) == 0 ? 0 : errno;
}

/* Puts what the link says in the place of its name. */
static int follow(struct walk *walk, const struct stat *entry)
{
    char target[PATH_MAX];
    char rest[PATH_MAX];
    struct stat folder;
    struct sb_text text;
    ssize_t length;
    int code = stat_folder(walk->way->path, &folder);

    if (code == 0 && !is_placed_by_us(&folder, entry)) {
        sb_text_copy(walk->way->refused, sizeof walk->way->refused, walk->way->path);
        return EPERM;
    }
    if (code != 0 || ++walk->links > LINKS_MAX)
        return code != 0 ? code : ELOOP;
    length = readlink(walk->way->path, target, sizeof target - 1);
    if (length < 0)
        return errno;
    target[length] = '\0';
    sb_text_init(&text, rest, sizeof rest);
    sb_text_add(&text, "%s%s", target, walk->rest);
    sb_text_copy(walk->rest, sizeof walk->rest, rest);
    if (target[0] == '/')
        walk->way->path[0] = '\0';
    else
        go_up(walk->way->path);
    return text.cut ? ENAMETOOLONG : 0;
}

static int step(struct walk *walk, const char *name)
{
    char *path = walk->way->path;
    struct stat entry;
    int code;

    if (strcmp(name, "..") == 0)
        go_up(path);
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    code = strlen(name) <= NAME_MAX ? go_down(path, name) : ENAMETOOLONG;
    if (code != 0)
        return code;
    if (lstat(path, &entry) != 0) {
        walk->way->missing = errno == ENOENT && strspn(walk->rest, "/") == strlen(walk->rest);
        return errno;
    }
    return S_ISLNK(entry.st_mode) ? follow(walk, &entry) : 0;
}

int sb_sqlite_resolve(const char *path, struct sb_sqlite_way *way)
{
    struct walk walk = {.way = way};
    int code = 0;

    *way = (struct sb_sqlite_way){.missing = false};
    if (!sb_text_copy(walk.rest, sizeof walk.rest, path))
        return ENAMETOOLONG;
    if (path[0] != '/' && getcwd(way->path, sizeof way->path) == NULL)
        return errno;
    if (strcmp(way->path, "/") == 0)
        way->path[0] = '\0';
    while (walk.rest[0] != '\0' && code == 0) {
        char name[NAME_MAX + 2];

        take_name(&walk, name);
        code = step(&walk, name);
    }
    return code;
}

/* ---- The folder and what is in it ------------------------------------------------------------ */

/* Many systems give each user a group of the same number and name, and with it the right to write new folders. */
static bool is_group_of_one(gid_t group)
{
    char user_text[NAMES_MAX];
    char group_text[NAMES_MAX];
    struct passwd user;
    struct group members;
    struct passwd *found_user = NULL;
    struct group *found_group = NULL;

    return getpwuid_r(group, &user, user_text, sizeof user_text, &found_user) == 0 &&
           getgrgid_r(group, &members, group_text, sizeof group_text, &found_group) == 0 &&
           found_user != NULL && found_group != NULL && user.pw_gid == group &&
           strcmp(user.pw_name, members.gr_name) == 0 && members.gr_mem[0] == NULL;
}

/* Whether all members of the folder's group may write the database anyway. */
static bool is_group_trusted(const struct stat *folder, const struct stat *database)
{
    if ((database->st_mode & S_IWGRP) != 0 && database->st_gid == folder->st_gid)
        return true;
    return (is_trusted(folder->st_gid) || folder->st_gid == database->st_uid) &&
           is_group_of_one(folder->st_gid);
}

/* Tells of a user who may create files in the folder and may not write the database; NULL: there is none. */
static const char *find_stranger(const struct stat *folder, const struct stat *database)
{
    if (!is_trusted(folder->st_uid) && folder->st_uid != database->st_uid)
        return "belongs to another user";
    if ((folder->st_mode & S_IWOTH) != 0)
        return "can be written by everybody";
    if ((folder->st_mode & S_IWGRP) != 0 && !is_group_trusted(folder, database))
        return "can be written by a group that may not write the database";
    return NULL;
}

static int fail_folder(const char *folder_path, const char *why, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "the folder %s %s: put the database in a folder of its own (mkdir -m 700 "
                        "FOLDER)",
                        folder_path, why);
}

static int fail_names(const char *path, const char *why, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "the file %s %s, and others may write in its folder: they may have placed "
                        "it there",
                        path, why);
}

/* Who may write the database may not write all that a link can name. */
static int check_names(const struct sb_sqlite_settings *settings, struct sb_sql_failure *failure)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[PATH_MAX];
        struct sb_text text;
        struct stat file;

        sb_text_init(&text, path, sizeof path);
        sb_text_add(&text, "%s%s", settings->path, suffixes[i]);
        if (lstat(path, &file) == 0 && (!S_ISREG(file.st_mode) || file.st_nlink > 1))
            return fail_names(path, "is no plain file with one name", failure);
    }
    return SIMBA_OK;
}

/* Looks at both from one descriptor of the folder. Returns 0 or an errno. */
static int look(const struct sb_sqlite_settings *settings, struct stat *ret_folder,
                struct stat *ret_database)
{
    int fd = open(settings->folder_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int code = fd >= 0 && fstat(fd, ret_folder) == 0 ? 0 : errno;

    if (code == 0 &&
        fstatat(fd, strrchr(settings->path, '/') + 1, ret_database, AT_SYMLINK_NOFOLLOW) != 0)
        code = errno;
    if (fd >= 0)
        close(fd);
    if (code != ENOENT || fd < 0)
        return code;
    *ret_database = (struct stat){.st_uid = geteuid(), .st_mode = S_IFREG | SB_SQLITE_FILE_MODE};
    return 0;
}

int sb_sqlite_check_folder(const struct sb_sqlite_settings *settings,
                           struct sb_sql_failure *failure)
{
    struct stat database;
    struct stat folder;
    const char *why;

    if (look(settings, &folder, &database) != 0)
        return SIMBA_OK; /* what cannot be looked at cannot be opened either, and that says why */
    why = find_stranger(&folder, &database);
    if (why != NULL)
        return fail_folder(settings->folder_path, why, failure);
    return is_private(&folder) ? SIMBA_OK : check_names(settings, failure);
}
