/*
 * folder_library.c - the modules of the shared library: they lie beside it.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char library[PATH_MAX]; /* empty: not known */

/* Now, because what the loader knows may be relative to where the process was started. */
__attribute__((constructor)) static void remember_library(void)
{
    Dl_info found;
    char path[PATH_MAX];

    if (dladdr(&library, &found) != 0 && realpath(found.dli_fname, path) != NULL)
        sb_text_copy(library, sizeof library, path);
}

bool sb_folder_find_program(char ret_path[PATH_MAX])
{
    sb_text_copy(ret_path, PATH_MAX, library);
    return library[0] != '\0';
}

bool sb_folder_find(size_t index, const char *program, char ret_folder[PATH_MAX])
{
    struct sb_text text;

    if (index > 0 || program == NULL)
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    sb_text_add(&text, "%.*s/simba-" SIMBA_VERSION, (int)(strrchr(program, '/') - program),
                program);
    return !text.cut;
}
