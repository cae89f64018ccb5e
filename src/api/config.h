/*
 * config.h - a configuration on its way from YAML to the URL that says the same.
 *
 *     text --config_yaml.c--> entries with dotted keys --config_section.c--> sections
 *     --config_store.c--> URL
 *
 * Each file calls only those before it: config_entry.c, config_option.c (the options that there
 * are), config_key.c (the sections and keys that there are), config_url.c (urls and values),
 * config_section.c, config_store.c; config_yaml.c; config.c (files, and the public functions).
 */
#ifndef SB_API_CONFIG_H
#define SB_API_CONFIG_H

#include "base/text.h"
#include "base/shared.h"

#include <simba/backend.h>

#define SB_CONFIG_KEY_MAX 128 /* bytes, with the NUL */

/* Lines and columns count from 1. */
struct sb_config_place {
    size_t line;
    size_t column;
};

struct sb_config_entry {
    char key[SB_CONFIG_KEY_MAX]; /* with dots and small letters: simba.redis.initial-delay */
    char *value;                 /* NULL: a map, or nothing at all */
    bool is_map;
    size_t parent; /* the number of the map that it stands in */
    struct sb_config_place key_place;
    struct sb_config_place value_place;
};

struct sb_config {
    const char *name;   /* the caller's */
    const char *folder; /* what paths are relative to, the caller's; NULL: they stay as they are */
    bool tries_secrets; /* whether passwords that it names must be there */
    struct sb_config_entry *entries;
    size_t count;
    size_t capacity;
};

/* Reads the entries in their order into a config that has a name and no entries. No key occurs
 * twice. On failure nothing is left behind. */
int sb_config_load(struct sb_config *config, const char *text, size_t size,
                   struct simba_error *error);

/* Appends a key as it is written: ".initial-delay" for initialDelay and initial_delay. False when
 * it is too long. */
bool sb_config_append_key(char path[SB_CONFIG_KEY_MAX], const char *key);

/* Frees the entries, and leaves no password in memory. */
void sb_config_clear(struct sb_config *config);

/* Writes "name:line:column: " and the sentence. Returns SIMBA_ECONFIG. */
int sb_config_fail(const struct sb_config *config, struct sb_config_place place,
                   struct simba_error *error, const char *format, ...) SIMBA_PRINTF(4, 5);

/* The same for the value of an entry, named by its key. */
int sb_config_fail_value(const struct sb_config *config, const struct sb_config_entry *entry,
                         struct simba_error *error, const char *sentence);

/* Writes "name:line:column: key" of the entry's value. */
void sb_config_write_origin(const struct sb_config *config, const struct sb_config_entry *entry,
                            char buffer[SIMBA_CONFIG_ORIGIN_MAX]);

/* ---- Options --------------------------------------------------------------------------------- */

/* The option of that name: one of every client, or of the backend. `ops` may be NULL. NULL: there
 * is none. */
const struct simba_backend_option *sb_config_find_option(const struct simba_backend_ops *ops,
                                                         const char *name);

/* Stands for an option of which nothing is known. */
extern const struct simba_backend_option sb_config_any_option;

/* Whether the value is the path of a file. */
bool sb_config_is_path(const struct simba_backend_option *option, const char *name);

/* Offers the names of all options of every client, and of the backend. `ops` may be NULL. */
void sb_config_offer_options(struct sb_near *near, const struct simba_backend_ops *ops,
                             const char *name);

/* Whether the entry's value is one that the option of that name takes. */
int sb_config_check_type(const struct sb_config *config, const struct sb_config_entry *entry,
                         const struct simba_backend_option *option, const char *name,
                         struct simba_error *error);

/* Appends "name=value" as a URL has it. */
void sb_config_add_option(struct sb_text *url, const struct sb_config *config,
                          const struct simba_backend_option *option, const char *name,
                          const char *value);

/* Reads true, yes, on and their opposites; false: it is none of them. */
bool sb_config_read_switch(const char *text, bool *ret_on);

/* ---- The whole ------------------------------------------------------------------------------- */

/* The one store that is enabled. */
struct sb_config_store {
    char *url;                            /* to be given to sb_config_free_url */
    bool holds_secret;                    /* a password stands in the configuration itself */
    char origin[SIMBA_CONFIG_ORIGIN_MAX]; /* where its url stands: "name:line:column: key" */
};

int sb_config_to_url(const struct sb_config *config, struct sb_config_store *ret_store,
                     struct simba_error *error);

/* Leaves no password in memory; takes NULL. */
void sb_config_free_url(char *url);

#endif
