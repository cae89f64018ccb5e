/*
 * folder_library.c - the modules of the shared library: they lie beside it.
 */
#include "backend/folder.h"

#include "base/text.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char library_folder[PATH_MAX]; /* empty: not known */

/* Returns NULL where the loader does not know. */
static const char *find_library(void)
{
    Dl_info library;

    return dladdr(&library_folder, &library) != 0 ? library.dli_fname : NULL;
}

/* Now, because what the loader knows may be relative to where the process was started. */
__attribute__((constructor)) static void remember_folder(void)
{
    const char *library = find_library();
    char path[PATH_MAX];

    if (library == NULL || realpath(library, path) == NULL)
        return;
    *strrchr(path, '/') = '\0';
    sb_text_copy(library_folder, sizeof library_folder, path);
}

/* An application may have loaded the library for itself alone, as a plug-in does: then modules do not see its names
 * before they are made known to all. */
static bool show_names(void)
{
    const char *library = find_library();

    return library != NULL && dlopen(library, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != NULL;
}

bool sb_folder_find(char ret_folder[PATH_MAX])
{
    struct sb_text text;

    if (library_folder[0] == '\0' || !show_names())
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    sb_text_add(&text, "%s/simba-" SIMBA_VERSION, library_folder);
    return !text.cut;
}
