/*
 * secret.c - a password for the next connection. Owns its copy; how a file of passwords is read is
 * url_secret.c's.
 */
#include "base/secret.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/url_parts.h"

#include <limits.h>
#include <string.h>

static const struct param *find_source(simba_url *url, const char *name)
{
    const struct param *param;

    if (strcmp(name, "password") == 0)
        return url->password_source;
    param = sb_url_find_param(url, name);
    return param != NULL ? param->source : NULL;
}

/* The folder of the process may be another one by the next connection. */
static const char *find_path(simba_url *url, const char *name, char buffer[PATH_MAX])
{
    const struct param *source = find_source(url, name);

    if (source == NULL || !sb_url_is_password_file(source->name) ||
        !sb_url_can_be_read_twice(source->value))
        return NULL;
    return sb_url_full_name(source->value, buffer);
}

int sb_secret_take(struct sb_secret *secret, simba_url *url, const char *name,
                   struct simba_error *error)
{
    char buffer[PATH_MAX];
    const char *path = find_path(url, name, buffer);
    const char *text =
        strcmp(name, "password") == 0 ? simba_url_password(url) : simba_url_param(url, name);

    *secret = (struct sb_secret){0};
    if (text != NULL)
        secret->text = sb_strdup(text);
    if (path != NULL)
        secret->path = sb_strdup(path);
    if ((text == NULL) == (secret->text == NULL) && (path == NULL) == (secret->path == NULL))
        return SIMBA_OK;
    sb_secret_clear(secret);
    return sb_error_plain(error, SIMBA_ENOMEM);
}

int sb_secret_now(const struct sb_secret *secret, char buffer[SB_SECRET_MAX + 2],
                  const char **ret_text, struct simba_error *error)
{
    int code;

    *ret_text = secret->text;
    if (secret->path == NULL)
        return SIMBA_OK;
    if (!sb_url_can_be_read_twice(secret->path))
        return sb_error_set(error, SIMBA_ECONFIG, "the password file %s is no file any more",
                            secret->path);
    code = sb_url_read_password_file(secret->path, buffer, error);
    if (code == SIMBA_OK)
        *ret_text = buffer;
    return code;
}

void sb_secret_clear(struct sb_secret *secret)
{
    if (secret->text != NULL)
        explicit_bzero(secret->text, strlen(secret->text));
    sb_free(secret->text);
    sb_free(secret->path);
    *secret = (struct sb_secret){0};
}
