/*
 * vfs.c - the files of the operating system as SQLite sees them, without those that a forged journal names.
 *
 * A rollback journal may name a super-journal, that of a transaction over several databases. After the rollback SQLite
 * deletes that file, whatever it is: a user who may create the journal could have a client delete any file of its own.
 * Simba has no such transactions, so no client opens, and thereby none deletes, a super-journal.
 */
#include "backend/sqlite/vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sqlite3_vfs vfs; /* a copy of SQLite's own but for xOpen */
static int (*open_file)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

static int open_own(sqlite3_vfs *own, const char *path, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    if ((flags & SQLITE_OPEN_SUPER_JOURNAL) == 0)
        return open_file(own, path, file, flags, ret_flags);
    file->pMethods = NULL;
    return SQLITE_PERM;
}

static void register_copy(void)
{
    const sqlite3_vfs *unix_files = sqlite3_vfs_find("unix");

    if (unix_files == NULL)
        return;
    open_file = unix_files->xOpen;
    vfs = *unix_files;
    vfs.pNext = NULL;
    vfs.zName = "simba";
    vfs.xOpen = open_own;
    if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
        vfs.zName = NULL;
}

const char *sb_sqlite_vfs(void)
{
    pthread_once(&once, register_copy);
    return vfs.zName;
}
