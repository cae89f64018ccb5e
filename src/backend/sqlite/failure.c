/*
 * failure.c - what SQLite's codes mean to the library. Owns the sentences; changes nothing.
 */
#include "backend/sqlite/connection.h"

#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* What can be said in one sentence that names the file and SQLite's own message. */
struct meaning {
    int primary; /* SQLite's code without its extension */
    int code;
    enum sb_sql_remedy remedy;
    const char *text;
};

static const struct meaning meanings[] = {
    {SQLITE_BUSY, SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "is locked by another process"},
    {SQLITE_LOCKED, SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "is locked by another process"},
    {SQLITE_PROTOCOL, SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "is locked by another process"},
    {SQLITE_FULL, SIMBA_ESTORE, SB_SQL_GIVE_UP, "has no room left"},
    {SQLITE_READONLY, SIMBA_EDENIED, SB_SQL_RECONNECT, "cannot be written"},
    {SQLITE_PERM, SIMBA_EDENIED, SB_SQL_RECONNECT,
     "had a -journal that names another file to delete, which is left alone: try again"},
    {SQLITE_AUTH, SIMBA_EDENIED, SB_SQL_RECONNECT, "has a view in the place of a table"},
    {SQLITE_INTERRUPT, SIMBA_EUNAVAILABLE, SB_SQL_GIVE_UP,
     "did not end a statement in time, perhaps because of a trigger"},
    {SQLITE_TOOBIG, SIMBA_ESTORE, SB_SQL_GIVE_UP, "has a value that is too long"},
    {SQLITE_CORRUPT, SIMBA_ESTORE, SB_SQL_RECONNECT, "is damaged"},
    {SQLITE_NOTADB, SIMBA_ESTORE, SB_SQL_RECONNECT, "is not an SQLite database"},
    {SQLITE_CONSTRAINT, SIMBA_EEXISTS, SB_SQL_GIVE_UP, "has this mutex already"},
    {SQLITE_NOMEM, SIMBA_ENOMEM, SB_SQL_GIVE_UP, "needs more memory"},
};

static const struct meaning *find_meaning(int number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].primary == (number & 0xff))
            return &meanings[i];
    return NULL;
}

static bool is_denial(int system_code)
{
    return system_code == EACCES || system_code == EPERM || system_code == EROFS;
}

/* Where descriptors or memory are short, waiting for the store would not help. */
int sb_sqlite_code_of(int system_code)
{
    if (is_denial(system_code))
        return SIMBA_EDENIED;
    return system_code == EMFILE || system_code == ENFILE || system_code == ENOMEM
               ? SIMBA_ENOMEM
               : SIMBA_EUNAVAILABLE;
}

/* Why a file cannot be written, where SQLite does not tell: a mode, or the mount of its file
 * system. */
static int refusal_of(const char *path)
{
    return access(path, W_OK) == 0 ? EACCES : errno;
}

/* The path is absolute. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash > path ? (int)(slash - path) : 1;
}

/* A file can be missing in a folder that is there, where the file system creates none. */
static bool lacks_folder(const char *path, int system_code)
{
    char folder[PATH_MAX];
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%.*s", folder_length(path), path);
    return system_code == ENOENT && !text.cut && access(folder, F_OK) != 0;
}

int sb_sqlite_fail_system(const char *path, int system_code, struct sb_sql_failure *failure)
{
    struct simba_error *error = &failure->error;

    failure->remedy = SB_SQL_RECONNECT;
    if (is_denial(system_code))
        return sb_error_set_backend(
            error, SIMBA_EDENIED, system_code, "the database %s cannot be %s: %s", path,
            access(path, R_OK) == 0 ? "written" : "read", strerror(system_code));
    if (lacks_folder(path, system_code))
        return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, system_code,
                                    "the folder of the database %s does not exist", path);
    return sb_error_set_backend(error, sb_sqlite_code_of(system_code), system_code,
                                "the database %s cannot be opened: %s", path,
                                strerror(system_code));
}

int sb_sqlite_fail_read_only(const char *path, struct sb_sql_failure *failure)
{
    return sb_sqlite_fail_system(path, refusal_of(path), failure);
}

