/*
 * store.c - opens the store that the user named, or the default one.
 *
 * A configuration becomes a URL here. The default store needs no set-up, so `simba lock NAME --
 * COMMAND` works on a new machine.
 */
#include "cli/store.h"

#include "base/error.h"
#include "base/trusted_file.h"
#include "base/url.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOME_STATE "/.local/state"
#define DEFAULT_FILE "/simba/simba.db"
#define HOME_CONFIG "/.config"
#define CONFIG_FILE "/simba.yaml"
#define SYSTEM_CONFIG "/etc/simba.yaml"

/* ---- Folders of the default store ------------------------------------------------------------ */

#define FOLDER_MODE 0700
#define ANOTHERS (-1) /* no errno: a folder or a link of another user */

static bool is_ours(const struct stat *status)
{
    return status->st_uid == 0 || status->st_uid == geteuid();
}

static bool is_our_folder(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && is_ours(&status);
}

/* The umask may have taken rights even from the owner. By the descriptor: another folder may have
 * come in its place. Without /proc it stays as it is. */
static void set_mode(int folder)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    if (is_our_folder(folder))
        (void)chmod(path, FOLDER_MODE);
}

/* Opens the folder, and creates it where it is missing. Returns 0, an errno or ANOTHERS. */
static int enter(int parent, const char *name, int *ret_fd)
{
    int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    bool created = false;
    struct stat entry;

    if (fstatat(parent, name, &entry, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return errno;
        if (!is_our_folder(parent))
            return ANOTHERS;
        created = mkdirat(parent, name, FOLDER_MODE) == 0;
        if (!created && errno != EEXIST)
            return errno;
    } else if (S_ISLNK(entry.st_mode)) {
        if (!is_ours(&entry) || !is_our_folder(parent) || sb_is_proc_folder(parent))
            return ANOTHERS;
        flags &= ~O_NOFOLLOW;
    }
    *ret_fd = openat(parent, name, flags);
    if (*ret_fd < 0)
        return errno;
    if (created)
        set_mode(*ret_fd);
    return 0;
}

static int fail(const char *path, size_t length, int failure, struct simba_error *error)
{
    bool refused = failure == EACCES || failure == EPERM || failure == EROFS;

    if (failure == ANOTHERS)
        return sb_error_set(error, SIMBA_EDENIED,
                            "cannot create the folder '%.*s': its parent folder belongs to another "
                            "user; give a store with --url or SIMBA_URL",
                            (int)length, path);
    return sb_error_set(error, refused ? SIMBA_EDENIED : SIMBA_ECONFIG,
                        "cannot create the folder '%.*s': %s", (int)length, path,
                        strerror(failure));
}

static int create_folders(const char *path, struct simba_error *error)
{
    int parent = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failure = parent >= 0 ? 0 : errno;
    const char *name = path + 1;
    const char *end = strchr(name, '/');

    for (; end != NULL && failure == 0; name = end + 1, end = strchr(name, '/')) {
        char text[PATH_MAX];
        int fd = -1;

        if (end == name)
            continue;
        memcpy(text, name, (size_t)(end - name));
        text[end - name] = 0;
        failure = enter(parent, text, &fd);
        close(parent);
        parent = fd;
        if (failure != 0)
            break;
    }
    if (parent >= 0)
        close(parent);
    return failure == 0 ? SIMBA_OK
                        : fail(path, end != NULL ? (size_t)(end - path) : 1, failure, error);
}

/* ---- The default store ----------------------------------------------------------------------- */

static int fail_home(const char *home, struct simba_error *error)
{
    if (home == NULL || home[0] == 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "no store: HOME is %s, so give one with --url or SIMBA_URL",
                            home == NULL ? "not set" : "empty");
    return sb_error_set(error, SIMBA_ECONFIG,
                        "no store: HOME is '%s', which is %s, so give one with --url or SIMBA_URL",
                        home, home[0] != '/' ? "not an absolute path" : "no folder that exists");
}

/* A service often has a HOME that does not exist. To create it would hide the mutex in a place that
 * no other process uses. */
static bool home_exists(const char *home)
{
    struct stat info;

    return stat(home, &info) == 0 ? S_ISDIR(info.st_mode) : errno != ENOENT && errno != ENOTDIR;
}

/* The XDG rules: a relative XDG_STATE_HOME counts as not set. */
static int default_path(char *path, size_t size, struct simba_error *error)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length;

    if (state != NULL && state[0] == '/')
        length = snprintf(path, size, "%s" DEFAULT_FILE, state);
    else if (home != NULL && home[0] == '/' && home_exists(home))
        length = snprintf(path, size, "%s" HOME_STATE DEFAULT_FILE, home);
    else
        return fail_home(home, error);
    if (length < 0 || (size_t)length >= size)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "no store: the path of the state folder is too long");
    return SIMBA_OK;
}

