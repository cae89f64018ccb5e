/*
 * config_section.c - reads the sections of a configuration, and finds what is wrong between their
 * options and their url.
 */
#include "api/config_section.h"

#include <string.h>

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
                                  "%s: '%s' in line %zu says the password already", entry->key,
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
                                    "this is a map; it has one value");
    if (entry->value == NULL)
        return sb_config_fail_value(section->config, entry, error, "the value is missing");
    if (url_says(section, name))
        return sb_config_fail_value(section->config, entry, error, "the url has this option, too");
    return check_passwords(section, entry, name, error);
}

static int check_option(struct sb_section *section, const struct sb_config_entry *entry,
                        const char *name, struct simba_error *error)
{
    const struct simba_backend_option *option = sb_section_find_option(section, name);
    int code;

    if (option == NULL)
        return sb_section_fail_unknown(section, entry, name, error);
    code = check_presence(section, entry, name, error);
    return code == SIMBA_OK ? sb_section_check_value(section, entry, option, name, error) : code;
}

static int check_options(struct sb_section *section, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < section->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &section->config->entries[i];
        const char *name = sb_section_option_name(section, entry);

        if (name != NULL)
            code = check_option(section, entry, name, error);
    }
    return code;
}

/* ---- Sections -------------------------------------------------------------------------------- */

static int read_enabled(struct sb_section *section, const struct sb_config_entry *entry,
                        struct simba_error *error)
{
    section->enabled_entry = entry;
    if (entry->value == NULL || !sb_config_read_switch(entry->value, &section->enabled))
        return sb_config_fail_value(section->config, entry, error,
                                    "this is neither true nor false");
    return SIMBA_OK;
}

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
        return sb_section_read_url(section, entry, error);
    return SIMBA_OK;
}

/* Before the url, which means more where the section is enabled. */
static int find_enabled(struct sb_section *section, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < section->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &section->config->entries[i];
        const char *name = sb_section_name(section, entry->key);

        if (name != NULL && strcmp(name, "enabled") == 0)
            code = read_enabled(section, entry, error);
    }
    return code;
}

static int read_section(struct sb_section *section, struct simba_error *error)
{
    int code = find_enabled(section, error);

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
        code = sb_section_check_url(section, error);
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
