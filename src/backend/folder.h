/*
 * folder.h - where the modules lie, and how they come by the names of the library.
 *
 * Modules are not linked to the library: the program has it in itself, and would have it twice. They find its names in
 * whatever loads them.
 */
#ifndef SB_BACKEND_FOLDER_H
#define SB_BACKEND_FOLDER_H

#include <limits.h>
#include <stdbool.h>

/* Tells the folder of the modules, and makes ready for their loading. False: it is not known. */
bool sb_folder_find(char ret_folder[PATH_MAX]);

#endif
