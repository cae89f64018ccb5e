/*
 * config.h - a configuration on its way from YAML to the URL that says the same.
 *
 *     text --config_yaml.c--> entries with dotted keys --config_section.c--> sections
 *     --config.c--> URL
 *
 * Each file calls only those before it: config_option.c (entries, and the options that there are),
 * config_yaml.c, config_key.c (the sections and keys that there are), config_section.c, config.c.
 */
#ifndef SB_API_CONFIG_H
#define SB_API_CONFIG_H

#include "base/text.h"
#include "base/url.h"

#include <simba/backend.h>

#define SB_CONFIG_KEY_MAX 128 /* bytes, with the NUL */

/* ---- Entries: config_option.c, config_yaml.c ------------------------------------------------- */

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

/* ---- Options: config_option.c ---------------------------------------------------------------- */

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

/* ---- Sections: the root, those of the JVM library, and one for each registered store --------- */

#define SB_SECTION_MAX (SIMBA_BACKENDS_MAX + 4)

/* What a section may be. */
struct sb_section_kind {
    char name[SB_CONFIG_KEY_MAX]; /* as a key has it; "": the root */
    const char *backends; /* of the library whose URLs it takes, with spaces between; NULL: all */
    const char *example;  /* a URL that it takes; NULL: not known */
    const struct simba_backend_ops *ops; /* the registered store that it is for; NULL: none */
};

struct sb_sections;

/* One section as the configuration has it. */
struct sb_section {
    const struct sb_config *config;
    const struct sb_sections *all; /* that it is one of */
    const struct sb_section_kind *kind;
    const struct sb_config_entry *first; /* NULL: it is not there */
    const struct sb_config_entry *url_entry;
    const struct sb_config_entry *enabled_entry;
    simba_url *url;                      /* NULL: none; the reader of the sections frees it */
    const struct simba_backend_ops *ops; /* NULL: none, or not looked for */
    bool enabled;
    bool holds_secret; /* one of its values is a password */
};

/* All of them. The first is the root itself. */
struct sb_sections {
    size_t count;
    struct sb_section_kind kinds[SB_SECTION_MAX];
    struct sb_section list[SB_SECTION_MAX];
};

/* ---- config_key.c ---------------------------------------------------------------------------- */

/* Sets the kinds that there are, and their number. */
void sb_sections_init(struct sb_sections *ret_sections);

bool sb_section_is_root(const struct sb_section *section);

/* "simba" or "simba.redis". Returns `buffer`. */
const char *sb_section_key(const struct sb_section *section, char buffer[SB_CONFIG_KEY_MAX]);

/* Which section a key belongs to, and the name within it, "" for the section itself. NULL: to
 * none. */
const struct sb_section_kind *sb_section_split_key(const struct sb_sections *all, const char *key,
                                                   const char **ret_name);

/* The name of a key within the section; NULL: the key is another's. */
const char *sb_section_name(const struct sb_section *section, const char *key);

/* The name of the option that the entry has in this section; NULL: it is not one of its options. */
const char *sb_section_option_name(const struct sb_section *section,
                                   const struct sb_config_entry *entry);

/* Whether the section takes URLs of that backend; NULL is none. */
bool sb_section_takes(const struct sb_section *section, const struct simba_backend_ops *ops);

/* The option of that name in the section; NULL: there is none. */
const struct simba_backend_option *sb_section_find_option(const struct sb_section *section,
                                                          const char *name);

/* Say what is wrong with a key that is no option of the section, and with one that belongs to no
 * section. */
int sb_section_fail_unknown(const struct sb_section *section, const struct sb_config_entry *entry,
                            const char *name, struct simba_error *error);
int sb_section_fail_foreign(const struct sb_section *section, const struct sb_config_entry *entry,
                            struct simba_error *error);

/* ---- config_section.c ------------------------------------------------------------------------ */

/* Whether the url names a file by a path that is relative to the folder of the configuration. */
bool sb_section_is_below_folder(const struct sb_section *section);

/* Reads all of them, and checks them. Those that were read have urls to be freed on failure,
 * too. */
int sb_sections_read(const struct sb_config *config, struct sb_sections *ret_sections,
                     struct simba_error *error);

#endif
