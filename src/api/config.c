/*
 * config.c - configuration files: reads them, writes the URL that says the same as the one section
 * that is enabled, and opens clients from them.
 */
#include "api/client.h"
#include "api/config.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 * 1024) /* bytes */

/* ---- The one that is enabled ----------------------------------------------------------------- */

static int fail_two(const struct sb_section *first, const struct sb_section *second,
                    struct simba_error *error)
{
    char first_key[SB_CONFIG_KEY_MAX];
    char second_key[SB_CONFIG_KEY_MAX];
    bool is_root =
        first->url_entry != NULL && strchr(sb_section_key(first, first_key), '.') == NULL;

    return sb_config_fail(second->config, second->first->key_place, error,
                          "two stores are enabled, %s and %s: set enabled to false in one",
                          is_root ? first->url_entry->key : sb_section_key(first, first_key),
                          sb_section_key(second, second_key));
}

static int fail_no_url(const struct sb_section *section, struct simba_error *error)
{
    const char *example = section->kind->example;
    char key[SB_CONFIG_KEY_MAX];

    return sb_config_fail(section->config, section->first->key_place, error, "%s has no url%s%s",
                          sb_section_key(section, key),
                          example != NULL ? "; write one such as " : "",
                          example != NULL ? example : "");
}

static int choose(const struct sb_config *config, struct sb_sections *all,
                  struct sb_section **ret_section, struct simba_error *error)
{
    struct sb_section *sections = all->list;
    struct sb_section *chosen = NULL;
    struct simba_error disabled;

    if (!sections[0].enabled) {
        sb_config_fail(config, sections[0].enabled_entry->value_place, &disabled,
                       "%s is false: Simba is switched off", sections[0].enabled_entry->key);
        return sb_error_set(error, SIMBA_EDISABLED, "%s", disabled.text);
    }
    for (size_t i = 0; i < all->count; i++) {
        if (sections[i].first == NULL || !sections[i].enabled)
            continue;
        if (chosen != NULL)
            return fail_two(chosen, &sections[i], error);
        chosen = &sections[i];
    }
    if (chosen == NULL)
        return sb_config_fail(config, (struct sb_config_place){1, 1}, error,
                              "no store is enabled: write simba.url, or simba.jdbc, simba.redis or "
                              "simba.zookeeper with a url");
    if (chosen->url == NULL)
        return fail_no_url(chosen, error);
    *ret_section = chosen;
    return SIMBA_OK;
}

/* ---- The URL --------------------------------------------------------------------------------- */

/* The part before the '?'. */
static void add_place(struct sb_text *out, const struct sb_section *section)
{
    const char *text = section->url_entry->value;
    size_t scheme = strcspn(text, ":") + 1;
    size_t length = strcspn(text, "?");

    sb_text_add(out, "%.*s", (int)scheme, text);
    if (section->config->folder != NULL && sb_section_is_below_folder(section)) {
        sb_url_add_encoded(out, section->config->folder);
        sb_text_add(out, "/");
    }
    sb_text_add(out, "%.*s", (int)(length - scheme), text + scheme);
}

static void add_option(struct sb_text *out, const struct sb_section *section, const char *name,
                       const char *value, const char **delimiter)
{
    sb_text_add(out, "%s", *delimiter);
    *delimiter = "&";
    sb_config_add_option(out, section->config, sb_config_find_option(section->ops, name), name,
                         value);
}

static void add_options(struct sb_text *out, const struct sb_section *section)
{
    const struct sb_config *config = section->config;
    const char *delimiter = "?";

    for (size_t i = 0; i < sb_url_param_count(section->url); i++)
        add_option(out, section, sb_url_param_name(section->url, i),
                   sb_url_param_value(section->url, i), &delimiter);
    for (size_t i = 0; i < config->count; i++) {
        const char *name = sb_section_option_name(section, &config->entries[i]);

        if (name != NULL)
            add_option(out, section, name, config->entries[i].value, &delimiter);
    }
}

static void free_url(char *url)
{
    if (url != NULL)
        explicit_bzero(url, strlen(url));
    sb_free(url);
}

