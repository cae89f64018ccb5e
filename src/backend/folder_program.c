/*
 * folder_program.c - the modules of the program, which has the library in itself and shows its names: they lie beside
 * the program, where it was built; or beside the library that is installed with it, wherever the tree was put; or where
 * the library was to be installed.
 *
 * A program may be copied to a place where others can write, such as /tmp. So what is near it counts only where nobody but
 * its owner or root can have put it: those can change the program itself.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

static bool name_below(const char *parent, const char *name, char ret_path[PATH_MAX])
{
    struct sb_text text;

    sb_text_init(&text, ret_path, PATH_MAX);
    sb_text_add(&text, "%s/%s", parent, name);
    return !text.cut;
}

/* Without /proc there is the name by which it was started. */
static bool find_program(char ret_folder[PATH_MAX], uid_t *ret_owner)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    struct stat program;

    if (realpath("/proc/self/exe", ret_folder) == NULL &&
        (name == NULL || realpath(name, ret_folder) == NULL))
        return false;
    if (stat(ret_folder, &program) != 0)
        return false;
    *strrchr(ret_folder, '/') = '\0';
    *ret_owner = program.st_uid;
    return true;
}

/* A group may write: with many systems each user is one. */
static bool is_safe(const char *folder, uid_t owner)
{
    struct stat found;

    return stat(folder, &found) == 0 && S_ISDIR(found.st_mode) &&
           (found.st_uid == 0 || found.st_uid == owner) && (found.st_mode & S_IWOTH) == 0;
}

static bool find_below(const char *parent, uid_t owner, char ret_folder[PATH_MAX])
{
    return is_safe(parent, owner) && name_below(parent, "simba-" SIMBA_VERSION, ret_folder) &&
           is_safe(ret_folder, owner);
}

static bool find_near_program(char ret_folder[PATH_MAX])
{
    char program[PATH_MAX];
    char path[PATH_MAX];
    char library[PATH_MAX];
    uid_t owner;

    if (!find_program(program, &owner))
        return false;
    if (find_below(program, owner, ret_folder))
        return true;
    return name_below(program, SIMBA_WAY_TO_LIBRARY, path) && realpath(path, library) != NULL &&
           find_below(library, owner, ret_folder);
}

bool sb_folder_find(char ret_folder[PATH_MAX])
{
    return find_near_program(ret_folder) ||
           name_below(SIMBA_LIBRARY_FOLDER, "simba-" SIMBA_VERSION, ret_folder);
}
