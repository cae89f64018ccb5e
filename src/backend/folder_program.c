/*
 * folder_program.c - the modules of the program, which has the library in itself and shows its names: they lie beside
 * the library that is installed with it, or, where it was built, beside the program.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static bool name_below(const char *parent, const char *name, char ret_path[PATH_MAX])
{
    struct sb_text text;

    sb_text_init(&text, ret_path, PATH_MAX);
    sb_text_add(&text, "%s/%s", parent, name);
    return !text.cut;
}

/* Without /proc there is the name by which it was started. */
static bool find_program_folder(char ret_folder[PATH_MAX])
{
    const char *name = (const char *)getauxval(AT_EXECFN);

    if (realpath("/proc/self/exe", ret_folder) == NULL &&
        (name == NULL || realpath(name, ret_folder) == NULL))
        return false;
    *strrchr(ret_folder, '/') = '\0';
    return true;
}

/* Where there are no modules at all it is the place at which they would be installed. */
bool sb_folder_find(char ret_folder[PATH_MAX])
{
    char program[PATH_MAX];
    char path[PATH_MAX];
    char library[PATH_MAX];

    if (!find_program_folder(program))
        return false;
    if (name_below(program, "simba-" SIMBA_VERSION, ret_folder) && access(ret_folder, F_OK) == 0)
        return true;
    return name_below(program, SIMBA_LIBRARY_FOLDER, path) && realpath(path, library) != NULL &&
           name_below(library, "simba-" SIMBA_VERSION, ret_folder);
}
