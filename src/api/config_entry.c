/*
 * config_entry.c - the entries of a configuration: how their keys are written, and how a sentence
 * names one.
 */
#include "api/config.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_SHOWN_MAX 80 /* bytes of a path, so that there is room for the sentence */

/* ---- Errors ---------------------------------------------------------------------------------- */

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

/* ---- Keys ------------------------------------------------------------------------------------ */

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

/* ---- Memory ---------------------------------------------------------------------------------- */

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

void sb_config_free_url(char *url)
{
    if (url != NULL)
        explicit_bzero(url, strlen(url));
    sb_free(url);
}
