/*
 * config_key.c - what the keys of a configuration mean. Owns the names of sections and keys; must
 * not know what a store does with its options, only what it declares.
 *
 *     simba.enabled                   nothing is used where it is false
 *     simba.url, simba.OPTION         a store by its URL alone
 *     simba.SECTION.enabled           the sections of the JVM library: jdbc, redis, zookeeper
 *     simba.SECTION.url, .OPTION      what a URL may have behind its '?', user, password
 *     simba.NAME...                   the same for a store that the program registered
 */
#include "api/config.h"

#include "backend/registry.h"
#include "base/check.h"
#include "base/url_options.h"

#include <string.h>

#define ROOT "simba"

static const struct sb_section_kind own_kinds[] = {
    {"", NULL, "sqlite:/var/lib/simba/simba.db", NULL},
    {"jdbc", "mysql postgres sqlite", "mysql://USER@HOST/DATABASE", NULL},
    {"redis", "redis", "redis://HOST:6379/0", NULL},
    {"etcd", "etcd", "etcd://HOST:2379", NULL},
    {"zookeeper", "zookeeper", "zookeeper://HOST:2181", NULL},
};

#define OWN_KINDS (sizeof own_kinds / sizeof own_kinds[0])

bool sb_section_is_root(const struct sb_section *section)
{
    return section->kind == &section->all->kinds[0];
}

/* ---- Keys ------------------------------------------------------------------------------------ */

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

const struct sb_section_kind *sb_section_split_key(const struct sb_sections *all, const char *key,
                                                   const char **ret_name)
{
    const char *rest = after_root(key);

    return rest != NULL && key[strlen(key) - 1] != '.' ? split_rest(all, rest, ret_name) : NULL;
}

const char *sb_section_name(const struct sb_section *section, const char *key)
{
    const char *name = NULL;

    return sb_section_split_key(section->all, key, &name) == section->kind ? name : NULL;
}

const char *sb_section_key(const struct sb_section *section, char buffer[SB_CONFIG_KEY_MAX])
{
    struct sb_text text;

    sb_text_init(&text, buffer, SB_CONFIG_KEY_MAX);
    sb_text_add(&text, ROOT "%s%s", sb_section_is_root(section) ? "" : ".", section->kind->name);
    return buffer;
}

static bool is_url_or_enabled(const char *name)
{
    return strcmp(name, "url") == 0 || strcmp(name, "enabled") == 0;
}

const char *sb_section_option_name(const struct sb_section *section,
                                   const struct sb_config_entry *entry)
{
    const char *name = sb_section_name(section, entry->key);

    return name != NULL && name[0] != '\0' && !is_url_or_enabled(name) ? name : NULL;
}

/* ---- The stores of a section ----------------------------------------------------------------- */

/* Calls with each store of the section, NULL for one that this build lacks, until the call says
 * that it has found something. */
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

bool sb_section_takes(const struct sb_section *section, const struct simba_backend_ops *ops)
{
    const char *backends = section->kind->backends;

    if (section->kind->ops != NULL)
        return ops == section->kind->ops;
    return ops != NULL && (backends == NULL || sb_url_find_word(backends, ops->name) >= 0);
}

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

/* Without a url it may be an option of any store of the section. The store of one that is not
 * enabled need not be here, so that nothing is known of it, either. */
const struct simba_backend_option *sb_section_find_option(const struct sb_section *section,
                                                          const char *name)
{
    struct search search = {sb_config_find_option(section->ops, name), name};

    if (search.found == NULL && !section->enabled && strchr(name, '.') == NULL)
        return &sb_config_any_option;
    if (search.found == NULL && section->ops == NULL)
        for_each_backend(section, find_in_backend, &search);
    return search.found;
}

/* ---- Unknown keys ---------------------------------------------------------------------------- */

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

int sb_section_fail_unknown(const struct sb_section *section, const struct sb_config_entry *entry,
                            const char *name, struct simba_error *error)
{
    struct offer offer = {.name = name};
    char key[SB_CONFIG_KEY_MAX];

    sb_near_offer(&offer.near, name, "url");
    sb_near_offer(&offer.near, name, "enabled");
    offer_options(section->ops, &offer);
    if (section->ops == NULL)
        for_each_backend(section, offer_options, &offer);
    for (size_t i = 1; sb_section_is_root(section) && i < section->all->count; i++)
        sb_near_offer_part(&offer.near, name, strcspn(name, "."), section->all->kinds[i].name);
    if (offer.near.name[0] == '\0' && sb_section_is_root(section))
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

int sb_section_fail_foreign(const struct sb_section *section, const struct sb_config_entry *entry,
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

/* ---- The sections that there are ------------------------------------------------------------- */

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

void sb_sections_init(struct sb_sections *all)
{
    const struct simba_backend_ops *ops[SB_SECTION_MAX];
    size_t count = sb_backend_registered(ops, SB_SECTION_MAX - OWN_KINDS);

    all->count = OWN_KINDS;
    memcpy(all->kinds, own_kinds, sizeof own_kinds);
    for (size_t i = 0; i < count; i++) {
        struct sb_section_kind *kind = &all->kinds[all->count];

        SB_CHECK(all->count < SB_SECTION_MAX, "there is room for a section of each backend");
        *kind = (struct sb_section_kind){.ops = ops[i]};
        if (sb_config_append_key(kind->name, ops[i]->name) && has_section(all, kind->name))
            all->count++;
    }
}
