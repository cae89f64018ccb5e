/*
 * config_option.c - the entries of a configuration and the options that they may be: keys, names,
 * types, how a value is written in a URL, and how a sentence names an entry. The options of a store
 * are what its backend declares.
 */
#include "api/client.h"
#include "api/config.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/url.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_SHOWN_MAX 80 /* bytes of a path, so that there is room for the sentence */

const struct simba_backend_option sb_config_any_option = {"", SIMBA_OPTION_TEXT, NULL};

/* ---- Entries --------------------------------------------------------------------------------- */

/* The end of a path says more than its beginning. */
static const char *short_name(const char *name)
{
    size_t length = strlen(name);

    return length > NAME_SHOWN_MAX ? name + length - NAME_SHOWN_MAX : name;
}

int sb_config_fail(const struct sb_config *config, struct sb_config_place place,
                   struct simba_error *error, const char *format, ...)
{
    struct simba_error why;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why.text, sizeof why.text, format, arguments);
    va_end(arguments);
    return sb_error_set(error, SIMBA_ECONFIG, "%s:%zu:%zu: %s", short_name(config->name),
                        place.line, place.column, why.text);
}

int sb_config_fail_value(const struct sb_config *config, const struct sb_config_entry *entry,
                         struct simba_error *error, const char *sentence)
{
    return sb_config_fail(config, entry->value_place, error, "%s: %s", entry->key, sentence);
}

