/*
 * config_section.c - what the keys of a configuration mean. Owns the names of keys; must not know what a store
 * does with its options, only what it declares.
 *
 *     simba.enabled                   nothing is used where it is false
 *     simba.url, simba.OPTION         a store by its URL alone
 *     simba.SECTION.enabled           the sections of the JVM library: jdbc, redis, zookeeper
 *     simba.SECTION.url, .OPTION      OPTION: what a URL may have behind its '?', and user and password
 *     simba.NAME...                   the same for a store that the program has registered under this name
 *
 * No sentence quotes the value of a url or of a password.
 */
#include "api/config_section.h"

#include "backend/registry.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

#define ROOT "simba"
#define URL_MAX 8192 /* bytes, more than a URL may have */

static const struct sb_section_kind own_kinds[] = {
    {"", NULL, "sqlite:/var/lib/simba/simba.db", NULL},
    {"jdbc", "mysql postgres sqlite", "mysql://USER@HOST/DATABASE", NULL},
    {"redis", "redis", "redis://HOST:6379/0", NULL},
    {"zookeeper", "zookeeper", "zookeeper://HOST:2181", NULL},
};

#define OWN_KINDS (sizeof own_kinds / sizeof own_kinds[0])

static bool is_root(const struct sb_section *section)
{
    return section->kind == &section->all->kinds[0];
}

/* ---- Keys --------------------------------------------------------------------------------- */

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

static const char *after_root(const char *key)
{
    size_t length = strlen(ROOT);

    if (strncmp(key, ROOT, length) != 0)
        return NULL;
    return key[length] == '.' ? key + length + 1 : key[length] == '\0' ? key + length : NULL;
}

/* For what follows the root, as below. */
static const struct sb_section_kind *split_rest(const struct sb_sections *all, const char *rest,
                                                const char **ret_name)
{
    for (size_t i = 1; i < all->count; i++) {
        const char *name = all->kinds[i].name;
        size_t length = strlen(name);

        if (strncmp(rest, name, length) != 0)
            continue;
        if (rest[length] == '.' || rest[length] == '\0') {
            *ret_name = rest[length] == '.' ? rest + length + 1 : "";
            return &all->kinds[i];
        }
    }
    *ret_name = rest;
    return &all->kinds[0];
}

/* Which section a key belongs to, and the name within it, "" for the section itself. NULL: to none. */
static const struct sb_section_kind *split_key(const struct sb_sections *all, const char *key,
                                               const char **ret_name)
{
    const char *rest = after_root(key);

    return rest != NULL && key[strlen(key) - 1] != '.' ? split_rest(all, rest, ret_name) : NULL;
}

/* The name of a key within the section; NULL: the key is another's. */
static const char *name_within(const struct sb_section *section, const char *key)
{
    const char *name = NULL;

    return split_key(section->all, key, &name) == section->kind ? name : NULL;
}

const char *sb_section_key(const struct sb_section *section, char buffer[SB_CONFIG_KEY_MAX])
{
    struct sb_text text;

    sb_text_init(&text, buffer, SB_CONFIG_KEY_MAX);
    sb_text_add(&text, ROOT "%s%s", is_root(section) ? "" : ".", section->kind->name);
    return buffer;
}

static bool is_url_or_enabled(const char *name)
{
    return strcmp(name, "url") == 0 || strcmp(name, "enabled") == 0;
}

const char *sb_section_option_name(const struct sb_section *section,
                                   const struct sb_config_entry *entry)
{
    const char *name = name_within(section, entry->key);

    return name != NULL && name[0] != '\0' && !is_url_or_enabled(name) ? name : NULL;
}

/* ---- Keys that nobody knows ----------------------------------------------------------------- */

/* Calls with each store of the section, NULL for one that this build lacks, until the call says that it has
 * found something. */
