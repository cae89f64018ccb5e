/*
 * config_url.c - what the keys of a configuration mean: which store is enabled, and the URL that says the
 * same. Owns the names of keys; must not know what a store does with its options, only what it declares.
 *
 *     simba.enabled                   nothing is used where it is false
 *     simba.url, simba.OPTION         a store by its URL alone
 *     simba.SECTION.enabled           the sections of the JVM library: jdbc, redis, zookeeper
 *     simba.SECTION.url, .OPTION      OPTION: what a URL may have behind its '?', and user and password
 *
 * No sentence quotes the value of a url or of a password.
 */
#include "api/config.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url.h"

#include <string.h>

#define ROOT "simba"
#define URL_MAX 8192 /* bytes, more than a URL may have */

struct section {
    const char *name;     /* "" is the root itself */
    const char *backends; /* whose URLs it takes, with spaces between; NULL: all */
    const char *example;
};

static const struct section sections[] = {
    {"", NULL, "sqlite:/var/lib/simba/simba.db"},
    {"jdbc", "mysql postgres sqlite", "mysql://USER@HOST/DATABASE"},
    {"redis", "redis", "redis://HOST:6379/0"},
    {"zookeeper", "zookeeper", "zookeeper://HOST:2181"},
};

#define SECTION_COUNT (sizeof sections / sizeof sections[0])

/* One section as the configuration has it. */
struct store {
    const struct sb_config *config;
    const struct section *section;
    const struct sb_config_entry *first; /* NULL: it is not there */
    const struct sb_config_entry *url_entry;
    simba_url *url;
    const struct simba_backend_ops *ops;
    bool enabled;
    enum sb_config_secret secret;
};

/* ---- Keys --------------------------------------------------------------------------------- */

static const char *after_root(const char *key)
{
    size_t length = strlen(ROOT);

    if (strncmp(key, ROOT, length) != 0)
        return NULL;
    return key[length] == '.' ? key + length + 1 : key[length] == '\0' ? key + length : NULL;
}

/* Which section a key belongs to, and the name within it, "" for the section itself. NULL: to none. */
static const struct section *split_key(const char *key, const char **ret_name)
{
    const char *rest = after_root(key);

    if (rest == NULL || key[strlen(key) - 1] == '.')
        return NULL;
    for (size_t i = 1; i < SECTION_COUNT; i++) {
        size_t length = strlen(sections[i].name);

        if (strncmp(rest, sections[i].name, length) != 0)
            continue;
        if (rest[length] == '.' || rest[length] == '\0') {
            *ret_name = rest[length] == '.' ? rest + length + 1 : "";
            return &sections[i];
        }
    }
    *ret_name = rest;
    return &sections[0];
}

/* "simba" or "simba.redis" */
static const char *section_key(const struct section *section, char buffer[SB_CONFIG_KEY_MAX])
{
    struct sb_text text;

    sb_text_init(&text, buffer, SB_CONFIG_KEY_MAX);
    sb_text_add(&text, ROOT "%s%s", section->name[0] != '\0' ? "." : "", section->name);
    return buffer;
}

static int fail_unknown(const struct sb_config *config, const struct sb_config_entry *entry,
                        struct simba_error *error)
{
    return sb_config_fail(config, entry->key_place, error, "unknown key '%s'", entry->key);
}

/* ---- Options ------------------------------------------------------------------------------ */

static bool is_url_or_enabled(const char *name)
{
    return strcmp(name, "url") == 0 || strcmp(name, "enabled") == 0;
}

/* Without a url it may be an option of any store of the section, also of one that this build lacks. */
static const struct simba_backend_option *find_in_section(const struct section *section,
                                                          const char *name)
{
    const struct simba_backend_option *found = NULL;
    const char *word = section->backends;

    while (word != NULL && found == NULL) {
        const struct simba_backend_ops *ops;
        char scheme[32];
        struct sb_text text;

        word += *word == ' ';
        sb_text_init(&text, scheme, sizeof scheme);
        sb_text_add(&text, "%.*s", (int)strcspn(word, " "), word);
        ops = simba_backend_find(scheme);
        found = ops != NULL ? sb_config_find_option(ops, name) : &sb_config_any_option;
        word = strchr(word, ' ');
    }
    return found;
}

static bool is_root(const struct store *store)
{
    return store->section == &sections[0];
}

static void note_secret(struct store *store, enum sb_config_secret secret)
{
    if (secret > store->secret)
        store->secret = secret;
}

static enum sb_config_secret secret_of_option(const char *name)
{
    if (sb_config_is_password(name))
        return SB_CONFIG_SECRET_HELD;
    return strstr(name, "password") != NULL ? SB_CONFIG_SECRET_NAMED : SB_CONFIG_SECRET_NONE;
}

