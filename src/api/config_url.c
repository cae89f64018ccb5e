/*
 * config_url.c - the url of a section, and the values of options, which stand in it or beside it:
 * what is wrong with them. No sentence quotes a url or a password.
 */
#include "api/config_section.h"

#include "api/scheme.h"
#include "backend/registry.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url_options.h"

#include <string.h>

#define URL_MAX 8192 /* bytes, more than a URL may have */

/* ---- Values ---------------------------------------------------------------------------------- */

/* In doubt it is one, whatever stands before the word. */
static bool is_secret(const char *name)
{
    const char *word = strstr(name, "password");

    return word != NULL && strcmp(word, "password") == 0;
}

/* The password that the entry names must be there, where that is wanted. */
static int try_secret(const struct sb_section *section, const struct sb_config_entry *entry,
                      const char *name, struct simba_error *error)
{
    const struct sb_config *config = section->config;
    bool is_below = config->folder != NULL && sb_url_is_password_file(name) &&
                    sb_url_is_relative_file(entry->value);
    char value[URL_MAX];
    struct simba_error why;
    struct sb_text text;
    int code;

    if (!config->tries_secrets || !section->enabled)
        return SIMBA_OK;
    sb_text_init(&text, value, sizeof value);
    sb_text_add(&text, "%s%s%s", is_below ? config->folder : "", is_below ? "/" : "", entry->value);
    code = sb_url_try_secret(name, value, &why);
    if (code == SIMBA_OK)
        return SIMBA_OK;
    sb_config_fail_value(config, entry, error, why.text);
    if (error != NULL) {
        error->code = code;
        error->backend_code = why.backend_code;
    }
    return code;
}

int sb_section_check_value(struct sb_section *section, const struct sb_config_entry *entry,
                           const struct simba_backend_option *option, const char *name,
                           struct simba_error *error)
{
    int code;

    section->holds_secret = section->holds_secret || is_secret(name);
    if (entry->value[0] == '\0' && sb_url_password_stem(name) > 0)
        return sb_config_fail_value(section->config, entry, error, "the value is missing");
    code = sb_config_check_type(section->config, entry, option, name, error);
    return code == SIMBA_OK ? try_secret(section, entry, name, error) : code;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* "jdbc:mysql://..." is what the JVM's drivers take. */
static int fail_scheme(const struct sb_section *section, struct simba_error *error)
{
    const char *scheme = simba_url_scheme(section->url);
    struct simba_error why;

    if (strcmp(scheme, "jdbc") == 0)
        return sb_config_fail_value(section->config, section->url_entry, error,
                                    "leave out 'jdbc:', and write user and password as keys");
    if (section->ops == NULL) {
        sb_scheme_fail(scheme, &why);
        return sb_config_fail_value(section->config, section->url_entry, error, why.text);
    }
    return sb_config_fail(section->config, section->url_entry->value_place, error,
                          "%s: a URL that begins with '%.30s:' is not one of this section",
                          section->url_entry->key, scheme);
}

static bool url_holds_secret(const char *url)
{
    char redacted[URL_MAX];

    return strcmp(sb_url_redact(url, redacted, sizeof redacted), url) != 0;
}

int sb_section_read_url(struct sb_section *section, const struct sb_config_entry *entry,
                        struct simba_error *error)
{
    struct simba_error why;
    int code;

    section->url_entry = entry;
    if (entry->value == NULL)
        return sb_config_fail_value(section->config, entry, error, "the value is missing");
    code = sb_url_parse(entry->value, &section->url, &why);
    if (code == SIMBA_ENOMEM)
        return sb_error_plain(error, code);
    if (code == SIMBA_OK)
        code = sb_url_check_passwords(section->url, &why);
    if (code == SIMBA_OK && section->enabled)
        code = sb_backend_find(simba_url_scheme(section->url), &section->ops, &why);
    if (code != SIMBA_OK)
        return sb_config_fail_value(section->config, entry, error, why.text);
    if (section->enabled && !sb_section_takes(section, section->ops))
        return fail_scheme(section, error);
    section->holds_secret = section->holds_secret || url_holds_secret(entry->value);
    return SIMBA_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static int fail_param(const struct sb_section *section, const char *name, struct simba_error *error)
{
    const struct sb_config_entry *entry = section->url_entry;
    struct sb_near near = {"", 0};

    sb_config_offer_options(&near, section->ops, name);
    if (near.name[0] == '\0')
        return sb_config_fail(section->config, entry->value_place, error,
                              "%s: a URL that begins with '%s:' has no option '%.60s'", entry->key,
                              simba_url_scheme(section->url), name);
    return sb_config_fail(section->config, entry->value_place, error,
                          "%s: a URL that begins with '%s:' has no option '%.60s'; did you mean "
                          "'%s'?",
                          entry->key, simba_url_scheme(section->url), name, near.name);
}

/* A URL says yes and no in the store's own words, and no others. */
static int check_words(const struct sb_section *section, const struct sb_config_entry *entry,
                       const struct simba_backend_option *option, struct simba_error *error)
{
    if (option->type != SIMBA_OPTION_SWITCH || sb_url_find_word(option->words, entry->value) >= 0)
        return SIMBA_OK;
    return sb_config_fail(section->config, entry->value_place, error, "%s: this is none of: %s",
                          entry->key, option->words);
}

/* As if it were an entry "simba.redis.url?ttl" that stands where the url does. */
static int check_param(struct sb_section *section, const char *name, const char *value,
                       struct simba_error *error)
{
    const struct simba_backend_option *option = sb_config_find_option(section->ops, name);
    struct sb_config_entry entry = *section->url_entry;
    char copy[URL_MAX];
    struct sb_text key;
    int code;

    if (option == NULL)
        return fail_param(section, name, error);
    sb_text_init(&key, entry.key, sizeof entry.key);
    sb_text_add(&key, "%s?%s", section->url_entry->key, name);
    sb_text_copy(copy, sizeof copy, value);
    entry.value = copy;
    code = check_words(section, &entry, option, error);
    if (code == SIMBA_OK)
        code = sb_section_check_value(section, &entry, option, name, error);
    explicit_bzero(copy, sizeof copy);
    return code;
}

bool sb_section_is_below_folder(const struct sb_section *section)
{
    const char *rest = strchr(section->url_entry->value, ':') + 1;

    return section->ops->path_is_file && strncmp(rest, "//", 2) != 0 &&
           sb_url_is_relative_file(simba_url_path(section->url));
}

int sb_section_check_url(struct sb_section *section, struct simba_error *error)
{
    const simba_url *url = section->url;
    int code = SIMBA_OK;

    if (url == NULL || !section->enabled)
        return SIMBA_OK;
    if (sb_section_is_below_folder(section) && strncmp(simba_url_path(url), "~/", 2) == 0)
        return sb_config_fail_value(section->config, section->url_entry, error,
                                    "a shell knows '~', but not this file; write the path in full");
    for (size_t i = 0; i < sb_url_param_count(url) && code == SIMBA_OK; i++)
        code = check_param(section, sb_url_param_name(url, i), sb_url_param_value(url, i), error);
    return code;
}