int sb_sqlite_fail_create(const char *path, int system_code, struct sb_sql_failure *failure)
{
    if (lacks_folder(path, system_code))
        return sb_sqlite_fail_system(path, system_code, failure);
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set_backend(&failure->error, sb_sqlite_code_of(system_code), system_code,
                                "the database %s cannot be created in %.*s: %s",
                                strrchr(path, '/') + 1, folder_length(path), path,
                                strerror(system_code));
}

/* SQLITE_ERROR stands for all that is wrong with a statement. What can be healed: the tables are
 * gone, or an older copy of the file was put in its place. */
static int fail_statement(const char *path, const char *message, struct sb_sql_failure *failure)
{
    bool healable =
        strncmp(message, "no such table", 13) == 0 || strncmp(message, "no such column", 14) == 0;

    failure->remedy = healable ? SB_SQL_SCHEMA : SB_SQL_GIVE_UP;
    return sb_error_set_backend(&failure->error, SIMBA_ESTORE, SQLITE_ERROR,
                                "the schema of the database %s does not fit: %s", path, message);
}

/* While a store is being opened, a disk that fails or is full is the same as a server that is down:
 * to try again later may help. The log is what is looked at last. */
static int disk_code(const struct sb_sqlite_connection *c)
{
    return c->log.inode != 0 ? SIMBA_ESTORE : SIMBA_EUNAVAILABLE;
}

/* An I/O error or a lack of memory can strike when the commit is already in the log, where the next
 * reader finds it; so might what we have no word for. It is `code` where nothing can have been
 * applied. */
static int fail_halfway(const struct sb_sqlite_connection *c, const char *what, bool applied,
                        int code, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set_backend(&failure->error, applied ? SIMBA_EUNKNOWN : code,
                                sqlite3_extended_errcode(c->db), "the database %s %s: %s",
                                c->settings->path, what, sqlite3_errmsg(c->db));
}

/* What SQLite opens behind the database are its log and the index of that. */
static int fail_log(const char *path, int system_code, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set_backend(&failure->error, SIMBA_EDENIED, system_code,
                                "the database %s needs write access to its folder and to its "
                                "files -wal and -shm there, because SQLite keeps a log: %s",
                                path, strerror(system_code));
}

/* SQLite also refuses by itself, without a system call that failed. */
static int fail_open(const struct sb_sqlite_connection *c, const char *message, int number,
                     struct sb_sql_failure *failure)
{
    int system_code = sqlite3_system_errno(c->db);

    if (number == SQLITE_CANTOPEN_SYMLINK)
        message = "a link has taken its place";
    else if (is_denial(system_code) && c->file.inode != 0)
        return fail_log(c->settings->path, system_code, failure);
    else if (system_code != 0)
        return sb_sqlite_fail_system(c->settings->path, system_code, failure);
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set_backend(&failure->error, SIMBA_EUNAVAILABLE, number,
                                "the database %s cannot be opened: %s", c->settings->path, message);
}

int sb_sqlite_fail(const struct sb_sqlite_connection *connection, bool applied,
                   struct sb_sql_failure *failure)
{
    const char *path = connection->settings->path;
    const char *message = sqlite3_errmsg(connection->db);
    int number = sqlite3_extended_errcode(connection->db);
    const struct meaning *meaning = find_meaning(number);

    if (number == SQLITE_ERROR)
        return fail_statement(path, message, failure);
    if (number == SQLITE_READONLY_DIRECTORY)
        return fail_log(path, refusal_of(path), failure);
    if ((number & 0xff) == SQLITE_CANTOPEN)
        return fail_open(connection, message, number, failure);
    if ((number & 0xff) == SQLITE_IOERR)
        return fail_halfway(connection, "had an I/O error", applied, disk_code(connection),
                            failure);
    if (meaning == NULL)
        return fail_halfway(connection, "cannot be used", applied, SIMBA_ESTORE, failure);
    if (meaning->primary == SQLITE_NOMEM && applied)
        return fail_halfway(connection, meaning->text, applied, meaning->code, failure);
    failure->remedy = meaning->remedy;
    if (meaning->code == SIMBA_EEXISTS) /* SQLite's message names but the column */
        return sb_error_set_backend(&failure->error, meaning->code, number, "the database %s %s",
                                    path, meaning->text);
    return sb_error_set_backend(
        &failure->error, meaning->primary == SQLITE_FULL ? disk_code(connection) : meaning->code,
        number, "the database %s %s: %s", path, meaning->text, message);
}
