/*
 * side.h - the files that stand beside the database: how they are opened.
 *
 * Whoever may write in the folder could have put a link there, to have a file of ours overwritten. So
 * nothing is taken but a plain file with this one name. All return a descriptor or -1 with errno.
 */
#ifndef SB_BACKEND_SQLITE_SIDE_H
#define SB_BACKEND_SQLITE_SIDE_H

/* Opens the file, and creates it with the permissions of the database `path` where it is missing. */
int sb_side_open(const char *side_path, const char *path);

/* The same for who only reads it; it may be one that only others may write. */
int sb_side_open_to_read(const char *side_path, const char *path);

/* Opens it to read where it is there; creates nothing. */
int sb_side_find(const char *side_path);

#endif