static int check_option(struct store *store, const struct sb_config_entry *entry, const char *name,
                        struct simba_error *error)
{
    const struct simba_backend_option *option = sb_config_find_option(store->ops, name);

    if (option == NULL && store->ops == NULL)
        option = find_in_section(store->section, name);
    if (option == NULL)
        return fail_unknown(store->config, entry, error);
    if (store->ops == NULL && is_root(store))
        return sb_config_fail(store->config, entry->key_place, error,
                              "'%s' is an option of a store: write it beside the store's url",
                              entry->key);
    if (entry->is_map)
        return sb_config_fail_value(store->config, entry, error, "this is a map; it has one value");
    if (entry->value == NULL)
        return sb_config_fail_value(store->config, entry, error, "the value is missing");
    if (store->url != NULL && simba_url_param(store->url, name) != NULL)
        return sb_config_fail_value(store->config, entry, error, "the url has this option, too");
    note_secret(store, secret_of_option(name));
    return sb_config_check_type(store->config, entry, option, error);
}

/* Calls check_option for each option of the section. */
static int check_options(struct store *store, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < store->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &store->config->entries[i];
        const char *name;

        if (split_key(entry->key, &name) == store->section && name[0] != '\0' &&
            !is_url_or_enabled(name))
            code = check_option(store, entry, name, error);
    }
    return code;
}

/* ---- Sections ----------------------------------------------------------------------------- */

static int read_enabled(struct store *store, const struct sb_config_entry *entry,
                        struct simba_error *error)
{
    if (entry->value == NULL || !sb_config_read_switch(entry->value, &store->enabled))
        return sb_config_fail_value(store->config, entry, error, "this is neither true nor false");
    return SIMBA_OK;
}

/* "jdbc:mysql://..." is what the JVM's drivers take. */
static int fail_scheme(const struct store *store, struct simba_error *error)
{
    const char *scheme = simba_url_scheme(store->url);

    if (strcmp(scheme, "jdbc") == 0)
        return sb_config_fail_value(store->config, store->url_entry, error,
                                    "leave out 'jdbc:', and write user and password as keys");
    if (store->ops == NULL)
        return sb_config_fail(store->config, store->url_entry->value_place, error,
                              "%s: no store is known for URLs that begin with '%.30s:'",
                              store->url_entry->key, scheme);
    return sb_config_fail(store->config, store->url_entry->value_place, error,
                          "%s: a URL that begins with '%.30s:' is not one of this section",
                          store->url_entry->key, scheme);
}

static enum sb_config_secret secret_of_url(const char *url)
{
    char redacted[URL_MAX];

    if (strcmp(sb_url_redact(url, redacted, sizeof redacted), url) != 0)
        return SB_CONFIG_SECRET_HELD;
    return strstr(url, "password") != NULL ? SB_CONFIG_SECRET_NAMED : SB_CONFIG_SECRET_NONE;
}

static int read_url(struct store *store, const struct sb_config_entry *entry,
                    struct simba_error *error)
{
    const char *backends = store->section->backends;
    struct simba_error why;
    int code;

    store->url_entry = entry;
    if (entry->value == NULL)
        return sb_config_fail_value(store->config, entry, error, "the value is missing");
    code = sb_url_parse(entry->value, &store->url, &why);
    if (code == SIMBA_ENOMEM)
        return sb_error_plain(error, code);
    if (code != SIMBA_OK)
        return sb_config_fail_value(store->config, entry, error, why.text);
    store->ops = simba_backend_find(simba_url_scheme(store->url));
    if (store->ops == NULL || (backends != NULL && !sb_config_has_word(backends, store->ops->name)))
        return fail_scheme(store, error);
    note_secret(store, secret_of_url(entry->value));
    return SIMBA_OK;
}

/* What counts as the store of the root is its url: simba.enabled is about all of them. */
static int take_entry(struct store *store, const struct sb_config_entry *entry, const char *name,
                      struct simba_error *error)
{
    if (name[0] == '\0') {
        if (entry->value != NULL)
            return sb_config_fail_value(store->config, entry, error, "this must be a map");
        if (is_root(store))
            return SIMBA_OK;
    }
    if (store->first == NULL && !(is_root(store) && strcmp(name, "enabled") == 0))
        store->first = entry;
    if (strcmp(name, "enabled") == 0)
        return read_enabled(store, entry, error);
    if (strcmp(name, "url") == 0)
        return read_url(store, entry, error);
    return SIMBA_OK;
}

static int read_store(struct store *store, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < store->config->count && code == SIMBA_OK; i++) {
        const struct sb_config_entry *entry = &store->config->entries[i];
        const char *name;
        const struct section *section = split_key(entry->key, &name);

        if (section == NULL)
            code = fail_unknown(store->config, entry, error);
        else if (section == store->section)
            code = take_entry(store, entry, name, error);
    }
    return code == SIMBA_OK ? check_options(store, error) : code;
}