static bool for_each_backend(const struct sb_section *section,
                             bool (*call)(const struct simba_backend_ops *ops, void *argument),
                             void *argument)
{
    const char *word = section->kind->backends;

    if (section->kind->ops != NULL)
        return call(section->kind->ops, argument);
    while (word != NULL) {
        char scheme[32];
        struct sb_text text;

        word += *word == ' ';
        sb_text_init(&text, scheme, sizeof scheme);
        sb_text_add(&text, "%.*s", (int)strcspn(word, " "), word);
        if (call(simba_backend_find(scheme), argument))
            return true;
        word = strchr(word, ' ');
    }
    return false;
}

struct offer {
    struct sb_near near;
    const char *name;
};

static bool offer_options(const struct simba_backend_ops *ops, void *argument)
{
    struct offer *offer = argument;

    sb_config_offer_options(&offer->near, ops, offer->name);
    return false;
}

/* "simba.redos.url": the section is what is misspelt. */
static void offer_sections(const struct sb_sections *all, struct offer *offer)
{
    for (size_t i = 1; i < all->count; i++)
        sb_near_offer_part(&offer->near, offer->name, strcspn(offer->name, "."),
                           all->kinds[i].name);
}

static int fail_unknown(const struct sb_section *section, const struct sb_config_entry *entry,
                        const char *name, struct simba_error *error)
{
    struct offer offer = {.name = name};
    char key[SB_CONFIG_KEY_MAX];

    sb_near_offer(&offer.near, name, "url");
    sb_near_offer(&offer.near, name, "enabled");
    offer_options(section->ops, &offer);
    if (section->ops == NULL)
        for_each_backend(section, offer_options, &offer);
    if (is_root(section))
        offer_sections(section->all, &offer);
    if (offer.near.name[0] == '\0' && is_root(section))
        return sb_config_fail(section->config, entry->key_place, error,
                              "unknown key '%s'; the store is named by simba.url, or by the url of "
                              "simba.jdbc (SQLite, PostgreSQL, MySQL), simba.redis or "
                              "simba.zookeeper",
                              entry->key);
    if (offer.near.name[0] == '\0')
        return sb_config_fail(section->config, entry->key_place, error, "unknown key '%s'",
                              entry->key);
    return sb_config_fail(section->config, entry->key_place, error,
                          "unknown key '%s'; did you mean '%s.%s'?", entry->key,
                          sb_section_key(section, key), offer.near.name);
}

/* "redis.url": what stands below the root was written beside it. */
static bool belongs_below_root(const struct sb_sections *all, const char *key)
{
    const char *name;

    return split_rest(all, key, &name) != &all->kinds[0] || is_url_or_enabled(key) ||
           sb_config_find_option(NULL, key) != NULL;
}

static int fail_foreign(const struct sb_section *section, const struct sb_config_entry *entry,
                        struct simba_error *error)
{
    const struct sb_config *config = section->config;
    size_t length = strcspn(entry->key, ".");
    struct sb_near near = {"", 0};

    if (belongs_below_root(section->all, entry->key))
        return sb_config_fail(config, entry->key_place, error,
                              "unknown key '%s'; did you mean '" ROOT ".%s'?", entry->key,
                              entry->key);
    sb_near_offer_part(&near, entry->key, length, ROOT);
    if (near.name[0] == '\0' || near.distance == 0)
        return sb_config_fail(config, entry->key_place, error, "unknown key '%s'", entry->key);
    return sb_config_fail(config, entry->key_place, error,
                          "unknown key '%s'; did you mean '" ROOT "%s'?", entry->key,
                          entry->key + length);
}

/* ---- Options ------------------------------------------------------------------------------ */

struct search {
    const struct simba_backend_option *found;
    const char *name;
};

/* Of a store that this build lacks nothing is known. */
static bool find_in_backend(const struct simba_backend_ops *ops, void *argument)
{
    struct search *search = argument;

    search->found = ops != NULL ? sb_config_find_option(ops, search->name) : &sb_config_any_option;
    return search->found != NULL;
}

