/*
 * url_absolute.c - gives the relative paths of a URL a folder in front, so that they name the same
 * files when the process has moved to another folder.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url_parts.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

/* "~/" is for a shell to expand, and ":memory:" is no file of SQLite's: their readers refuse them
 * in their own words. */
static bool is_relative(const char *path)
{
    return path[0] != '\0' && path[0] != '/' && strncmp(path, "~/", 2) != 0 &&
           strcmp(path, ":memory:") != 0;
}

/* An '@' opens the name of a socket that is no file. */
static bool is_relative_option(const struct simba_backend_ops *ops, const struct param *param)
{
    if (sb_url_is_password_file(param->name))
        return is_relative(param->value);
    for (const struct simba_backend_option *o = ops->options; o != NULL && o->name != NULL; o++)
        if (o->type == SIMBA_OPTION_PATH && strcmp(o->name, param->name) == 0)
            return param->value[0] != '\0' && strchr("/@", param->value[0]) == NULL;
    return false;
}

static int put_in_front(simba_url *url, const char *folder, const char **path,
                        struct simba_error *error)
{
    size_t size = strlen(folder) + strlen(*path) + 2;
    char *whole;
    struct sb_text text;

    if (folder[0] == '\0')
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the working folder of the process is gone: write the path %s in full",
                            *path);
    whole = sb_alloc(size);
    if (whole == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&text, whole, size);
    sb_text_add(&text, "%s/%s", strcmp(folder, "/") != 0 ? folder : "", *path);
    assert(url->secret_count < SB_URL_SECRETS_MAX);
    url->secrets[url->secret_count++] = whole;
    *path = whole;
    return SIMBA_OK;
}

int sb_url_make_absolute(simba_url *url, const struct simba_backend_ops *ops, const char *folder,
                         struct simba_error *error)
{
    int code = SIMBA_OK;

    if (ops->path_is_file && url->host_count == 0 && is_relative(url->path))
        code = put_in_front(url, folder, &url->path, error);
    for (size_t i = 0; i < url->param_count && code == SIMBA_OK; i++)
        if (is_relative_option(ops, &url->params[i]))
            code = put_in_front(url, folder, &url->params[i].value, error);
    return code;
}

const char *sb_url_working_folder(char buffer[PATH_MAX])
{
    if (getcwd(buffer, PATH_MAX) == NULL || buffer[0] != '/')
        buffer[0] = '\0';
    return buffer;
}
