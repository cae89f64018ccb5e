/*
 * config_store.c - finds the one section that is enabled, and writes the URL that says the same.
 */
#include "api/config_section.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

#define URL_MAX 8192 /* bytes, more than a URL may have */

/* ---- The one that is enabled ----------------------------------------------------------------- */

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

/* ---- The URL --------------------------------------------------------------------------------- */

/* What stands before the '?'. */
static void add_place(struct sb_text *out, const struct sb_section *section)
{
    const char *text = section->url_entry->value;
    size_t scheme = strcspn(text, ":") + 1;
    size_t length = strcspn(text, "?");

    sb_text_add(out, "%.*s", (int)scheme, text);
    if (section->config->folder != NULL && sb_section_is_below_folder(section)) {
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
