/*
 * folder.h - where the modules may lie.
 */
#ifndef SB_BACKEND_FOLDER_H
#define SB_BACKEND_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The real path of the program or the shared library that this code is in. False: it is not
 * known. */
bool sb_folder_find_program(char ret_path[PATH_MAX]);

/* The folders to look in, one after the other; `program` is the path above, NULL where it is not
 * known. False: there are no more. They need not exist, and nobody has checked them. */
bool sb_folder_find(size_t index, const char *program, char ret_folder[PATH_MAX]);

#endif
