/*
 * command.c - fuzzes command lines. The arguments of an input are separated by newlines; what the
 * parser says goes to a cli_message of our own.
 */
#include "fuzz.h"

#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 32

static int said;

void cli_message(const char *format, ...)
{
    (void)format;
    said++;
}

/* ---- A table as the verbs have them ---------------------------------------------------------- */

struct values {
    bool quiet;
    int64_t wait_ms;
    int code;
    const char *url;
};

static const struct cli_option verb_options[] = {
    {'q', "quiet", NULL, "", CLI_FLAG(struct values, quiet)},
    {'w', "wait", "DURATION", "", CLI_DURATION(struct values, wait_ms)},
    {'E', "code", "CODE", "", CLI_NUMBER(struct values, code, 0, 255)},
    CLI_OPTIONS_END,
};

static bool set_other(void *into, const char *value)
{
    (void)into;
    (void)value;
    fuzz_demand(false, "an option of another verb is not applied");
    return true;
}

static const struct cli_option other_options[] = {
    {'o', "other", NULL, "", CLI_CALL(set_other)},
    {'w', "wait", "DURATION", "", CLI_CALL(set_other)},
    CLI_OPTIONS_END,
};

static const struct cli_option global_options[] = {
    {'u', "url", "URL", "", CLI_TEXT(struct values, url)},
    CLI_OPTIONS_END,
};

/* ---- Target ---------------------------------------------------------------------------------- */

/* argv[0] is the verb. Returns argc; argv ends with a NULL. */
static int split(char *text, char *argv[ARGUMENTS_MAX + 2])
{
    int argc = 0;

    argv[argc++] = "verb";
    for (char *rest = text; rest != NULL && argc <= ARGUMENTS_MAX; argc++)
        argv[argc] = strsep(&rest, "\n");
    argv[argc] = NULL;
    return argc;
}

static bool is_one_of(const char *argument, char *const *arguments, int count)
{
    for (int i = 0; i < count; i++)
        if (arguments[i] == argument)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct values values = {false, 0, 0, NULL};
    const struct cli_option_set sets[] = {{.options = verb_options, .into = &values},
                                          {.options = other_options, .verb = "other"},
                                          {.options = global_options, .into = &values}};
    struct fuzz_bytes bytes = {data, size};
    size_t operands_max = fuzz_byte(&bytes) % 4;
    char *text = fuzz_text(bytes.data, bytes.size);
    char *given[ARGUMENTS_MAX + 2];
    char *argv[ARGUMENTS_MAX + 2];
    int count = split(text, given);
    int argc = count;
    size_t operands = 0;

    memcpy(argv, given, sizeof argv);
    said = 0;
    if (cli_options_parse(sets, 3, operands_max, &argc, argv, &operands)) {
        fuzz_demand(argc >= 0 && argc < count && argv[argc] == NULL, "operands end with a NULL");
        fuzz_demand(operands <= operands_max && operands <= (size_t)argc,
                    "the operands that are counted are there");
        for (int i = 0; i < argc; i++)
            fuzz_demand(is_one_of(argv[i], given, count), "operands are arguments");
        fuzz_demand(values.wait_ms >= 0 && values.code >= 0 && values.code <= 255,
                    "values are within their range");
    } else {
        fuzz_demand(said == 1, "a refusal says why, once");
    }
    free(text);
    return 0;
}
