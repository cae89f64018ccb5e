/*
 * config.c - configuration files: reads them, and opens clients from them.
 */
#include "api/config.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/trusted_file.h"
#include "base/url.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 * 1024) /* bytes */

struct file {
    char *text;
    size_t size;
    mode_t mode; /* 0: a pipe */
};

/* ---- Files ----------------------------------------------------------------------------------- */

static int fail_read(const char *path, struct simba_error *error)
{
    return sb_error_set_backend(error, SIMBA_ECONFIG, errno,
                                "the configuration file %s cannot be read: %s", path,
                                strerror(errno));
}

static void clear_file(struct file *file)
{
    if (file->text != NULL)
        explicit_bzero(file->text, file->size);
    sb_free(file->text);
}

/* One byte more than allowed is asked for, so that what is too long shows. */
static int read_text(int fd, const char *path, struct file *file, struct simba_error *error)
{
    ssize_t got = 1;

    while (got != 0 && file->size <= FILE_MAX) {
        got = read(fd, file->text + file->size, FILE_MAX + 1 - file->size);
        if (got < 0 && errno != EINTR)
            return fail_read(path, error);
        file->size += got > 0 ? (size_t)got : 0;
    }
    if (file->size > FILE_MAX)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the configuration file %s has more than %zu bytes", path, FILE_MAX);
    return SIMBA_OK;
}

static int read_open_file(int fd, const char *path, struct file *file, struct simba_error *error)
{
    file->text = sb_alloc(FILE_MAX + 1);
    if (file->text == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    return read_text(fd, path, file, error);
}

static int open_file(const char *path, int *ret_fd, struct stat *ret_status,
                     struct simba_error *error)
{
    struct simba_error why;
    char shown[PATH_MAX];
    int code = sb_trusted_open("configuration file", path, ret_fd, ret_status, &why);

    if (code == SIMBA_OK)
        return SIMBA_OK;
    if (why.backend_code == ENOENT) /* for a URL in its place there is -u */
        return sb_error_set_backend(error, code, ENOENT, "there is no configuration file %s",
                                    sb_url_redact(path, shown, sizeof shown));
    if (error != NULL)
        *error = why;
    return code;
}

static int read_file(const char *path, struct file *ret_file, struct simba_error *error)
{
    struct file file = {.text = NULL};
    struct stat status;
    int fd;
    int code = open_file(path, &fd, &status, error);

    if (code != SIMBA_OK)
        return code;
    file.mode = S_ISREG(status.st_mode) ? status.st_mode : 0;
    code = read_open_file(fd, path, &file, error);
    close(fd);
    if (code == SIMBA_OK)
        *ret_file = file;
    else
        clear_file(&file);
    return code;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int translate(struct sb_config *config, const char *text, size_t size,
                     struct sb_config_store *ret_store, struct simba_error *error)
{
    int code = sb_config_load(config, text, size, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_config_to_url(config, ret_store, error);
    sb_config_clear(config);
    return code;
}

/* A pipe has no folder to speak of. NULL: there is none. */
static const char *find_folder(const char *path, const struct file *file, char buffer[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%.*s.", slash != NULL ? (int)(slash + 1 - path) : 0, path);
    if (file->mode == 0 || text.cut || realpath(folder, buffer) == NULL)
        return NULL;
    return strcmp(buffer, "/") != 0 ? buffer : "";
}

static void warn_of_readers(const char *path, const struct file *file,
                            const struct simba_client_options *options)
{
    struct sb_log log = {NULL, NULL, SIMBA_LOG_NONE};

    if (options != NULL)
        log = (struct sb_log){options->log, options->log_user, options->log_level};
    if ((file->mode & S_IROTH) != 0)
        sb_log(&log, SIMBA_LOG_WARN,
               "%s holds a password and can be read by everybody: chmod 600 it, or use "
               "password-file",
               path);
}

int simba_config_parse(const char *text, size_t size, const char *name, char **ret_url,
                       struct simba_error *error)
{
    struct sb_config config = {.name = name};
    struct sb_config_store store;
    int code;

    if (text == NULL || name == NULL || ret_url == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_config_parse needs a text, a name and ret_url");
    code = translate(&config, text, size, &store, error);
    if (code == SIMBA_OK)
        *ret_url = store.url;
    return code;
}

static int read_config(const char *path, bool tries_secrets,
                       const struct simba_client_options *options,
                       struct sb_config_store *ret_store, struct simba_error *error)
{
    struct sb_config config = {.name = path, .tries_secrets = tries_secrets};
    struct sb_config_store store = {.url = NULL};
    struct file file = {.text = NULL};
    char folder[PATH_MAX];
    int code = read_file(path, &file, error);

    if (code != SIMBA_OK)
        return code;
    config.folder = find_folder(path, &file, folder);
    code = translate(&config, file.text, file.size, &store, error);
    if (code == SIMBA_OK && store.holds_secret)
        warn_of_readers(path, &file, options);
    clear_file(&file);
    if (code == SIMBA_OK)
        *ret_store = store;
    else
        sb_config_free_url(store.url);
    return code;
}

int simba_config_read(const char *path, const struct simba_client_options *options, char **ret_url,
                      struct simba_error *error)
{
    struct sb_config_store store;
    int code;

    if (path == NULL || ret_url == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_config_read needs a path and ret_url");
    code = read_config(path, false, options, &store, error);
    if (code == SIMBA_OK)
        *ret_url = store.url;
    return code;
}

int simba_config_check(const char *path, const struct simba_client_options *options, char **ret_url,
                       char ret_origin[SIMBA_CONFIG_ORIGIN_MAX], struct simba_error *error)
{
    struct sb_config_store store;
    int code;

    if (path == NULL || ret_url == NULL || ret_origin == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_config_check needs a path, ret_url and ret_origin");
    code = read_config(path, true, options, &store, error);
    if (code != SIMBA_OK)
        return code;
    *ret_url = store.url;
    memcpy(ret_origin, store.origin, sizeof store.origin);
    return SIMBA_OK;
}

/* Puts the origin before the sentence, where the error is one of the configuration. */
static void name_origin(const char *origin, struct simba_error *error)
{
    struct simba_error why = *error;

    if (simba_error_group(why.code) == SIMBA_GROUP_CONFIG)
        sb_error_set_backend(error, why.code, why.backend_code, "%s: %s", origin, why.text);
}

/* What is wrong with the values together shows only when the client is opened. */
int simba_client_open_config(const char *path, const struct simba_client_options *options,
                             simba_client **ret_client, struct simba_error *error)
{
    struct sb_config_store store;
    int code;

    if (path == NULL || ret_client == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_open_config needs a path and ret_client");
    code = read_config(path, true, options, &store, error);
    if (code != SIMBA_OK)
        return code;
    code = simba_client_open(store.url, options, ret_client, error);
    sb_config_free_url(store.url);
    if (code != SIMBA_OK && error != NULL)
        name_origin(store.origin, error);
    return code;
}
