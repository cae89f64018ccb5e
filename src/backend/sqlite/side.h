/*
 * side.h - the files that stand beside the database: how they are opened, and where they lie.
 *
 * A user who may write in the folder could have put a link there, to have a file of ours overwritten. So
 * nothing is taken but a plain file with this one name. All who open return a descriptor or -1 with errno.
 */
#ifndef SB_BACKEND_SQLITE_SIDE_H
#define SB_BACKEND_SQLITE_SIDE_H

#include <stdbool.h>

/* Opens the file, and creates it with the permissions of the database `path` where it is missing. */
int sb_side_open(const char *side_path, const char *path);

/* The same for who only reads it; it may be one that only others may write. */
int sb_side_open_to_read(const char *side_path, const char *path);

/* Opens it to read where it is there; creates nothing. */
int sb_side_find(const char *side_path);

/* Whether the file system of what was opened is known to be kept by this kernel alone: locks are in its memory, and no
 * name changes without it. Of others nothing is believed. */
bool sb_side_is_local(int fd);

#endif
