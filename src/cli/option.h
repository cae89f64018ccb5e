/*
 * option.h - reads command lines from tables of options.
 *
 * Knows nothing of what an option means: each one says by a function what it does with its value.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cli_option {
    char letter;       /* 0: only the long form */
    const char *name;  /* without the dashes; NULL ends a table */
    const char *value; /* what the value is called in the help; NULL: takes none */
    const char *help;
    /* Stores the value (NULL where the option takes none). Returns whether it was valid; where not, it
     * has said why. */
    bool (*apply)(void *into, const char *value);
};

/* One table and what its options are applied to. */
struct cli_option_set {
    const struct cli_option *options; /* may be NULL */
    void *into;
    /* NULL; or the verb behind which they stand: here they are refused, in words that say so. */
    const char *verb;
};

/* Applies all options in argv[1..] and moves the operands together at argv[0..*argc). Options may
 * stand between operands as long as there are no more than `operands_max` of them; the next one, or
 * "--", begins the part that is left as it is, such as the command of `simba lock`. *ret_operands: how many
 * stood in front of that part. Returns false when something was wrong and has been said. `sets_count` tables
 * are searched in order. */
bool cli_options_parse(const struct cli_option_set *sets, size_t sets_count, size_t operands_max,
                       int *argc, char **argv, size_t *ret_operands);

/* Prints a table, aligned. */
void cli_options_print(FILE *stream, const struct cli_option *options);

/* Values of options. Each returns false when it is invalid, and has said so. */
bool cli_option_duration(const char *name, const char *text, int64_t *ret_ms);
bool cli_option_number(const char *name, const char *text, int low, int high, int *ret_number);

#endif
