/*
 * inspect.c - what the place of the file means to its leases: file system, rights, space.
 */
#include "backend/sqlite/connection.h"

#include "base/error.h"
#include "base/findings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SPACE_LEAST ((uint64_t)1 << 20)   /* bytes: the log of a busy file needs about as many */
#define SPACE_ENOUGH ((uint64_t)64 << 20) /* bytes */

#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42UL
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xFE534D42UL
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00C36400UL
#endif

static const struct {
    unsigned long type;
    const char *name;
} networks[] = {
    {NFS_SUPER_MAGIC, "NFS"},   {CIFS_SUPER_MAGIC, "SMB"}, {SMB2_SUPER_MAGIC, "SMB"},
    {SMB_SUPER_MAGIC, "SMB"},   {AFS_SUPER_MAGIC, "AFS"},  {CODA_SUPER_MAGIC, "Coda"},
    {CEPH_SUPER_MAGIC, "Ceph"}, {V9FS_MAGIC, "9P"},
};

static const char *network_of(const struct statfs *status)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        if ((unsigned long)status->f_type == networks[i].type)
            return networks[i].name;
    return NULL;
}

static void add_place(const struct statfs *status, struct sb_findings *findings)
{
    const char *network = network_of(status);

    if (network != NULL)
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "file system",
                        "move the file to a disk of this host, or use a store that is a server",
                        "%s: the file's locks and its index are for one host, so that two hosts "
                        "could own a mutex",
                        network);
    else if ((unsigned long)status->f_type == FUSE_SUPER_MAGIC)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "file system",
                        "make sure that no other host has it mounted, or use a disk",
                        "FUSE, which may be a network");
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "file system", NULL,
                        "of this host; no other host sees these mutexes");
}

static void add_space(const struct statfs *status, struct sb_findings *findings)
{
    uint64_t bytes = (uint64_t)status->f_bavail * (uint64_t)status->f_bsize;
    enum simba_severity severity = bytes < SPACE_LEAST    ? SIMBA_SEVERITY_PROBLEM
                                   : bytes < SPACE_ENOUGH ? SIMBA_SEVERITY_WARNING
                                                          : SIMBA_SEVERITY_OK;

    sb_findings_add(findings, severity, "free space",
                    severity != SIMBA_SEVERITY_OK
                        ? "make room: on a full disk no lease is granted or renewed"
                        : NULL,
                    "%llu MiB", (unsigned long long)(bytes >> 20));
}

/* SQLite makes files beside it, and every contender writes the file. */
static void add_rights(const struct sb_sqlite_connection *c, struct sb_findings *findings)
{
    const char *folder = c->settings->folder_path;

    if (sb_sqlite_is_read_only(c))
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "rights",
                        "let this user write the file, or run simba as its owner",
                        "this user may read the file and not write it");
    else if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "rights",
                        "let this user write the folder: SQLite makes files beside its own",
                        "the folder %.150s: %s", folder, strerror(errno));
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "rights", NULL,
                        "this user may write the file and its folder");
}

int sb_sqlite_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                      struct sb_findings *findings, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = (struct sb_sqlite_connection *)connection;
    struct statfs status;

    (void)lease_ms;
    if (statfs(c->settings->path, &status) != 0)
        return sb_sqlite_fail_system(c->settings->path, errno, failure);
    add_place(&status, findings);
    add_rights(c, findings);
    add_space(&status, findings);
    if (sb_sqlite_is_wal(c))
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "journal", NULL, "write-ahead log");
    else
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "journal",
                        "run a simba that may write the file: it switches to the write-ahead log",
                        "no write-ahead log: readers and writers wait for each other");
    return SIMBA_OK;
}
