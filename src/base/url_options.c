/*
 * url_options.c - reads the options of a URL into a struct, by their table. Owns the form of the
 * sentences that refuse a value; which options there are is up to the stores.
 */
#include "base/url_options.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "base/url_parts.h"

#include <string.h>
#include <unistd.h>

#define NUMBER_DIGITS_MAX 18 /* fit into 63 bits */
#define DURATION_TEXT_MAX 64 /* bytes, with the NUL */
#define SENTENCE_MAX 256

const struct simba_backend_option *sb_url_declared_option(const struct simba_backend_ops *ops,
                                                          size_t index)
{
    size_t size = ops->option_size != 0 ? ops->option_size : sizeof *ops->options;
    const struct simba_backend_option *option;

    if (ops->options == NULL)
        return NULL;
    option = (const void *)((const char *)ops->options + index * size);
    return option->name != NULL ? option : NULL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool sb_url_read_number(const char *text, int64_t *ret_number)
{
    size_t length = strlen(text);
    int64_t number = 0;

    if (length == 0 || length > NUMBER_DIGITS_MAX || strspn(text, "0123456789") != length)
        return false;
    for (; *text != '\0'; text++)
        number = number * 10 + (*text - '0');
    *ret_number = number;
    return true;
}

bool sb_url_read_range(const char *text, int64_t ret_ms[2])
{
    const char *dots = strstr(text, "..");
    char low[DURATION_TEXT_MAX];
    int64_t ends[2];

    if (dots == NULL || (size_t)(dots - text) >= sizeof low)
        return false;
    memcpy(low, text, (size_t)(dots - text));
    low[dots - text] = '\0';
    if (simba_duration_parse(low, &ends[0], NULL) != SIMBA_OK ||
        simba_duration_parse(dots + 2, &ends[1], NULL) != SIMBA_OK)
        return false;
    memcpy(ret_ms, ends, sizeof ends);
    return true;
}

int sb_url_find_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    int index = 0;

    for (; length > 0 && words != NULL; index++) {
        if (strncmp(words, word, length) == 0 && (words[length] == ' ' || words[length] == '\0'))
            return index;
        words = strchr(words, ' ');
        if (words != NULL)
            words++;
    }
    return -1;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static int refuse(const struct simba_backend_option *option, const char *value, const char *allowed,
                  struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EINVAL, "%s is '%.60s'; it must be %s", option->name, value,
                        allowed);
}

/* "open, creator or creator-read" */
static int refuse_word(const struct simba_backend_option *option, const char *value,
                       struct simba_error *error)
{
    char allowed[SENTENCE_MAX];
    struct sb_text text;
    const char *word = option->words;

    sb_text_init(&text, allowed, sizeof allowed);
    while (word != NULL) {
        const char *space = strchr(word, ' ');
        size_t length = space != NULL ? (size_t)(space - word) : strlen(word);
        const char *before = word == option->words ? "" : space != NULL ? ", " : " or ";

        sb_text_add(&text, "%s%.*s", before, (int)length, word);
        word = space != NULL ? space + 1 : NULL;
    }
    return refuse(option, value, allowed, error);
}

static bool is_in_range(const struct sb_url_option *row, int64_t value)
{
    return value >= row->least && (row->most == 0 || value <= row->most);
}

/* ---- Members --------------------------------------------------------------------------------- */

static int fill_duration(const struct sb_url_option *row, simba_url *url, int64_t *member,
                         struct simba_error *error)
{
    char value[DURATION_TEXT_MAX];
    char least[DURATION_TEXT_MAX];
    char most[DURATION_TEXT_MAX];
    char allowed[SENTENCE_MAX];
    struct sb_text text;
    int code = simba_url_duration(url, row->declared.name, member, error);

    if (code != SIMBA_OK || is_in_range(row, *member))
        return code;
    simba_duration_format(row->least, least, sizeof least);
    sb_text_init(&text, allowed, sizeof allowed);
    if (row->most == 0)
        sb_text_add(&text, "at least %s", least);
    else
        sb_text_add(&text, "between %s and %s", least,
                    simba_duration_format(row->most, most, sizeof most));
    return refuse(&row->declared, simba_duration_format(*member, value, sizeof value), allowed,
                  error);
}

static int fill_number(const struct sb_url_option *row, const char *value, int64_t *member,
                       struct simba_error *error)
{
    char allowed[SENTENCE_MAX];
    struct sb_text text;

    if (sb_url_read_number(value, member) && is_in_range(row, *member))
        return SIMBA_OK;
    sb_text_init(&text, allowed, sizeof allowed);
    sb_text_add(&text, "a number from %lld", (long long)row->least);
    if (row->most != 0)
        sb_text_add(&text, " to %lld", (long long)row->most);
    return refuse(&row->declared, value, allowed, error);
}