static int read_stores(const struct sb_config *config, struct store stores[SECTION_COUNT],
                       struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < SECTION_COUNT; i++)
        stores[i] = (struct store){.config = config, .section = &sections[i], .enabled = true};
    for (size_t i = 0; i < SECTION_COUNT && code == SIMBA_OK; i++)
        code = read_store(&stores[i], error);
    return code;
}

/* ---- The one that is enabled -------------------------------------------------------------- */

static int fail_none(const struct sb_config *config, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECONFIG,
                        "%.80s enables no store: give it simba.url, or simba.jdbc, simba.redis or "
                        "simba.zookeeper with a url",
                        config->name);
}

static int fail_two(const struct store *first, const struct store *second,
                    struct simba_error *error)
{
    char first_key[SB_CONFIG_KEY_MAX];
    char second_key[SB_CONFIG_KEY_MAX];

    section_key(first->section, first_key);
    return sb_config_fail(second->config, second->first->key_place, error,
                          "two stores are enabled, %s%s and %s: set enabled to false in one",
                          first_key, first->section->name[0] == '\0' ? ".url" : "",
                          section_key(second->section, second_key));
}

static int choose(const struct sb_config *config, struct store stores[SECTION_COUNT],
                  struct store **ret_store, struct simba_error *error)
{
    struct store *chosen = NULL;
    char key[SB_CONFIG_KEY_MAX];

    if (!stores[0].enabled)
        return sb_error_set(error, SIMBA_ECONFIG, "%.80s says that simba.enabled is false",
                            config->name);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if (stores[i].first == NULL || !stores[i].enabled)
            continue;
        if (chosen != NULL)
            return fail_two(chosen, &stores[i], error);
        chosen = &stores[i];
    }
    if (chosen == NULL)
        return fail_none(config, error);
    if (chosen->url == NULL)
        return sb_config_fail(config, chosen->first->key_place, error,
                              "%s has no url; write one such as %s",
                              section_key(chosen->section, key), chosen->section->example);
    *ret_store = chosen;
    return SIMBA_OK;
}

/* ---- The URL ------------------------------------------------------------------------------ */

static void add_options(struct sb_text *out, const struct store *store)
{
    char delimiter = strchr(store->url_entry->value, '?') == NULL ? '?' : '&';

    for (size_t i = 0; i < store->config->count; i++) {
        const struct sb_config_entry *entry = &store->config->entries[i];
        const char *name;

        if (split_key(entry->key, &name) != store->section || name[0] == '\0' ||
            is_url_or_enabled(name))
            continue;
        if (out->data[out->length - 1] != '?')
            sb_text_add(out, "%c", delimiter);
        delimiter = '&';
        sb_text_add(out, "%s=", name);
        sb_config_add_value(out, sb_config_find_option(store->ops, name), entry->value);
    }
}

/* As long as it can be when every byte of every value is escaped. */
static size_t longest_url(const struct sb_config *config)
{
    size_t size = 16;

    for (size_t i = 0; i < config->count; i++)
        if (config->entries[i].value != NULL)
            size += 3 * strlen(config->entries[i].value) + SB_CONFIG_KEY_MAX + 2;
    return size;
}

static int compose(const struct store *store, char **ret_url, struct simba_error *error)
{
    size_t size = longest_url(store->config);
    char *text = sb_alloc(size);
    simba_url *checked = NULL;
    struct simba_error why;
    struct sb_text out;
    int code;

    if (text == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_text_init(&out, text, size);
    sb_text_add(&out, "%s", store->url_entry->value);
    add_options(&out, store);
    code = sb_url_parse(text, &checked, &why);
    sb_url_free(checked);
    if (code == SIMBA_OK) {
        *ret_url = text;
        return SIMBA_OK;
    }
    explicit_bzero(text, size);
    sb_free(text);
    return sb_config_fail_value(store->config, store->url_entry, error, why.text);
}

int sb_config_to_url(const struct sb_config *config, char **ret_url,
                     enum sb_config_secret *ret_secret, struct simba_error *error)
{
    struct store stores[SECTION_COUNT];
    struct store *chosen = NULL;
    enum sb_config_secret secret = SB_CONFIG_SECRET_NONE;
    int code = read_stores(config, stores, error);

    if (code == SIMBA_OK)
        code = choose(config, stores, &chosen, error);
    if (code == SIMBA_OK)
        code = compose(chosen, ret_url, error);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        secret = stores[i].secret > secret ? stores[i].secret : secret;
        sb_url_free(stores[i].url);
    }
    if (code == SIMBA_OK)
        *ret_secret = secret;
    return code;
}