/* A path may hold what has a meaning in a URL. */
static bool append_encoded(char *buffer, size_t size, const char *path)
{
    size_t used = strlen(buffer);

    for (; *path != 0; path++) {
        if (used + 4 > size)
            return false;
        if (strchr("%?#&=+ ", *path) != NULL)
            used += (size_t)snprintf(buffer + used, 4, "%%%02X", (unsigned)(unsigned char)*path);
        else
            buffer[used++] = *path;
    }
    buffer[used] = 0;
    return true;
}

int cli_store_file_url(const char *path, char *buffer, size_t size, struct simba_error *error)
{
    snprintf(buffer, size, "sqlite:");
    if (!append_encoded(buffer, size, path))
        return sb_error_set(error, SIMBA_ECONFIG, "no store: the path of its file is too long");
    return SIMBA_OK;
}

/* In a fleet a store that was not named means that every machine has its own. */
static int refuse_default(struct simba_error *error)
{
    const char *required = getenv("SIMBA_REQUIRE_URL");

    if (required == NULL || required[0] == 0 || strcmp(required, "0") == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG,
                        "no store is named, and SIMBA_REQUIRE_URL refuses the default one, which "
                        "reaches this host only: give one with --url, --config or SIMBA_URL");
}

static int default_url(bool create, char *buffer, size_t size, struct simba_error *error)
{
    char path[PATH_MAX];

    int code = refuse_default(error);
    if (code == SIMBA_OK)
        code = default_path(path, sizeof path, error);
    if (code == SIMBA_OK && create)
        code = create_folders(path, error);
    if (code != SIMBA_OK)
        return code;
    return cli_store_file_url(path, buffer, size, error);
}

/* ---- Configuration --------------------------------------------------------------------------- */

/* SIMBA_ENOTFOUND: there is no such file. A file that cannot be read is not passed over, since it
 * may name another store than the next one: reading it says what is wrong. */
static int look_for(const char *path, struct simba_error *error)
{
    struct stat info;

    if (lstat(path, &info) == 0)
        return SIMBA_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return sb_error_set(error, SIMBA_ENOTFOUND, "no store is named");
    if (errno == EACCES)
        return sb_error_set(
            error, SIMBA_EDENIED,
            "the folder of the configuration %s cannot be entered, so it is not known "
            "whether it names a store: give one with --url or SIMBA_URL",
            path);
    return SIMBA_OK;
}

/* The file of the user, by the XDG rules, or that of the system. */
static int find_config(char *path, size_t size, struct simba_error *error)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    int code = SIMBA_ENOTFOUND;

    if (config != NULL && config[0] == '/')
        length = snprintf(path, size, "%s" CONFIG_FILE, config);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s" HOME_CONFIG CONFIG_FILE, home);
    if (length >= 0 && (size_t)length < size)
        code = look_for(path, error);
    if (code != SIMBA_ENOTFOUND)
        return code;
    snprintf(path, size, "%s", SYSTEM_CONFIG);
    return look_for(path, error);
}

static int copy_url(char *buffer, size_t size, const char *url, struct simba_error *error)
{
    if ((size_t)snprintf(buffer, size, "%s", url) >= size)
        return sb_error_set(error, SIMBA_ECONFIG, "the URL is longer than %zu bytes", size - 1);
    return SIMBA_OK;
}

static int read_config(const struct cli *cli, const char *path, struct cli_store_found *found,
                       struct simba_error *error)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    char *url = NULL;

    options.log = cli_message_log;
    options.log_level = (enum simba_log_level)cli->log_level;
    int code = simba_config_check(path, &options, &url, found->origin, error);
    if (code != SIMBA_OK)
        return code;
    code = copy_url(found->url, sizeof found->url, url, error);
    explicit_bzero(url, strlen(url));
    simba_free(url);
    return code;
}

/* SIMBA_ENOTFOUND: nothing names a store. */
static int find_named(const struct cli *cli, struct cli_store_found *found,
                      struct simba_error *error)
{
    char file[PATH_MAX];

    found->origin[0] = 0;
    if (cli->url != NULL)
        return copy_url(found->url, sizeof found->url, cli->url, error);
    if (cli->config != NULL)
        return read_config(cli, cli->config, found, error);
    int code = find_config(file, sizeof file, error);
    return code == SIMBA_OK ? read_config(cli, file, found, error) : code;
}

static char shown_url[CLI_URL_MAX]; /* the opener's, until it is published */
static _Atomic(const char *) shown;
static bool shown_by_default; /* nobody has named it */

const char *cli_store_shown(void)
{
    return atomic_load(&shown);
}

bool cli_store_is_default(void)
{
    return cli_store_shown() != NULL && shown_by_default;
}

bool cli_store_is_file(void)
{
    const char *url = cli_store_shown();

    return url != NULL && strncasecmp(url, "sqlite:", 7) == 0;
}

/* Once, however often the store is tried. */
static void show_store(const struct cli *cli, const char *url, bool named)
{
    if (cli_store_shown() != NULL)
        return;
    shown_by_default = !named;
    atomic_store(&shown, sb_url_redact(url, shown_url, sizeof shown_url));
    cli_line_about_store(shown_url);
    if (cli->show_store || cli->log_level >= SIMBA_LOG_INFO)
        cli_message("the store is %s%s", shown_url,
                    named ? "" : ", since none is named: it reaches this host only");
}

