/*
 * folder_program.c - the modules of the program, which has the library in itself and shows its
 * names: they lie beside the program, where it was built; or beside the library that is installed
 * with it, wherever the tree was put; or where the library was to be installed.
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

/* The path has no links, so a ".." is the folder above in its text, too. */
static void add_way(struct sb_text *text, const char *folder, const char *way)
{
    size_t length = strlen(folder);

    for (; strncmp(way, "../", 3) == 0; way += 3)
        while (length > 0 && folder[--length] != '/') {
        }
    sb_text_add(text, "%.*s/%s/", (int)length, folder, way);
}

bool sb_folder_find(size_t index, const char *program, char ret_folder[PATH_MAX])
{
    size_t place = program != NULL ? index : index + 2;
    char folder[PATH_MAX];
    struct sb_text text;

    if (place > 2)
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    if (place < 2) {
        sb_text_copy(folder, sizeof folder, program);
        *strrchr(folder, '/') = '\0';
    }
    if (place == 0)
        sb_text_add(&text, "%s/", folder);
    else if (place == 1)
        add_way(&text, folder, SIMBA_WAY_TO_LIBRARY);
    else
        sb_text_add(&text, "%s/", SIMBA_LIBRARY_FOLDER);
    sb_text_add(&text, "simba-" SIMBA_VERSION);
    return !text.cut;
}
