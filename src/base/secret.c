/*
 * secret.c - passwords that a URL does not hold but names: by a file or by an environment
 * variable.
 *
 *     ?password-file=/run/secrets/redis&sentinel-password-env=SENTINEL_PASSWORD
 *
 * Any parameter X-password may be named so, and the password of the URL itself. `user` and
 * `password` may stand among the parameters, too. No sentence here quotes what was read.
 */
#include "base/secret.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "base/url_parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORD "password"
#define FILE_ENDING "-file"
#define ENVIRONMENT_ENDING "-env"

/* ---- Reading --------------------------------------------------------------------------------- */

/* The name of a file in a message: with the folder in front, because the reader of the message may
 * be in another folder. */
static const char *full_name(const char *path, char buffer[PATH_MAX])
{
    char folder[PATH_MAX];
    struct sb_text text;

    if (path[0] == '/' || getcwd(folder, sizeof folder) == NULL)
        return path;
    sb_text_init(&text, buffer, PATH_MAX);
    sb_text_add(&text, "%s/%s", strcmp(folder, "/") != 0 ? folder : "", path);
    return text.cut ? path : buffer;
}

/* One byte more than allowed is asked for, so that what is too long shows. */
static int read_whole(int fd, const char *path, char buffer[SB_SECRET_MAX + 2],
                      struct simba_error *error)
{
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length <= SB_SECRET_MAX) {
        got = read(fd, buffer + length, SB_SECRET_MAX + 1 - length);
        if (got < 0 && errno != EINTR)
            return sb_error_set_backend(error, SIMBA_ECONFIG, errno,
                                        "the password file %s cannot be read: %s", path,
                                        strerror(errno));
        length += got > 0 ? (size_t)got : 0;
        got = got < 0 ? 1 : got;
    }
    buffer[length] = '\0';
    if (length > SB_SECRET_MAX || strlen(buffer) != length)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the password file %s has more than %d bytes, or a NUL", path,
                            SB_SECRET_MAX);
    return SIMBA_OK;
}

/* Only a shell expands it. */
static int check_home(const char *path, struct simba_error *error)
{
    if (strncmp(path, "~/", 2) != 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG,
                        "the password file %s cannot be read: write its path without '~'", path);
}

/* The first line counts: an editor ends it. An empty one is a secret that was not filled in, and
 * the server would call it a wrong password. */
static int read_password_file(const char *path, char buffer[SB_SECRET_MAX + 2],
                              struct simba_error *error)
{
    char name[PATH_MAX];
    const char *full;
    int code = check_home(path, error);
    bool is_empty;
    int fd;

    if (code != SIMBA_OK)
        return code;
    full = full_name(path, name);
    code = sb_trusted_open("password file", full, &fd, NULL, error);
    if (code != SIMBA_OK)
        return code;
    code = read_whole(fd, full, buffer, error);
    close(fd);
    if (code != SIMBA_OK)
        return code;
    is_empty = buffer[0] == '\0';
    buffer[strcspn(buffer, "\r\n")] = '\0';
    if (buffer[0] != '\0')
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG, "the password file %s %s", full,
                        is_empty ? "is empty" : "has an empty first line");
}

static int read_environment(const char *name, char buffer[SB_SECRET_MAX + 2],
                            struct simba_error *error)
{
    const char *value = getenv(name);

    if (value == NULL || value[0] == '\0')
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the environment variable '%.60s', which should hold a password, is "
                            "%s",
                            name, value == NULL ? "not set" : "empty");
    if (strlen(value) > SB_SECRET_MAX)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the environment variable '%.60s' has more than %d bytes", name,
                            SB_SECRET_MAX);
    strcpy(buffer, value);
    return SIMBA_OK;
}

/* ---- Putting it in its place ----------------------------------------------------------------- */

/* Where "sentinel-password-file" ends in `ending`: the length of "sentinel-password", otherwise
 * 0. */
static size_t stem_length(const char *name, const char *ending)
{
    size_t length = strlen(name);
    size_t stem = length - strlen(ending);
    size_t word = strlen(WORD);

    if (length < word + strlen(ending) || strcmp(name + stem, ending) != 0 ||
        strncmp(name + stem - word, WORD, word) != 0)
        return 0;
    return stem == word || name[stem - word - 1] == '-' ? stem : 0;
}

size_t sb_url_password_stem(const char *name)
{
    size_t plain = stem_length(name, "");
    size_t file = stem_length(name, FILE_ENDING);

    return plain > 0 ? plain : file > 0 ? file : stem_length(name, ENVIRONMENT_ENDING);
}

bool sb_url_is_password_file(const char *name)
{
    return stem_length(name, FILE_ENDING) > 0;
}

static int fail_twice(const struct param *param, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECONFIG,
                        "the URL's parameter '%.60s' repeats what another part of the URL gives: "
                        "remove one of the two",
                        param->name);
}

static int set_password(simba_url *url, const char *value, struct param *source,
                        struct simba_error *error)
{
    if (url->password != NULL)
        return fail_twice(source, error);
    url->password = value;
    url->password_source = source;
    return SIMBA_OK;
}

static int set_user(simba_url *url, struct param *source, struct simba_error *error)
{
    if (url->user != NULL)
        return fail_twice(source, error);
    url->user = source->value;
    url->user_source = source;
    return SIMBA_OK;
}

static int add_param(simba_url *url, const char *name, const char *value, struct param *source,
                     struct simba_error *error)
{
    struct param *param = &url->params[url->param_count];

    if (sb_url_find_param(url, name) != NULL)
        return fail_twice(source, error);
    if (url->param_count == SB_URL_PARAMS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d parameters",
                            SB_URL_PARAMS_MAX);
    param->name = name;
    param->value = value;
    param->source = source;
    url->param_count++;
    return SIMBA_OK;
}

