/*
 * url_options.h - the options of a URL, declared in a table and read by it.
 *
 * A row names an option and the member of a struct that it fills; what configuration files know of
 * an option is the first part of its row. So an option is declared once.
 *
 *     type               member
 *     TEXT               char *; where the name ends in "password": struct sb_secret
 *     PATH               char *
 *     DURATION, NUMBER   int64_t, in ms
 *     RANGE              int64_t, followed by another one
 *     CHOICE             int or enum: which of the words, from 0
 *     SWITCH             bool: the first of the two words
 */
#ifndef SB_BASE_URL_OPTIONS_H
#define SB_BASE_URL_OPTIONS_H

#include "base/shared.h"

#include <simba/backend.h>

#include <limits.h>

struct sb_url_option {
    struct simba_backend_option declared; /* first: a backend's `options` are such rows */
    size_t offset;                        /* of the member */
    int64_t otherwise;                    /* where the URL has none; not of texts and ranges */
    int64_t least;                        /* of a DURATION or NUMBER */
    int64_t most;                         /* 0: any */
    unsigned when;                        /* read only under one of these conditions; 0: always */
};

/* SB_URL_OPTION(DURATION, "ttl", words, offset, otherwise, least, most, when) is a row. */
#define SB_URL_OPTION(type, name, words, ...)                                                      \
    {                                                                                              \
        {name, SIMBA_OPTION_##type, words}, __VA_ARGS__                                            \
    }
#define SB_URL_OPTIONS_END SB_URL_OPTION(TEXT, NULL, NULL, 0, 0, 0, 0, 0)

/* The table of a backend, for struct simba_backend_ops. */
#define SB_URL_OPTIONS_OF(table)                                                                   \
    .options = &(table)[0].declared, .option_size = sizeof(struct sb_url_option)

/* Fills the members of `target`, whose strings are NULL before. Rows whose conditions are not among
 * `conditions` are passed over, so that simba_url_check_params refuses their options. After a
 * failure, too, the caller clears the target. */
int sb_url_options_fill(const struct sb_url_option *table, unsigned conditions, simba_url *url,
                        void *target, struct simba_error *error) SB_SHARED("url_options_fill");

/* Frees the strings and passwords of a target. */
void sb_url_options_clear(const struct sb_url_option *table, void *target)
    SB_SHARED("url_options_clear");

/* Reads digits, and nothing else, as a number. */
bool sb_url_read_number(const char *text, int64_t *ret_number) SB_SHARED("url_read_number");

/* Reads "-200ms..1s". */
bool sb_url_read_range(const char *text, int64_t ret_ms[2]);

/* Which of the words, with a space between them, this one is; -1: none. */
int sb_url_find_word(const char *words, const char *word);

/* An option that a backend declares; NULL behind the last one. */
const struct simba_backend_option *sb_url_declared_option(const struct simba_backend_ops *ops,
                                                          size_t index);

/* ---- Relative paths -------------------------------------------------------------------------- */

/* Whether the value of an option names a file, and by a path that does not begin at the root. */
bool sb_url_is_relative_file(const char *path);

/* The working folder of the process; "" if it is gone. Returns `buffer`. */
const char *sb_url_working_folder(char buffer[PATH_MAX]);

/* Puts the folder in front of each relative path of a file: the URL's own, options of that type,
 * and files of passwords. Fails if there is one and the folder is "". The opener of a store calls
 * this: the process may be in another folder when it reads the file. */
int sb_url_make_absolute(simba_url *url, const struct simba_backend_ops *ops, const char *folder,
                         struct simba_error *error);

#endif
