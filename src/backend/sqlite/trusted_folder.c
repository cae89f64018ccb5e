/*
 * trusted_folder.c - tells what others may have placed beside the database. Must not know SQLite.
 */
#include "backend/sqlite/trusted_folder.h"

#include "base/error.h"
#include "base/trusted_file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define USERS_FILE "/etc/passwd"
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

/* ---- Links ----------------------------------------------------------------------------------- */

/* Goes to the last entry. */
static int walk_to(struct sb_path_walk *walk, const char *path, struct sb_sqlite_resolved *way)
{
    int code = sb_path_walk_begin(walk, path);

    while (code == 0) {
        code = sb_path_walk_look(walk);
        way->missing = code == ENOENT && walk->rest[0] == '\0';
        if (code != 0)
            return code;
        if (!sb_path_walk_is_link(walk) && walk->rest[0] == '\0')
            return 0;
        if (!sb_path_walk_is_link(walk)) {
            code = sb_path_walk_enter(walk);
        } else if (is_placed_by_us(&walk->folder_status, &walk->entry_status) &&
                   !sb_path_walk_is_magic(walk)) {
            code = sb_path_walk_follow(walk);
        } else {
            sb_text_copy(way->refused, sizeof way->refused, walk->path);
            code = EPERM;
        }
    }
    return code;
}

int sb_sqlite_resolve(const char *path, struct sb_sqlite_resolved *way)
{
    struct sb_path_walk walk;
    int code;

    *way = (struct sb_sqlite_resolved){.missing = false};
    code = walk_to(&walk, path, way);
    sb_path_walk_end(&walk);
    sb_text_copy(way->path, sizeof way->path, walk.path);
    return code;
}

/* ---- The folder and what is in it ------------------------------------------------------------ */

struct place {
    const char *path; /* of the folder */
    struct stat folder;
    struct stat database; /* as it would be created where it is missing */
};

/* Whether the list of users has no other user with that group. It says nothing of users whom only a
 * server knows. */
static bool is_nobody_elses(gid_t group, uid_t user)
{
    FILE *users = fopen(USERS_FILE, "re");
    char text[NAMES_MAX];
    struct passwd entry;
    struct passwd *found = NULL;
    bool others = false;
    int code = ENOENT;

    if (users == NULL)
        return false;
    while (!others && (code = fgetpwent_r(users, &entry, text, sizeof text, &found)) == 0)
        others = entry.pw_gid == group && entry.pw_uid != user;
    fclose(users);
    return !others && code == ENOENT; /* the end of the list */
}

/* Many systems give each user a group of the same number and name, and with it the right to write
 * new folders. */
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
           strcmp(user.pw_name, members.gr_name) == 0 && members.gr_mem[0] == NULL &&
           is_nobody_elses(group, user.pw_uid);
}

/* Whether what shows as the right of the folder's group is one user's alone. An access control list
 * shows so, too, where it lets others write. */
static bool is_right_of_one(const struct place *place)
{
    return getxattr(place->path, "system.posix_acl_access", NULL, 0) < 0 &&
           is_group_of_one(place->folder.st_gid);
}

/* Whether all members of the folder's group may write the database anyway. */
static bool is_group_trusted(const struct place *place)
{
    gid_t group = place->folder.st_gid;

    if ((place->database.st_mode & S_IWGRP) != 0 && place->database.st_gid == group)
        return true;
    return (is_trusted(group) || group == place->database.st_uid) && is_right_of_one(place);
}

/* Tells of a user who may create files in the folder and may not write the database; NULL: there is
 * none. */
static const char *find_stranger(const struct place *place)
{
    const struct stat *folder = &place->folder;

    if (!is_trusted(folder->st_uid) && folder->st_uid != place->database.st_uid)
        return "belongs to another user";
    if ((folder->st_mode & S_IWOTH) != 0)
        return "can be written by everybody";
    if ((folder->st_mode & S_IWGRP) != 0 && !is_group_trusted(place))
        return "can be written by a group whose users may not all write the database (chmod g-w)";
    return NULL;
}

/* Whether root alone can create and rename files in it. */
static bool is_roots_alone(const struct place *place)
{
    const struct stat *folder = &place->folder;

    if (folder->st_uid != 0 || (folder->st_mode & S_IWOTH) != 0)
        return false;
    return (folder->st_mode & S_IWGRP) == 0 || (folder->st_gid == 0 && is_right_of_one(place));
}

/* As root SQLite gives the log and its index to the owner of the database, whatever they were
 * before. */
static int fail_root(const char *folder_path, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "root uses no database in a folder that others may write, as they may "
                        "write %s, because SQLite could give them files of root's: run this as the "
                        "user of the database (sudo -u USER), or put the database in a folder of "
                        "root's own (mkdir -m 700 FOLDER)",
                        folder_path);
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

/* A user of the database may not write all that a link can name. */
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
static int look(const struct sb_sqlite_settings *settings, struct place *ret_place)
{
    struct stat *database = &ret_place->database;
    int fd = open(settings->folder_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int code = fd >= 0 && fstat(fd, &ret_place->folder) == 0 ? 0 : errno;

    ret_place->path = settings->folder_path;
    if (code == 0 &&
        fstatat(fd, strrchr(settings->path, '/') + 1, database, AT_SYMLINK_NOFOLLOW) != 0)
        code = errno;
    if (fd >= 0)
        close(fd);
    if (code != ENOENT || fd < 0)
        return code;
    *database = (struct stat){.st_uid = geteuid(), .st_mode = S_IFREG | SB_SQLITE_FILE_MODE};
    return 0;
}

int sb_sqlite_check_folder(const struct sb_sqlite_settings *settings,
                           struct sb_sql_failure *failure)
{
    struct place place;
    const char *why;

    if (look(settings, &place) != 0)
        return SIMBA_OK; /* what cannot be looked at cannot be opened either, and that says why */
    if (geteuid() == 0 && !is_roots_alone(&place))
        return fail_root(settings->folder_path, failure);
    why = find_stranger(&place);
    if (why != NULL)
        return fail_folder(settings->folder_path, why, failure);
    return is_private(&place.folder) ? SIMBA_OK : check_names(settings, failure);
}
