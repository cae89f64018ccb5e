/*
 * folder_program.c - the modules of the program, which has the library in itself and shows its names: they lie beside
 * the program, where it was built; or beside the library that is installed with it, wherever the tree was put; or where
 * the library was to be installed.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Without /proc there is the name by which it was started. */
bool sb_folder_find_program(char ret_path[PATH_MAX])
{
    const char *name = (const char *)getauxval(AT_EXECFN);

    return realpath("/proc/self/exe", ret_path) != NULL ||
           (name != NULL && realpath(name, ret_path) != NULL);
}

bool sb_folder_find(size_t index, const char *program, char ret_folder[PATH_MAX])
{
    size_t place = program != NULL ? index : index + 2;
    int length = program != NULL ? (int)(strrchr(program, '/') - program) : 0;
    char parent[PATH_MAX];
    char real[PATH_MAX];
    struct sb_text text;

    if (place > 2)
        return false;
    sb_text_init(&text, parent, sizeof parent);
    if (place < 2)
        sb_text_add(&text, "%.*s%s", length, program, place == 1 ? "/" SIMBA_WAY_TO_LIBRARY : "");
    else
        sb_text_add(&text, "%s", SIMBA_LIBRARY_FOLDER);
    if (text.cut)
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    sb_text_add(&text, "%s/simba-" SIMBA_VERSION,
                place == 1 && realpath(parent, real) != NULL ? real : parent);
    return !text.cut;
}
