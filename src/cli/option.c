/*
 * option.c - reads command lines from tables of options.
 *
 * getopt_long is not used: its tables carry no help texts, it prints in its own words, and it keeps
 * its place in globals while two sets of options (global ones and those of a verb) are mixed here.
 */
#include "cli/cli.h"

#include "base/check.h"
#include "base/text.h"

#include <simba/simba.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_WIDTH 32 /* of "    --restart-delay-max DURATION", the longest in a help */
#define HELP_INDENT (2 + NAMES_WIDTH + 1)
#define HELP_WIDTH 80 /* also of the texts in the verbs */

struct parser {
    const struct cli_option_set *sets;
    size_t sets_count;
    int argc;
    char **argv;
    int next; /* the argument that is read next */
};

struct found {
    const struct cli_option *option;
    const struct cli_option_set *set;
};

static bool name_matches(const struct cli_option *option, char letter, const char *name,
                         size_t length)
{
    if (letter != 0)
        return option->letter == letter;
    return strlen(option->name) == length && memcmp(option->name, name, length) == 0;
}

/* By letter, or where that is 0 by name. */
static struct found find(const struct parser *parser, char letter, const char *name, size_t length)
{
    for (size_t i = 0; i < parser->sets_count; i++) {
        const struct cli_option *option = parser->sets[i].options;
        for (; option != NULL && option->name != NULL; option++) {
            if (name_matches(option, letter, name, length))
                return (struct found){option, &parser->sets[i]};
        }
    }
    return (struct found){NULL, NULL};
}

/* The option of this place that is most like what was written. */
static struct sb_near find_near(const struct parser *parser, const char *name, size_t length)
{
    struct sb_near near = {.distance = 0};

    for (size_t i = 0; i < parser->sets_count; i++) {
        const struct cli_option *option = parser->sets[i].options;
        if (parser->sets[i].verb != NULL)
            continue;
        for (; option != NULL && option->name != NULL; option++)
            sb_near_offer_part(&near, name, length, option->name);
    }
    return near;
}

/* `dashes` and `length` bytes of `name` are what was written. */
static bool refuse(const struct parser *parser, struct found found, const char *dashes,
                   const char *name, size_t length)
{
    int shown = (int)length;
    struct sb_near near = {.distance = 0};

    if (found.option != NULL) {
        const char *value = found.option->value;
        cli_message("%s%.*s goes after the verb: simba %s %s%.*s%s%s", dashes, shown, name,
                    found.set->verb, dashes, shown, name, value != NULL ? " " : "",
                    value != NULL ? value : "");
        return false;
    }
    if (length > 1)
        near = find_near(parser, name, length);
    if (near.name[0] != 0)
        cli_message("unknown option '%s%.*s'; did you mean '--%s'?", dashes, shown, name,
                    near.name);
    else
        cli_message("unknown option '%s%.*s'", dashes, shown, name);
    return false;
}

static bool stands_here(struct found found)
{
    return found.option != NULL && found.set->verb == NULL;
}

/* `value` is NULL where the option takes none. */
static bool apply(struct found found, const char *value)
{
    const struct cli_option *option = found.option;
    char *member = (char *)found.set->into + option->offset;
    char name[32];

    snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case CLI_OPTION_FLAG:
        *(bool *)(void *)member = true;
        return true;
    case CLI_OPTION_TEXT:
        *(const char **)(void *)member = value;
        return true;
    case CLI_OPTION_DURATION:
        return cli_option_duration(name, value, option->low, (int64_t *)(void *)member);
    case CLI_OPTION_SECONDS:
        return cli_option_seconds(name, value, (int64_t *)(void *)member);
    case CLI_OPTION_NUMBER:
        return cli_option_number(name, value, option->low, option->high, (int *)(void *)member);
    case CLI_OPTION_WORD:
        return cli_option_word(name, option->name, value, option->words, (int *)(void *)member);
    case CLI_OPTION_CALL:
        break;
    }
    return option->apply(found.set->into, value);
}

/* `attached` is the value that stands in the same argument, NULL where there is none. */
static bool apply_with_value(struct parser *parser, struct found found, const char *attached)
{
    const char *value = attached;

    if (value == NULL) {
        if (parser->next >= parser->argc) {
            cli_message("--%s needs a value: %s", found.option->name, found.option->value);
            return false;
        }
        value = parser->argv[parser->next++];
    }
    return apply(found, value);
}

static bool parse_long(struct parser *parser, const char *argument)
{
    const char *name = argument + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    struct found found = find(parser, 0, name, length);

    if (!stands_here(found))
        return refuse(parser, found, "--", name, length);
    if (found.option->value != NULL)
        return apply_with_value(parser, found, equals != NULL ? equals + 1 : NULL);
    if (equals != NULL) {
        cli_message("--%s takes no value", found.option->name);
        return false;
    }
    return apply(found, NULL);
}

