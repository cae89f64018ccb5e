/*
 * vfs.h - the files of the operating system as SQLite sees them, without those that a forged journal names.
 */
#ifndef SB_BACKEND_SQLITE_VFS_H
#define SB_BACKEND_SQLITE_VFS_H

/* The name to open databases with; NULL where SQLite has no files of Unix. May be called from any thread. */
const char *sb_sqlite_vfs(void);

#endif
