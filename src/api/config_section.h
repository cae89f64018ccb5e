/*
 * config_section.h - the sections of a configuration: the root, those that are named after the JVM
 * library's, and one for each store that the program has registered, with its name.
 *
 * Each part calls only those before it.
 */
#ifndef SB_API_CONFIG_SECTION_H
#define SB_API_CONFIG_SECTION_H

#include "api/config.h"
#include "base/url.h"

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

/* ---- config_url.c ---------------------------------------------------------------------------- */

/* Checks the value of an option, which may stand in the url, and remembers whether it is a
 * password. */
int sb_section_check_value(struct sb_section *section, const struct sb_config_entry *entry,
                           const struct simba_backend_option *option, const char *name,
                           struct simba_error *error);

/* Takes the section's url apart, and finds its backend where the section is enabled. */
int sb_section_read_url(struct sb_section *section, const struct sb_config_entry *entry,
                        struct simba_error *error);

/* Checks what stands behind the url's '?', when all of the section is known. */
int sb_section_check_url(struct sb_section *section, struct simba_error *error);

/* Whether the url names a file by a path that is relative to the folder of the configuration. */
bool sb_section_is_below_folder(const struct sb_section *section);

/* ---- config_section.c ------------------------------------------------------------------------ */

/* Reads all of them, and checks them. Those that were read have urls to be freed on failure,
 * too. */
int sb_sections_read(const struct sb_config *config, struct sb_sections *ret_sections,
                     struct simba_error *error);

#endif
