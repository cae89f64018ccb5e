/*
 * settings.c - what the URL of an SQLite store says.
 */
#include "backend/sqlite/settings.h"

#include "backend/sqlite/connection.h"
#include "backend/sqlite/trusted_folder.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES_MAX 504 /* SQLite takes 512, and wants room for "-journal" behind it */

#define AT(member) offsetof(struct sb_sqlite_settings, member)

/* Member, otherwise, least, most, when. */
const struct sb_url_option sb_sqlite_options[] = {
    SB_URL_OPTION(DURATION, "busy-timeout", NULL, AT(busy_timeout_ms), 5000, 1, 0, 0),
    SB_URL_OPTION(CHOICE, "synchronous", "normal full", AT(full_sync), 0, 0, 0, 0),
    SB_URL_OPTION(SWITCH, "create", "yes no", AT(may_create), true, 0, 0, 0),
    SB_URL_OPTIONS_END,
};

static int fail_long(const char *path, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EINVAL,
                        "the path is too long for SQLite, which takes %d bytes from the root: %s",
                        PATH_BYTES_MAX, path);
}

static int fail_no_file(const char *path, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EINVAL, "the path %s names a folder, not a file", path);
}

/* Where a folder is missing, nobody knows how long the path will be from the root. */
static int fail_folder(const char *path, int system_code, struct simba_error *error)
{
    if (system_code == ENAMETOOLONG)
        return fail_long(path, error);
    if (system_code == ENOENT)
        return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, system_code,
                                    "the folder of the database %s does not exist", path);
    return sb_error_set_backend(error, sb_sqlite_code_of(system_code), system_code,
                                "the folder of the database %s cannot be entered: %s", path,
                                strerror(system_code));
}

/* SQLite would create what the link names, and others would open it by another name. */
static bool leads_nowhere(const char *path, int system_code)
{
    struct stat status;

    return (system_code == ENOENT || system_code == ELOOP) && lstat(path, &status) == 0 &&
           S_ISLNK(status.st_mode);
}

static int fail_link(const char *path, int system_code, struct simba_error *error)
{
    return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, system_code,
                                "the database %s is a link that leads nowhere: %s", path,
                                strerror(system_code));
}

static int fail_planted(const char *path, const char *link, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EDENIED,
                        "the path of the database %s leads through the link %s, which another user "
                        "may have placed: others may write in its folder, or it is in /proc",
                        path, link);
}

/* What is wrong with a path that leads to no file. A new file may be created in a folder that is
 * there. */
static int judge_resolved(const char *path, const struct sb_sqlite_resolved *way, int system_code,
                          bool must_exist, struct simba_error *error)
{
    if (way->refused[0] != '\0')
        return fail_planted(path, way->refused, error);
    if (must_exist && (system_code == ENOENT || system_code == ENOTDIR))
        return sb_error_set(error, SIMBA_ENOTFOUND, "there is no database %s", path);
    if (leads_nowhere(path, system_code))
        return fail_link(path, system_code, error);
    return way->missing ? SIMBA_OK : fail_folder(path, system_code, error);
}

/* One absolute name for all who mean the same file, by whatever links. */
static int resolve_path(const char *path, bool must_exist, char **ret_path,
                        struct simba_error *error)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    struct sb_sqlite_resolved way;
    int system_code;
    int code = SIMBA_OK;

    if (name[0] == '\0')
        return fail_no_file(path, error);
    system_code = sb_sqlite_resolve(path, &way);
    if (system_code != 0)
        code = judge_resolved(path, &way, system_code, must_exist, error);
    if (code != SIMBA_OK)
        return code;
    if (way.path[0] == '\0') /* "/.." */
        return fail_no_file(path, error);
    if (strlen(way.path) > PATH_BYTES_MAX)
        return fail_long(way.path, error);
    *ret_path = sb_strdup(way.path);
    return *ret_path != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

