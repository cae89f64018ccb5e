/*
 * config_url.c - the urls of a configuration: what is wrong with them, which one is enabled, and the URL that
 * says the same as its section. No sentence quotes a url: a password may be in it.
 */
#include "api/config_section.h"

#include "api/scheme.h"
#include "backend/registry.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

#define URL_MAX 8192 /* bytes, more than a URL may have */

/* ---- Reading ------------------------------------------------------------------------------ */

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

/* ---- Parameters ---------------------------------------------------------------------------- */

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
    if (option->type != SIMBA_OPTION_SWITCH || sb_config_has_word(option->words, entry->value))
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

static bool is_below_folder(const struct sb_section *section)
{
    const char *rest = strchr(section->url_entry->value, ':') + 1;

    return section->ops->path_is_file && strncmp(rest, "//", 2) != 0 &&
           sb_config_is_relative(simba_url_path(section->url));
}

int sb_section_check_url(struct sb_section *section, struct simba_error *error)
{
    const simba_url *url = section->url;
    int code = SIMBA_OK;

    if (url == NULL || !section->enabled)
        return SIMBA_OK;
    if (is_below_folder(section) && strncmp(simba_url_path(url), "~/", 2) == 0)
        return sb_config_fail_value(section->config, section->url_entry, error,
                                    "a shell knows '~', but not this file; write the path in full");
    for (size_t i = 0; i < sb_url_param_count(url) && code == SIMBA_OK; i++)
        code = check_param(section, sb_url_param_name(url, i), sb_url_param_value(url, i), error);
    return code;
}

/* ---- The one that is enabled -------------------------------------------------------------- */

static int fail_none(const struct sb_config *config, struct simba_error *error)
{
    return sb_config_fail(config, (struct sb_config_place){1, 1}, error,
                          "no store is enabled: write simba.url, or simba.jdbc, simba.redis or "
                          "simba.zookeeper with a url");
}

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
        sb_config_fail_value(config, sections[0].enabled_entry, &disabled,
                             "this is false, so that no store is enabled");
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
        return fail_none(config, error);
    if (chosen->url == NULL)
        return fail_no_url(chosen, error);
    *ret_section = chosen;
    return SIMBA_OK;
}

/* ---- The URL ------------------------------------------------------------------------------ */

/* What stands before the '?'. */
static void add_place(struct sb_text *out, const struct sb_section *section)
{
    const char *text = section->url_entry->value;
    size_t scheme = strcspn(text, ":") + 1;
    size_t length = strcspn(text, "?");

    sb_text_add(out, "%.*s", (int)scheme, text);
    if (section->config->folder != NULL && is_below_folder(section)) {
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

/* Options make a URL longer, and can be too many. */
static int check_whole(const struct sb_text *out, const struct sb_section *section,
                       struct simba_error *error)
{
    simba_url *whole = NULL;
    struct simba_error why;
    int code = sb_url_parse(out->data, &whole, &why);

    sb_url_free(whole);
    return code == SIMBA_OK
               ? SIMBA_OK
               : sb_config_fail_value(section->config, section->url_entry, error, why.text);
}

static int compose(const struct sb_section *section, char **ret_url, struct simba_error *error)
{
    char *text = sb_alloc(URL_MAX);
    struct sb_text out;
    int code;

    if (text == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&out, text, URL_MAX);
    add_place(&out, section);
    add_options(&out, section);
    code = check_whole(&out, section, error);
    if (code == SIMBA_OK)
        *ret_url = text;
    else
        sb_config_free_url(text);
    return code;
}

int sb_config_to_url(const struct sb_config *config, struct sb_config_store *ret_store,
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
