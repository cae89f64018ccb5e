/*
 * config_section.c - reads the sections of a configuration: their urls, their options, and what is
 * wrong between the two. No sentence quotes a url or a password.
 */
#include "api/client.h"
#include "api/config.h"

#include "backend/registry.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url_options.h"

#include <string.h>

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
    char value[SB_CLIENT_URL_MAX];
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

static int check_value(struct sb_section *section, const struct sb_config_entry *entry,
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

/* ---- The url --------------------------------------------------------------------------------- */

/* "jdbc:mysql://..." is what the JVM's drivers take. */
static int fail_scheme(const struct sb_section *section, struct simba_error *error)
{
    const char *scheme = simba_url_scheme(section->url);
    struct simba_error why;

    if (strcmp(scheme, "jdbc") == 0)
        return sb_config_fail_value(section->config, section->url_entry, error,
                                    "leave out 'jdbc:', and write user and password as keys");
    if (section->ops == NULL) {
        sb_client_fail_scheme(scheme, &why);
        return sb_config_fail_value(section->config, section->url_entry, error, why.text);
    }
    return sb_config_fail(section->config, section->url_entry->value_place, error,
                          "%s: a URL that begins with '%.30s:' is not one of this section",
                          section->url_entry->key, scheme);
}

static int read_url(struct sb_section *section, const struct sb_config_entry *entry,
                    struct simba_error *error)
{
    char redacted[SB_CLIENT_URL_MAX];
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
    if (sb_url_has_password(section->url) ||
        strcmp(sb_url_redact(entry->value, redacted, sizeof redacted), entry->value) != 0)
        section->holds_secret = true;
    return SIMBA_OK;
}

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

/* As if it were an entry "simba.redis.url?ttl" that stands where the url does. A URL writes a
 * switch in the store's own words. */
static int check_param(struct sb_section *section, const char *name, const char *value,
                       struct simba_error *error)
{
    const struct simba_backend_option *option = sb_config_find_option(section->ops, name);
    struct sb_config_entry entry = *section->url_entry;
    char copy[SB_CLIENT_URL_MAX];
    struct sb_text key;
    int code;

    if (option == NULL)
        return fail_param(section, name, error);
    sb_text_init(&key, entry.key, sizeof entry.key);
    sb_text_add(&key, "%s?%s", section->url_entry->key, name);
    sb_text_copy(copy, sizeof copy, value);
    entry.value = copy;
    if (option->type == SIMBA_OPTION_SWITCH && sb_url_find_word(option->words, value) < 0)
        code = sb_config_fail(section->config, entry.value_place, error,
                              "%s: this must be one of: %s", entry.key, option->words);
    else
        code = check_value(section, &entry, option, name, error);
    explicit_bzero(copy, sizeof copy);
    return code;
}

bool sb_section_is_below_folder(const struct sb_section *section)
{
    const char *rest = strchr(section->url_entry->value, ':') + 1;

    return section->ops->path_is_file && strncmp(rest, "//", 2) != 0 &&
           sb_url_is_relative_file(simba_url_path(section->url));
}

static int check_url(struct sb_section *section, struct simba_error *error)
{
    const simba_url *url = section->url;
    int code = SIMBA_OK;

    if (url == NULL || !section->enabled)
        return SIMBA_OK;
    if (sb_section_is_below_folder(section) && strncmp(simba_url_path(url), "~/", 2) == 0)
        return sb_config_fail_value(section->config, section->url_entry, error,
                                    "the path begins with '~', which only a shell expands: write "
                                    "the full path");
    for (size_t i = 0; i < sb_url_param_count(url) && code == SIMBA_OK; i++)
        code = check_param(section, sb_url_param_name(url, i), sb_url_param_value(url, i), error);
    return code;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool is_same_password(const char *name, const char *other)
{
    size_t stem = sb_url_password_stem(name);

    return stem > 0 && sb_url_password_stem(other) == stem && strncmp(name, other, stem) == 0;
}

/* Whether the URL says what the option says. */
static bool url_says(const struct sb_section *section, const char *name)
{
    const simba_url *url = section->url;

    if (url == NULL)
        return false;
    for (size_t i = 0; i < sb_url_param_count(url); i++)
        if (strcmp(sb_url_param_name(url, i), name) == 0 ||
            is_same_password(name, sb_url_param_name(url, i)))
            return true;
    return (strcmp(name, "user") == 0 && simba_url_user(url) != NULL) ||
           (is_same_password(name, "password") && simba_url_password(url) != NULL);
}

/* A password that an earlier key has given or named, too. */
static int check_passwords(const struct sb_section *section, const struct sb_config_entry *entry,
                           const char *name, struct simba_error *error)
{
    const struct sb_config_entry *other = section->config->entries;

    for (; other < entry; other++) {
        const char *other_name = sb_section_option_name(section, other);

        if (other_name != NULL && is_same_password(name, other_name))
            return sb_config_fail(section->config, entry->key_place, error,
                                  "%s: '%s' in line %zu gives the password already", entry->key,
                                  other->key, other->key_place.line);
    }
    return SIMBA_OK;
}

/* What does not depend on the value: that there is one, and only one. */
static int check_presence(const struct sb_section *section, const struct sb_config_entry *entry,
                          const char *name, struct simba_error *error)
{
    if (section->url == NULL && sb_section_is_root(section))
        return sb_config_fail(section->config, entry->key_place, error,
                              "'%s' is an option of a store: write it beside the store's url",
                              entry->key);
    if (entry->is_map)
        return sb_config_fail_value(section->config, entry, error,
                                    "this must be one value, not a map");
    if (entry->value == NULL)
        return sb_config_fail_value(section->config, entry, error, "the value is missing");
    if (url_says(section, name))
        return sb_config_fail_value(section->config, entry, error,
                                    "the url has this option already: remove one of the two");
    return check_passwords(section, entry, name, error);
}

static int check_options(struct sb_section *section, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < section->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &section->config->entries[i];
        const char *name = sb_section_option_name(section, entry);
        const struct simba_backend_option *option;

        if (name == NULL)
            continue;
        option = sb_section_find_option(section, name);
        if (option == NULL)
            return sb_section_fail_unknown(section, entry, name, error);
        code = check_presence(section, entry, name, error);
        if (code == SIMBA_OK)
            code = check_value(section, entry, option, name, error);
    }
    return code;
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* What counts as the store of the root is its url: simba.enabled is about all of them. */
static int take_entry(struct sb_section *section, const struct sb_config_entry *entry,
                      const char *name, struct simba_error *error)
{
    if (name[0] == '\0') {
        if (entry->value != NULL)
            return sb_config_fail_value(section->config, entry, error, "this must be a map");
        if (sb_section_is_root(section))
            return SIMBA_OK;
    }
    if (section->first == NULL && !(sb_section_is_root(section) && strcmp(name, "enabled") == 0))
        section->first = entry;
    if (strcmp(name, "url") == 0)
        return read_url(section, entry, error);
    return SIMBA_OK;
}

/* Before the url, which means more where the section is enabled. */
static int read_enabled(struct sb_section *section, struct simba_error *error)
{
    for (size_t i = 0; i < section->config->count; i++) {
        const struct sb_config_entry *entry = &section->config->entries[i];
        const char *name = sb_section_name(section, entry->key);

        if (name == NULL || strcmp(name, "enabled") != 0)
            continue;
        section->enabled_entry = entry;
        if (entry->value == NULL || !sb_config_read_switch(entry->value, &section->enabled))
            return sb_config_fail_value(section->config, entry, error,
                                        "this must be true or false");
    }
    return SIMBA_OK;
}

static int read_section(struct sb_section *section, struct simba_error *error)
{
    int code = read_enabled(section, error);

    for (size_t i = 0; i < section->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &section->config->entries[i];
        const char *name;
        const struct sb_section_kind *kind = sb_section_split_key(section->all, entry->key, &name);

        if (kind == NULL)
            code = sb_section_fail_foreign(section, entry, error);
        else if (kind == section->kind)
            code = take_entry(section, entry, name, error);
    }
    if (code == SIMBA_OK)
        code = check_url(section, error);
    return code == SIMBA_OK ? check_options(section, error) : code;
}

int sb_sections_read(const struct sb_config *config, struct sb_sections *all,
                     struct simba_error *error)
{
    int code = SIMBA_OK;

    sb_sections_init(all);
    for (size_t i = 0; i < all->count; i++)
        all->list[i] = (struct sb_section){
            .config = config, .all = all, .kind = &all->kinds[i], .enabled = true};
    for (size_t i = 0; i < all->count && code == SIMBA_OK; i++)
        code = read_section(&all->list[i], error);
    return code;
}