void sb_config_write_origin(const struct sb_config *config, const struct sb_config_entry *entry,
                            char buffer[SIMBA_CONFIG_ORIGIN_MAX])
{
    struct sb_text text;

    sb_text_init(&text, buffer, SIMBA_CONFIG_ORIGIN_MAX);
    sb_text_add(&text, "%s:%zu:%zu: %s", short_name(config->name), entry->value_place.line,
                entry->value_place.column, entry->key);
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

bool sb_config_append_key(char path[SB_CONFIG_KEY_MAX], const char *key)
{
    size_t length = strlen(path);

    if (length > 0)
        path[length++] = '.';
    for (size_t i = 0; key[i] != '\0'; i++) {
        if (length + 3 > SB_CONFIG_KEY_MAX)
            return false;
        if (is_upper(key[i]) && i > 0 && !is_upper(key[i - 1]) && strchr(".-_", key[i - 1]) == NULL)
            path[length++] = '-';
        path[length++] = key[i] == '_' ? '-' : is_upper(key[i]) ? (char)(key[i] + 32) : key[i];
    }
    path[length] = '\0';
    return true;
}

void sb_config_clear(struct sb_config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        char *value = config->entries[i].value;

        if (value != NULL)
            explicit_bzero(value, strlen(value));
        sb_free(value);
    }
    sb_free(config->entries);
    config->entries = NULL;
    config->count = 0;
    config->capacity = 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const words[3])
{
    for (size_t i = 0; i < 3; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* The words that YAML 1.1 has for it. */
bool sb_config_read_switch(const char *text, bool *ret_on)
{
    static const char *const yes[] = {"true", "yes", "on"};
    static const char *const no[] = {"false", "no", "off"};
    bool on = is_one_of(text, yes);

    if (!on && !is_one_of(text, no))
        return false;
    *ret_on = on;
    return true;
}

int sb_config_check_type(const struct sb_config *config, const struct sb_config_entry *entry,
                         const struct simba_backend_option *option, const char *name,
                         struct simba_error *error)
{
    struct simba_error why;
    int64_t ends[2];
    int64_t number;
    bool on;

    if (sb_config_is_path(option, name) && strncmp(entry->value, "~/", 2) == 0)
        return sb_config_fail_value(config, entry, error,
                                    "the path begins with '~', which only a shell expands: write "
                                    "the full path");
    switch (option->type) {
    case SIMBA_OPTION_DURATION:
        return simba_duration_parse(entry->value, &number, &why) == SIMBA_OK
                   ? SIMBA_OK
                   : sb_config_fail_value(config, entry, error, why.text);
    case SIMBA_OPTION_RANGE:
        return sb_url_read_range(entry->value, ends)
                   ? SIMBA_OK
                   : sb_config_fail_value(
                         config, entry, error,
                         "this must be a range of two durations such as -200ms..1s");
    case SIMBA_OPTION_NUMBER:
        return sb_url_read_number(entry->value, &number)
                   ? SIMBA_OK
                   : sb_config_fail_value(config, entry, error, "this must be a number");
    case SIMBA_OPTION_SWITCH:
        return sb_config_read_switch(entry->value, &on)
                   ? SIMBA_OK
                   : sb_config_fail_value(config, entry, error, "this must be true or false");
    case SIMBA_OPTION_CHOICE:
        return sb_url_find_word(option->words, entry->value) >= 0
                   ? SIMBA_OK
                   : sb_config_fail(config, entry->value_place, error,
                                    "%s: this must be one of: %s", entry->key, option->words);
    case SIMBA_OPTION_TEXT:
    case SIMBA_OPTION_PATH:
        break;
    }
    return SIMBA_OK;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_password(const char *option)
{
    return sb_url_password_stem(option) == strlen(option);
}

bool sb_config_is_path(const struct simba_backend_option *option, const char *name)
{
    return option->type == SIMBA_OPTION_PATH || sb_url_is_password_file(name);
}

/* A password may be named by a file or a variable instead. */
static bool names_option(const char *name, const char *option)
{
    size_t length = strlen(option);

    if (strncmp(name, option, length) != 0)
        return false;
    return name[length] == '\0' || (is_password(option) && (strcmp(name + length, "-file") == 0 ||
                                                            strcmp(name + length, "-env") == 0));
}

/* A backend that declares nothing takes any. */
const struct simba_backend_option *sb_config_find_option(const struct simba_backend_ops *ops,
                                                         const char *name)
{
    const struct simba_backend_option *option;

    if (strchr(name, '.') != NULL)
        return NULL;
    for (size_t i = 0; sb_client_url_options[i].declared.name != NULL; i++)
        if (names_option(name, sb_client_url_options[i].declared.name))
            return &sb_client_url_options[i].declared;
    for (size_t i = 0; ops != NULL && (option = sb_url_declared_option(ops, i)) != NULL; i++)
        if (names_option(name, option->name))
            return option;
    return ops != NULL && ops->options == NULL ? &sb_config_any_option : NULL;
}

static void offer_option(struct sb_near *near, const char *name, const char *option)
{
    static const char *const endings[] = {"", "-file", "-env"};

    for (size_t i = 0; i < (is_password(option) ? 3 : 1); i++) {
        char candidate[SB_NEAR_MAX];
        struct sb_text text;

        sb_text_init(&text, candidate, sizeof candidate);
        sb_text_add(&text, "%s%s", option, endings[i]);
        sb_near_offer(near, name, candidate);
    }
}

void sb_config_offer_options(struct sb_near *near, const struct simba_backend_ops *ops,
                             const char *name)
{
    const struct simba_backend_option *option;

    for (size_t i = 0; sb_client_url_options[i].declared.name != NULL; i++)
        offer_option(near, name, sb_client_url_options[i].declared.name);
    for (size_t i = 0; ops != NULL && (option = sb_url_declared_option(ops, i)) != NULL; i++)
        offer_option(near, name, option->name);
}

/* ---- In a URL -------------------------------------------------------------------------------- */

/* A switch is written in the store's own words. */
void sb_config_add_option(struct sb_text *out, const struct sb_config *config,
                          const struct simba_backend_option *option, const char *name,
                          const char *value)
{
    bool on;

    sb_url_add_encoded(out, name);
    sb_text_add(out, "=");
    if (option->type == SIMBA_OPTION_SWITCH && sb_config_read_switch(value, &on)) {
        size_t first = strcspn(option->words, " ");

        if (on)
            sb_text_add(out, "%.*s", (int)first, option->words);
        else
            sb_text_add(out, "%s", option->words + first + 1);
        return;
    }
    if (config->folder != NULL && sb_config_is_path(option, name) &&
        sb_url_is_relative_file(value)) {
        sb_url_add_encoded(out, config->folder);
        sb_text_add(out, "/");
    }
    sb_url_add_encoded(out, value);
}