int cli_store_locate(const struct cli *cli, bool named, struct cli_store_found *ret_found,
                     struct simba_error *error)
{
    int code = find_named(cli, ret_found, error);
    bool found = code != SIMBA_ENOTFOUND;

    if (!found && !named)
        code = default_url(true, ret_found->url, sizeof ret_found->url, error);
    if (code == SIMBA_OK)
        show_store(cli, ret_found->url, found);
    return code;
}

/* An error in a URL from a file gets its place there. */
static int name_origin(const char *origin, int code, struct simba_error *error)
{
    if (simba_error_group(code) == SIMBA_GROUP_CONFIG && origin[0] != 0)
        sb_error_set_backend(error, code, error->backend_code, "%s: %s", origin, error->text);
    return code;
}

int cli_store_find(const struct cli *cli, bool named, struct cli_store_found *ret_found,
                   struct simba_error *error)
{
    char written[CLI_URL_MAX];

    int code = cli_store_locate(cli, named, ret_found, error);
    if (code != SIMBA_OK)
        return code;
    memcpy(written, ret_found->url, sizeof written);
    code = sb_url_settle(written, ret_found->url, sizeof ret_found->url, error);
    explicit_bzero(written, sizeof written);
    return name_origin(ret_found->origin, code, error);
}

void cli_store_forget(struct cli_store_found *found)
{
    explicit_bzero(found, sizeof *found);
}

bool cli_store_hide_password(char *argument)
{
    char redacted[CLI_URL_MAX];
    size_t length = strlen(argument);

    sb_url_redact(argument, redacted, sizeof redacted);
    if (strcmp(redacted, argument) == 0)
        return false;
    explicit_bzero(argument, length);
    memcpy(argument, redacted, strnlen(redacted, length));
    return true;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_url(const struct cli *cli, const char *url, simba_client **ret_client,
                    struct simba_error *error)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    if (strncasecmp(url, "memory:", 7) == 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the store memory: belongs to one process, so no other process would "
                            "see the mutex; use it with 'simba tck' only");
    cli_message_start_queue();
    options.ttl_ms = cli->ttl_ms;
    options.transition_ms = cli->transition_ms;
    options.dispatcher_threads = 1;
    options.log = cli_message_log;
    options.log_level = (enum simba_log_level)cli->log_level;
    return simba_client_open(url, &options, ret_client, error);
}

int cli_store_open_found(const struct cli *cli, const struct cli_store_found *found,
                         simba_client **ret_client, struct simba_error *error)
{
    int code = open_url(cli, found->url, ret_client, error);

    if (code == SIMBA_ENOTFOUND) /* the URL forbids to create it */
        code = error->code = SIMBA_EUNAVAILABLE;
    return name_origin(found->origin, code, error);
}

/* Forbids to create an SQLite file, unless the URL itself says what to do. */
static int forbid_creation(char *url, size_t size, struct simba_error *error)
{
    size_t length = strlen(url);
    const char *options = strchr(url, '?');

    if (strncasecmp(url, "sqlite:", 7) != 0 || strstr(url, "?create=") != NULL ||
        strstr(url, "&create=") != NULL)
        return SIMBA_OK;
    const char *delimiter = options == NULL ? "?" : options[1] != 0 ? "&" : "";
    if ((size_t)snprintf(url + length, size - length, "%screate=no", delimiter) >= size - length)
        return sb_error_set(error, SIMBA_ECONFIG, "the URL is longer than %zu bytes", size - 1);
    return SIMBA_OK;
}

int cli_store_open_existing(const struct cli *cli, simba_client **ret_client,
                            struct simba_error *error)
{
    struct cli_store_found found;

    int code = find_named(cli, &found, error);
    bool named = code != SIMBA_ENOTFOUND;
    if (!named)
        code = default_url(false, found.url, sizeof found.url, error);
    if (code == SIMBA_OK) {
        if (!cli->show_store) /* a user who is shown the store reads that first */
            cli_message_start_queue();
        show_store(cli, found.url, named);
        size_t length = strlen(found.url);
        code = forbid_creation(found.url, sizeof found.url, error);
        if (code == SIMBA_OK)
            code = open_url(cli, found.url, ret_client, error);
        if (code == SIMBA_ENOTFOUND && named) {
            const char *hint = found.url[length] != 0 ? "; the first 'simba lock' creates it" : "";
            code = sb_error_set(error, SIMBA_EUNAVAILABLE, "%s%s", error->text, hint);
        }
        code = name_origin(found.origin, code, error);
    }
    cli_store_forget(&found);
    return code;
}

void cli_store_close(simba_client *client)
{
    struct simba_error error;

    if (client != NULL && simba_client_close(client, &error) != SIMBA_OK)
        cli_message("%s", error.text);
}
