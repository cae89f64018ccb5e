/*
 * folder.h - where the modules lie.
 */
#ifndef SB_BACKEND_FOLDER_H
#define SB_BACKEND_FOLDER_H

#include <limits.h>
#include <stdbool.h>

/* False: it is not known. */
bool sb_folder_find(char ret_folder[PATH_MAX]);

#endif