/* Keeps a string until the URL is freed. */
static const char *keep(simba_url *url, const char *text, size_t length)
{
    char *copy = sb_alloc_zero(length + 1);

    assert(url->secret_count < SB_URL_SECRETS_MAX);
    if (copy != NULL) {
        memcpy(copy, text, length);
        url->secrets[url->secret_count++] = copy;
    }
    return copy;
}

/* `stem` is the length of what the parameter's name is without its ending. */
static int put_secret(simba_url *url, struct param *source, size_t stem, const char *secret,
                      struct simba_error *error)
{
    const char *value = keep(url, secret, strlen(secret));
    const char *name;

    if (value == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (stem == strlen(WORD))
        return set_password(url, value, source, error);
    name = keep(url, source->name, stem);
    if (name == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    return add_param(url, name, value, source, error);
}

/* What a parameter names; to be called where one of the two endings is there. */
static int read_secret(const char *name, const char *value, char secret[SB_SECRET_MAX + 2],
                       struct simba_error *error)
{
    return sb_url_is_password_file(name) ? read_password_file(value, secret, error)
                                         : read_environment(value, secret, error);
}

static bool names_secret(const char *name)
{
    return stem_length(name, FILE_ENDING) > 0 || stem_length(name, ENVIRONMENT_ENDING) > 0;
}

static int resolve(simba_url *url, struct param *param, struct simba_error *error)
{
    char secret[SB_SECRET_MAX + 2];
    int code;

    if (strcmp(param->name, "user") == 0)
        return set_user(url, param, error);
    if (strcmp(param->name, WORD) == 0)
        return set_password(url, param->value, param, error);
    if (!names_secret(param->name))
        return SIMBA_OK;
    code = read_secret(param->name, param->value, secret, error);
    if (code == SIMBA_OK)
        code = put_secret(url, param, sb_url_password_stem(param->name), secret, error);
    explicit_bzero(secret, sizeof secret);
    return code;
}

int sb_url_resolve(simba_url *url, struct simba_error *error)
{
    size_t count = url->param_count;
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = resolve(url, &url->params[i], error);
    return code;
}

/* ---- Before anything is opened --------------------------------------------------------------- */

bool sb_url_has_password(const simba_url *url)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (stem_length(url->params[i].name, "") > 0)
            return true;
    return url->password != NULL;
}

/* A pipe gives its bytes only once, so the opener of the store reads it. */
bool sb_url_can_be_read_twice(const char *path)
{
    struct stat status;

    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

int sb_url_try_secret(const char *name, const char *value, struct simba_error *error)
{
    char secret[SB_SECRET_MAX + 2];
    int code;

    if (!names_secret(name) || (sb_url_is_password_file(name) && !sb_url_can_be_read_twice(value)))
        return SIMBA_OK;
    code = read_secret(name, value, secret, error);
    explicit_bzero(secret, sizeof secret);
    return code;
}

void sb_url_add_encoded(struct sb_text *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/";

    for (; *text != '\0'; text++)
        if (strchr(plain, *text) != NULL)
            sb_text_add(out, "%c", *text);
        else
            sb_text_add(out, "%%%02X", (unsigned)(unsigned char)*text);
}

/* "password=..." in place of "password-file=/dev/fd/63". */
static int add_settled(struct sb_text *out, const struct param *param, struct simba_error *error)
{
    bool once = sb_url_is_password_file(param->name) && !sb_url_can_be_read_twice(param->value);
    char secret[SB_SECRET_MAX + 2] = "";
    int code = once ? read_secret(param->name, param->value, secret, error) : SIMBA_OK;

    if (code == SIMBA_OK) {
        size_t length = once ? sb_url_password_stem(param->name) : strlen(param->name);

        sb_text_add(out, "%.*s=", (int)length, param->name);
        sb_url_add_encoded(out, once ? secret : param->value);
    }
    explicit_bzero(secret, sizeof secret);
    return code;
}

int sb_url_settle(const char *text, char *buffer, size_t size, struct simba_error *error)
{
    simba_url *url = NULL;
    struct sb_text out;
    int code = sb_url_parse(text, &url, error);

    sb_text_init(&out, buffer, size);
    sb_text_add(&out, "%.*s", (int)strcspn(text, "?"), text);
    for (size_t i = 0; code == SIMBA_OK && i < url->param_count; i++) {
        sb_text_add(&out, i == 0 ? "?" : "&");
        code = add_settled(&out, &url->params[i], error);
    }
    if (code == SIMBA_OK && out.cut)
        code = sb_error_set(error, SIMBA_ECONFIG, "the URL is longer than %zu bytes", size - 1);
    sb_url_free(url);
    return code;
}

int sb_url_check_passwords(const simba_url *url, struct simba_error *error)
{
    for (size_t i = 0; i < url->param_count; i++) {
        const char *name = url->params[i].name;
        size_t stem = sb_url_password_stem(name);

        if (stem == strlen(WORD) && url->password != NULL)
            return fail_twice(&url->params[i], error);
        for (size_t j = 0; j < i && stem > 0; j++)
            if (sb_url_password_stem(url->params[j].name) == stem &&
                strncmp(url->params[j].name, name, stem) == 0)
                return fail_twice(&url->params[i], error);
    }
    return SIMBA_OK;
}

/* ---- For the next connection ----------------------------------------------------------------- */

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
    return full_name(source->value, buffer);
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
        return sb_error_set(error, SIMBA_ECONFIG, "the password file %s is not a file any more",
                            secret->path);
    code = read_password_file(secret->path, buffer, error);
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