/* Without a url it may be an option of any store of the section. The store of one that is not enabled need not be
 * here, so that nothing is known of it, either. */
static const struct simba_backend_option *find_option(const struct sb_section *section,
                                                      const char *name)
{
    struct search search = {sb_config_find_option(section->ops, name), name};

    if (search.found == NULL && !section->enabled && strchr(name, '.') == NULL)
        return &sb_config_any_option;
    if (search.found == NULL && section->ops == NULL)
        for_each_backend(section, find_in_backend, &search);
    return search.found;
}

/* In doubt it is one, whatever stands before the word. */
static bool is_secret(const char *name)
{
    const char *word = strstr(name, "password");

    return word != NULL && strcmp(word, "password") == 0;
}

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

/* The password that the entry names must be there, where that is wanted. */
static int try_secret(const struct sb_section *section, const struct sb_config_entry *entry,
                      const char *name, struct simba_error *error)
{
    const struct sb_config *config = section->config;
    bool is_below = config->folder != NULL && sb_url_is_password_file(name) &&
                    sb_config_is_relative(entry->value);
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

/* What does not depend on the value: that there is one, and only one. */
static int check_presence(const struct sb_section *section, const struct sb_config_entry *entry,
                          const char *name, struct simba_error *error)
{
    if (section->url == NULL && is_root(section))
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
    const struct simba_backend_option *option = find_option(section, name);
    int code;

    if (option == NULL)
        return fail_unknown(section, entry, name, error);
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

/* ---- Sections ----------------------------------------------------------------------------- */

bool sb_section_takes(const struct sb_section *section, const struct simba_backend_ops *ops)
{
    const char *backends = section->kind->backends;

    if (section->kind->ops != NULL)
        return ops == section->kind->ops;
    return ops != NULL && (backends == NULL || sb_config_has_word(backends, ops->name));
}

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
        if (is_root(section))
            return SIMBA_OK;
    }
    if (section->first == NULL && !(is_root(section) && strcmp(name, "enabled") == 0))
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
        const char *name = name_within(section, entry->key);

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
        const struct sb_section_kind *kind = split_key(section->all, entry->key, &name);

        if (kind == NULL)
            code = fail_foreign(section, entry, error);
        else if (kind == section->kind)
            code = take_entry(section, entry, name, error);
    }
    if (code == SIMBA_OK)
        code = sb_section_check_url(section, error);
    return code == SIMBA_OK ? check_options(section, error) : code;
}

/* ---- Kinds ---------------------------------------------------------------------------------- */

/* A name that the library gives another meaning has no section: `url` serves its store. */
static bool has_section(const struct sb_sections *all, const char *name)
{
    if (is_url_or_enabled(name) || sb_config_find_option(NULL, name) != NULL)
        return false;
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->kinds[i].name, name) == 0)
            return false;
    return true;
}

static void add_registered(struct sb_sections *all)
{
    const struct simba_backend_ops *ops[SB_SECTION_MAX];
    size_t count = sb_backend_registered(ops, SB_SECTION_MAX - all->count);

    for (size_t i = 0; i < count; i++) {
        struct sb_section_kind *kind = &all->kinds[all->count];

        *kind = (struct sb_section_kind){.ops = ops[i]};
        if (sb_config_append_key(kind->name, ops[i]->name) && has_section(all, kind->name))
            all->count++;
    }
}

int sb_sections_read(const struct sb_config *config, struct sb_sections *all,
                     struct simba_error *error)
{
    int code = SIMBA_OK;

    all->count = OWN_KINDS;
    memcpy(all->kinds, own_kinds, sizeof own_kinds);
    add_registered(all);
    for (size_t i = 0; i < all->count; i++)
        all->list[i] = (struct sb_section){
            .config = config, .all = all, .kind = &all->kinds[i], .enabled = true};
    for (size_t i = 0; i < all->count && code == SIMBA_OK; i++)
        code = read_section(&all->list[i], error);
    return code;
}