/* The name of a file that lies beside the database. */
static int name_beside(const struct sb_sqlite_settings *s, const char *suffix, char **ret_path,
                       struct simba_error *error)
{
    size_t size = strlen(s->path) + strlen(suffix) + 1;
    struct sb_text text;

    *ret_path = sb_alloc(size);
    if (*ret_path == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&text, *ret_path, size);
    sb_text_add(&text, "%s%s", s->path, suffix);
    return SIMBA_OK;
}

/* Who writes sqlite://jobs.db means a file, who writes sqlite:~/jobs.db a shell. */
static int check_path(const simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);

    if (simba_url_host_count(url) > 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL names a host, but SQLite has none; write sqlite:%s%s, or "
                            "sqlite:/%s%s for a path from the root",
                            simba_url_host(url, 0), path, simba_url_host(url, 0), path);
    if (path[0] == '\0')
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL sqlite: names no file; write sqlite:PATH");
    if (strcmp(path, ":memory:") == 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "sqlite::memory: is a database that no other process would see; write "
                            "memory: for mutexes of one process");
    if (strncmp(path, "~/", 2) == 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the path %s begins with '~', which only a shell expands: write the "
                            "full path",
                            path);
    return SIMBA_OK;
}

static int name_folder(const struct sb_sqlite_settings *s, char **ret_path,
                       struct simba_error *error)
{
    char *slash;

    *ret_path = sb_strdup(s->path);
    if (*ret_path == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    slash = strrchr(*ret_path, '/');
    slash[slash == *ret_path ? 1 : 0] = '\0';
    return SIMBA_OK;
}

static int read_paths(struct sb_sqlite_settings *s, simba_url *url, struct simba_error *error)
{
    int code = check_path(url, error);

    if (code == SIMBA_OK)
        code = resolve_path(simba_url_path(url), !s->may_create, &s->path, error);
    if (code == SIMBA_OK)
        code = name_folder(s, &s->folder_path, error);
    if (code == SIMBA_OK)
        code = name_beside(s, "-wal", &s->log_path, error);
    if (code == SIMBA_OK)
        code = name_beside(s, "-shm", &s->index_path, error);
    if (code == SIMBA_OK)
        code = name_beside(s, "-wake", &s->wake_path, error);
    if (code == SIMBA_OK)
        code = name_beside(s, "-life", &s->life_path, error);
    return code;
}

static int read_boot(struct sb_sqlite_settings *s, struct simba_error *error)
{
    int code = sb_sqlite_read_boot_id(s->boot_id);

    if (code == 0)
        return SIMBA_OK;
    return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, code,
                                "the host's boot id cannot be read, and without it leases of an "
                                "earlier boot cannot be told: %s",
                                strerror(code));
}

int sb_sqlite_settings_read(struct sb_sqlite_settings *s, simba_url *url, struct simba_error *error)
{
    int code = sb_url_options_fill(sb_sqlite_options, 0, url, s, error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error); /* before anything is created */
    if (code == SIMBA_OK)
        code = read_paths(s, url, error);
    if (code == SIMBA_OK)
        code = read_boot(s, error);
    if (code != SIMBA_OK)
        sb_sqlite_settings_clear(s);
    return code;
}

void sb_sqlite_settings_clear(struct sb_sqlite_settings *s)
{
    sb_free(s->life_path);
    sb_free(s->wake_path);
    sb_free(s->index_path);
    sb_free(s->log_path);
    sb_free(s->folder_path);
    sb_free(s->path);
    s->life_path = NULL;
    s->wake_path = NULL;
    s->index_path = NULL;
    s->log_path = NULL;
    s->folder_path = NULL;
    s->path = NULL;
}

struct sb_sqlite_liveness_file sb_sqlite_settings_liveness(const struct sb_sqlite_settings *s)
{
    return (struct sb_sqlite_liveness_file){s->life_path, s->path, s->boot_id};
}