/* One letter or several: -n, -nq, -w5s, -qw 5s. */
static bool parse_letters(struct parser *parser, const char *argument)
{
    for (const char *letter = argument + 1; *letter != 0; letter++) {
        struct found found = find(parser, *letter, NULL, 0);
        if (!stands_here(found))
            return refuse(parser, found, "-", letter, 1);
        if (found.option->value != NULL)
            return apply_with_value(parser, found, letter[1] != 0 ? letter + 1 : NULL);
        if (!apply(found, NULL))
            return false;
    }
    return true;
}

bool cli_options_parse(const struct cli_option_set *sets, size_t sets_count, size_t operands_max,
                       int *argc, char **argv, size_t *ret_operands)
{
    struct parser parser = {sets, sets_count, *argc, argv, 1};
    const bool *all = sets_count > 0 ? sets[0].all_operands : NULL;
    int kept = 0;

    while (parser.next < parser.argc) {
        char *argument = argv[parser.next++];
        if (strcmp(argument, "--") == 0)
            break;
        if (argument[0] != '-' || argument[1] == 0) {
            argv[kept++] = argument;
            if ((size_t)kept > operands_max && (all == NULL || !*all))
                break;
            continue;
        }
        bool valid =
            argument[1] == '-' ? parse_long(&parser, argument) : parse_letters(&parser, argument);
        if (!valid)
            return false;
    }
    bool goes_on = all != NULL && *all;
    *ret_operands = goes_on || (size_t)kept <= operands_max ? (size_t)kept : operands_max;
    while (parser.next < parser.argc)
        argv[kept++] = argv[parser.next++];
    argv[kept] = NULL;
    *argc = kept;
    return true;
}

void cli_options_print(FILE *stream, const struct cli_option *options)
{
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        char letter[8] = "    ";
        char names[64];
        if (option->letter != 0)
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(names, sizeof names, "%s--%s%s%s", letter, option->name,
                 option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
        fprintf(stream, "  %-*s ", NAMES_WIDTH, names);
        cli_text_flow(stream, option->help, HELP_INDENT, HELP_INDENT, HELP_WIDTH);
    }
}

bool cli_option_duration(const char *source, const char *text, int low_ms, int64_t *ret_ms)
{
    struct simba_error error;
    int64_t ms = 0;

    if (simba_duration_parse(text, &ms, &error) != SIMBA_OK) {
        cli_message("%s: %s", source, error.text);
        return false;
    }
    if (ms < low_ms) {
        if (low_ms > 0)
            cli_message("%s must be longer than 0", source);
        else
            cli_message("%s: '%s' is negative", source, text);
        return false;
    }
    *ret_ms = ms;
    return true;
}

#define SECONDS_DIGITS_MAX 9

/* What is more exact than a millisecond is left out. */
bool cli_option_seconds(const char *source, const char *text, int64_t *ret_ms)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    bool has_fraction = text[whole] == '.';
    const char *fraction = text + whole + has_fraction;
    size_t places = has_fraction ? strspn(fraction, digits) : 0;
    const char *end = fraction + places;
    int64_t ms = 0;

    if (whole == 0 || whole > SECONDS_DIGITS_MAX || (has_fraction && places == 0) ||
        (strcmp(end, "s") != 0 && *end != 0))
        return cli_option_duration(source, text, 0, ret_ms);
    for (size_t i = 0; i < whole; i++)
        ms = ms * 10 + (text[i] - '0');
    for (size_t i = 0; i < 3; i++)
        ms = ms * 10 + (i < places ? fraction[i] - '0' : 0);
    *ret_ms = ms;
    return true;
}

bool cli_option_number(const char *source, const char *text, int low, int high, int *ret_number)
{
    char *end = NULL;

    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || number < low || number > high) {
        if (high == INT_MAX)
            cli_message("%s: '%s' is not a number from %d up", source, text, low);
        else
            cli_message("%s: '%s' is not a number from %d to %d", source, text, low, high);
        return false;
    }
    *ret_number = (int)number;
    return true;
}

bool cli_option_word(const char *source, const char *kind, const char *text,
                     const char *const *words, int *ret_index)
{
    char list[128] = "";
    size_t used = 0;

    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_index = i;
            return true;
        }
        const char *before = i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ";
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", before, words[i]);
        SB_CHECK(used < sizeof list, "the words of an option fit into a message");
    }
    cli_message("%s: '%s' is not a %s: write %s", source, text, kind, list);
    return false;
}
