/*
 * tck_verb.c - the command line of `simba tck`.
 */
#include "cli/instrument.h"

#include <string.h>

/* A bare number is seconds, as the option's name promises. */
static bool set_seconds(void *into, const char *value)
{
    struct cli_tck *tck = into;
    int seconds = 0;

    if (value[0] != 0 && value[strspn(value, "0123456789")] == 0) {
        if (!cli_option_number("--seconds", value, 1, 86400, &seconds))
            return false;
        tck->contend_ms = (int64_t)seconds * 1000;
        return true;
    }
    return cli_option_duration("--seconds", value, &tck->contend_ms);
}

static bool set_contenders(void *into, const char *value)
{
    return cli_option_number("--contenders", value, 2, 512, &((struct cli_tck *)into)->contenders);
}

static bool set_processes(void *into, const char *value)
{
    return cli_option_number("--processes", value, 1, 64, &((struct cli_tck *)into)->processes);
}

static const struct cli_option options[] = {
    {0, "case", "NAME", "run only this case", CLI_TEXT(struct cli_tck, only)},
    {0, "seconds", "DURATION", "how long multi_contend lasts (5s)", CLI_CALL(set_seconds)},
    {0, "contenders", "N", "how many take part in multi_contend (10)", CLI_CALL(set_contenders)},
    {0, "processes", "N", "run multi_contend across N processes, too (1)", CLI_CALL(set_processes)},
    {0, "list", NULL, "print the names of the cases and run none", CLI_FLAG(struct cli_tck, list)},
    CLI_OPTIONS_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    struct cli_tck tck = {0};

    int status = cli_verb_parse(cli, &cli_verb_tck, &tck, SIZE_MAX, &argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    return argc > 0 ? cli_unexpected_argument("tck", argv[0]) : cli_tck_run(cli, &tck);
}

static const char details[] =
    "Runs the compatibility kit against the store: the cases that every backend must pass. It\n"
    "uses short leases (--ttl and --transition change them), so the store should be quick. The\n"
    "mutexes it creates are named tck-... with a random part, and are free afterwards; a store "
    "that\n"
    "never forgets a name keeps them. Where no store is named it runs on a file of its own.\n"
    "\n"
    "Examples:\n"
    "  simba tck --url sqlite:kit.db\n"
    "  simba tck --case multi_contend --seconds 30 --processes 4\n"
    "\n"
    "Exit codes: 0 when all cases passed, 1 when one failed, or 64, 69, 77, 78 as 'simba --help'\n"
    "lists them when the kit could not run.";

const struct cli_verb cli_verb_tck = {
    .name = "tck",
    .usage = "tck [OPTION...]",
    .summary = "run the compatibility kit against a store",
    .details = details,
    .options = options,
    .run = run,
};
