/*
 * semaphore.c - `simba semaphore`: changes the number of slots of a semaphore.
 */
#include "cli/cli.h"
#include "cli/store.h"

#include <string.h>

#define TIMEOUT_MS 10000

static struct cli_output output;

static const struct cli_option options[] = {
    CLI_OPTION_JSON("print a JSON object"),
    CLI_OPTIONS_END,
};

/* What the store remembered until now is for the user to see. */
static int resize(const struct cli *cli, const char *name, int slots, int *ret_before)
{
    simba_client *client = NULL;
    struct simba_error error;

    int code = cli_store_open_existing(cli, &client, &error);
    if (code == SIMBA_OK)
        code = simba_semaphore_slots(client, name, TIMEOUT_MS, ret_before, &error);
    if (code == SIMBA_OK || code == SIMBA_ECONFIG)
        code = simba_semaphore_resize(client, name, slots, TIMEOUT_MS, &error);
    cli_store_close(client);
    if (code != SIMBA_ENOTFOUND)
        return code == SIMBA_OK ? CLI_EXIT_OK : cli_fail(&error);
    cli_message("%s", error.text);
    return CLI_EXIT_CONTENDED;
}

static void print(const char *name, int slots, int before)
{
    char shown[SIMBA_MUTEX_MAX + 1];

    if (output.json) {
        cli_json_string(stdout, "{\"semaphore\":", name);
        printf(",\"slots\":%d,\"before\":%d}\n", slots, before);
        return;
    }
    cli_text_printable(name, shown, sizeof shown);
    if (before == slots)
        printf("%s has %d slot%s already\n", shown, slots, slots == 1 ? "" : "s");
    else
        printf("%s has %d slot%s now; it had %d\n", shown, slots, slots == 1 ? "" : "s", before);
}

static int run(struct cli *cli, int argc, char **argv)
{
    int slots = 0;
    int before = 0;

    if (argc != 3 || strcmp(argv[0], "resize") != 0)
        return cli_usage_error(cli, "write 'simba semaphore resize NAME N'");
    if (!cli_option_number("N", argv[2], 1, SIMBA_SLOTS_MAX, &slots))
        return CLI_EXIT_USAGE;
    int status = resize(cli, argv[1], slots, &before);
    if (status == CLI_EXIT_OK)
        print(argv[1], slots, before);
    return status;
}

static const char details[] =
    "Changes how many may hold a slot of the semaphore NAME, which 'simba lock\n"
    "--slots' has made. It may be in use. More slots are used within a second. Of\n"
    "fewer, nobody loses one: a slot that there is no more is given to nobody when\n"
    "its holder has released it. From now on --slots must name the new number;\n"
    "waiters that came before go on.\n"
    "\n"
    "With --json it is an object with semaphore, slots and before.\n"
    "\n"
    "Example:\n"
    "  simba semaphore resize render 5\n"
    "\n"
    "Exit codes: 0, 75 when the store knows no such semaphore, or 64, 69, 77, 78 as\n"
    "'simba --help' lists them.";

const struct cli_verb cli_verb_semaphore = {
    .name = "semaphore",
    .usage = "semaphore resize NAME N [OPTION...]",
    .summary = "change the number of slots of a semaphore",
    .details = details,
    .options = options,
    .into = &output,
    .operands = CLI_OPERANDS_ANY,
    .run = run,
};