static int fill_range(const struct sb_url_option *row, const char *value, int64_t *member,
                      struct simba_error *error)
{
    if (sb_url_read_range(value, member))
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG,
                        "%s is '%.60s'; it must be a range of two durations such as -200ms..1s",
                        row->declared.name, value);
}

static int fill_word(const struct sb_url_option *row, const char *value, void *member,
                     struct simba_error *error)
{
    int index = sb_url_find_word(row->declared.words, value);

    if (index < 0)
        return refuse_word(&row->declared, value, error);
    if (row->declared.type == SIMBA_OPTION_SWITCH)
        *(bool *)member = index == 0;
    else
        memcpy(member, &index, sizeof index); /* it may be an enum */
    return SIMBA_OK;
}

static bool is_secret(const struct simba_backend_option *option)
{
    return option->type == SIMBA_OPTION_TEXT &&
           sb_url_password_stem(option->name) == strlen(option->name);
}

static void fill_default(const struct sb_url_option *row, void *member)
{
    int index = (int)row->otherwise;

    switch (row->declared.type) {
    case SIMBA_OPTION_DURATION:
    case SIMBA_OPTION_NUMBER:
        *(int64_t *)member = row->otherwise;
        break;
    case SIMBA_OPTION_CHOICE:
        memcpy(member, &index, sizeof index);
        break;
    case SIMBA_OPTION_SWITCH:
        *(bool *)member = row->otherwise != 0;
        break;
    case SIMBA_OPTION_RANGE: /* has two, which the caller sets */
    case SIMBA_OPTION_TEXT:
    case SIMBA_OPTION_PATH:
        break;
    }
}

static int fill(const struct sb_url_option *row, simba_url *url, void *member,
                struct simba_error *error)
{
    const char *value;

    fill_default(row, member);
    if (is_secret(&row->declared))
        return sb_secret_take(member, url, row->declared.name, error);
    value = simba_url_param(url, row->declared.name);
    if (value == NULL)
        return SIMBA_OK;
    switch (row->declared.type) {
    case SIMBA_OPTION_DURATION:
        return fill_duration(row, url, member, error);
    case SIMBA_OPTION_NUMBER:
        return fill_number(row, value, member, error);
    case SIMBA_OPTION_RANGE:
        return fill_range(row, value, member, error);
    case SIMBA_OPTION_CHOICE:
    case SIMBA_OPTION_SWITCH:
        return fill_word(row, value, member, error);
    case SIMBA_OPTION_TEXT:
    case SIMBA_OPTION_PATH:
        break;
    }
    *(char **)member = sb_strdup(value);
    return *(char **)member != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

int sb_url_options_fill(const struct sb_url_option *table, unsigned conditions, simba_url *url,
                        void *target, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (; table->declared.name != NULL && code == SIMBA_OK; table++)
        if (table->when == 0 || (table->when & conditions) != 0)
            code = fill(table, url, (char *)target + table->offset, error);
    return code;
}

void sb_url_options_clear(const struct sb_url_option *table, void *target)
{
    for (; table->declared.name != NULL; table++) {
        void *member = (char *)target + table->offset;

        if (is_secret(&table->declared)) {
            sb_secret_clear(member);
        } else if (table->declared.type == SIMBA_OPTION_TEXT ||
                   table->declared.type == SIMBA_OPTION_PATH) {
            sb_free(*(char **)member);
            *(char **)member = NULL;
        }
    }
}

/* ---- Relative paths -------------------------------------------------------------------------- */

/* An '@' opens the name of a socket that is no file. */
bool sb_url_is_relative_file(const char *path)
{
    return path[0] != '\0' && path[0] != '/' && path[0] != '@';
}

/* "~/" is for a shell to expand, and ":memory:" is no file of SQLite's: their readers refuse them
 * in their own words. */
static bool is_relative(const char *path)
{
    return path[0] != '\0' && path[0] != '/' && strncmp(path, "~/", 2) != 0 &&
           strcmp(path, ":memory:") != 0;
}

static bool has_relative_file(const struct param *param, const struct simba_backend_ops *ops)
{
    const struct simba_backend_option *option;

    if (sb_url_is_password_file(param->name))
        return is_relative(param->value);
    for (size_t i = 0; (option = sb_url_declared_option(ops, i)) != NULL; i++)
        if (option->type == SIMBA_OPTION_PATH && strcmp(option->name, param->name) == 0)
            return sb_url_is_relative_file(param->value);
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
    SB_CHECK(url->secret_count < SB_URL_SECRETS_MAX, "a URL has room for all its paths");
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
        if (has_relative_file(&url->params[i], ops))
            code = put_in_front(url, folder, &url->params[i].value, error);
    return code;
}

const char *sb_url_working_folder(char buffer[PATH_MAX])
{
    if (getcwd(buffer, PATH_MAX) == NULL || buffer[0] != '/')
        buffer[0] = '\0';
    return buffer;
}
