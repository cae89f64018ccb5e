/*
 * folder_library.c - the modules of the shared library: they lie beside it.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char library_folder[PATH_MAX]; /* empty: not known */

/* Now, because what the loader knows may be relative to where the process was started. */
__attribute__((constructor)) static void remember_folder(void)
{
    Dl_info library;
    char path[PATH_MAX];

    if (dladdr(&library_folder, &library) == 0 || realpath(library.dli_fname, path) == NULL)
        return;
    *strrchr(path, '/') = '\0';
    sb_text_copy(library_folder, sizeof library_folder, path);
}

bool sb_folder_find(char ret_folder[PATH_MAX])
{
    struct sb_text text;

    if (library_folder[0] == '\0')
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    sb_text_add(&text, "%s/simba-" SIMBA_VERSION, library_folder);
    return !text.cut;
}