/* Options make a URL longer, and can be too many: so the whole is read once more. */
static int compose(const struct sb_section *section, char **ret_url, struct simba_error *error)
{
    char *text = sb_alloc(SB_CLIENT_URL_MAX);
    simba_url *whole = NULL;
    struct simba_error why;
    struct sb_text out;
    int code;

    if (text == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&out, text, SB_CLIENT_URL_MAX);
    add_place(&out, section);
    add_options(&out, section);
    code = sb_url_parse(text, &whole, &why);
    sb_url_free(whole);
    if (code == SIMBA_OK) {
        *ret_url = text;
        return SIMBA_OK;
    }
    free_url(text);
    return sb_config_fail_value(section->config, section->url_entry, error, why.text);
}

/* The one store that is enabled. */
struct store {
    char *url;                            /* to be given to free_url */
    bool holds_secret;                    /* a password stands in the configuration itself */
    char origin[SIMBA_CONFIG_ORIGIN_MAX]; /* where its url stands: "name:line:column: key" */
};

static int to_url(const struct sb_config *config, struct store *ret_store,
                  struct simba_error *error)
{
    struct sb_sections sections;
    bool holds_secret = false;
    struct sb_section *chosen = NULL;
    char *url = NULL;
    int code = sb_sections_read(config, &sections, error);

    if (code == SIMBA_OK)
        code = choose(config, &sections, &chosen, error);
    if (code == SIMBA_OK)
        code = compose(chosen, &url, error);
    for (size_t i = 0; i < sections.count; i++) {
        holds_secret = holds_secret || sections.list[i].holds_secret;
        sb_url_free(sections.list[i].url);
    }
    if (code != SIMBA_OK)
        return code;
    ret_store->url = url;
    ret_store->holds_secret = holds_secret;
    sb_config_write_origin(config, chosen->url_entry, ret_store->origin);
    return SIMBA_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

struct file {
    char *text;
    size_t size;
    mode_t mode; /* 0: a pipe */
};

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

    file->text = sb_alloc(FILE_MAX + 1);
    if (file->text == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    while (got != 0 && file->size <= FILE_MAX) {
        got = read(fd, file->text + file->size, FILE_MAX + 1 - file->size);
        if (got < 0 && errno != EINTR)
            return sb_error_set_backend(error, SIMBA_ECONFIG, errno,
                                        "the configuration file %s cannot be read: %s", path,
                                        strerror(errno));
        file->size += got > 0 ? (size_t)got : 0;
    }
    if (file->size > FILE_MAX)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the configuration file %s has more than %zu bytes", path, FILE_MAX);
    return SIMBA_OK;
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
    code = read_text(fd, path, &file, error);
    close(fd);
    if (code == SIMBA_OK)
        *ret_file = file;
    else
        clear_file(&file);
    return code;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int translate(struct sb_config *config, const char *text, size_t size,
                     struct store *ret_store, struct simba_error *error)
{
    int code = sb_config_load(config, text, size, error);

    if (code != SIMBA_OK)
        return code;
    code = to_url(config, ret_store, error);
    sb_config_clear(config);
    return code;
}

/* The folder of the file; NULL for a pipe or a descriptor, which has none. */
static const char *find_folder(const char *path, const struct file *file, char buffer[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%.*s.", slash != NULL ? (int)(slash + 1 - path) : 0, path);
    if (file->mode == 0 || text.cut || realpath(folder, buffer) == NULL ||
        strncmp(buffer, "/proc/", strlen("/proc/")) == 0)
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
    struct store store;
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
                       const struct simba_client_options *options, struct store *ret_store,
                       struct simba_error *error)
{
    struct sb_config config = {.name = path, .tries_secrets = tries_secrets};
    struct store store = {.url = NULL};
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
        free_url(store.url);
    return code;
}

int simba_config_read(const char *path, const struct simba_client_options *options, char **ret_url,
                      struct simba_error *error)
{
    struct store store;
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
    struct store store;
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

/* What is wrong with the values together shows only when the client is opened. */
int simba_client_open_config(const char *path, const struct simba_client_options *options,
                             simba_client **ret_client, struct simba_error *error)
{
    struct store store;
    struct simba_error why;
    int code;

    if (path == NULL || ret_client == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_open_config needs a path and ret_client");
    code = read_config(path, true, options, &store, error);
    if (code != SIMBA_OK)
        return code;
    code = simba_client_open(store.url, options, ret_client, &why);
    free_url(store.url);
    if (code == SIMBA_OK)
        return SIMBA_OK;
    if (simba_error_group(code) == SIMBA_GROUP_CONFIG)
        sb_error_set_backend(error, code, why.backend_code, "%s: %s", store.origin, why.text);
    else if (error != NULL)
        *error = why;
    return code;
}
