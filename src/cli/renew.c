/*
 * renew.c - `simba renew`: gives a mutex that is held without a command a new lease.
 */
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/term.h"

#define TIMEOUT_MS 10000

static struct cli_term term = {.for_ms = SIMBA_UNSET};

static const struct cli_option options[] = {
    CLI_TERM_FENCE,
    CLI_TERM_FOR("how long the lease is, from now on (as long as before)"),
    CLI_OPTION_JSON("print a JSON object instead of shell words"),
    CLI_OPTIONS_END,
};

/* Nobody can hold anything on a store that does not exist yet. */
static int renew(const struct cli *cli)
{
    simba_client *client = NULL;
    struct simba_error error;

    int code = cli_store_open_existing(cli, &client, &error);
    if (code == SIMBA_ENOTFOUND) {
        cli_message("the term of '%s' is gone: the store does not exist", term.mutex);
        return CLI_EXIT_LOST;
    }
    if (code == SIMBA_OK)
        code = simba_client_renew(client, term.mutex, term.id, term.fence, term.for_ms, TIMEOUT_MS,
                                  &term.deadline_ms, &error);
    cli_store_close(client);
    return code == SIMBA_OK ? CLI_EXIT_OK : cli_fail(&error);
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    if (!cli_term_find(&term, cli, argv[0]))
        return cli_usage_error(cli,
                               "which term? Give --id and --fence, or the environment that "
                               "'simba acquire %s' has printed",
                               argv[0]);
    if (term.keeper != 0)
        return cli_usage_error(cli, "the process %ld renews '%s': see 'simba acquire --keep'",
                               term.keeper, argv[0]);
    if (term.for_ms == SIMBA_UNSET)
        return cli_usage_error(cli, "for how long? Give --for");
    int status = cli_term_check_for(&term, cli);
    if (status == CLI_CONTINUE)
        status = renew(cli);
    if (status == CLI_EXIT_OK)
        cli_term_print(&term);
    return status;
}

static const char details[] =
    "Gives the mutex NAME, which 'simba acquire' has acquired, a lease that is as\n"
    "long as --for says, from now on. A lease that lasts longer already is not\n"
    "shortened. The term is named by its id and its fencing token. Both can come from\n"
    "the environment that acquire has printed, and so can the length of the lease.\n"
    "--id is taken as it is here. The output is that of acquire, with the new\n"
    "deadline.\n"
    "\n"
    "If the term is gone, because its lease has ended or somebody took the mutex\n"
    "away, nothing changes on the store, and the exit code is 70: stop the work. A\n"
    "table of the JVM library does not keep the token of a term. There the id alone\n"
    "tells terms apart; the ids that acquire makes never repeat, but those of\n"
    "--exact-id may.\n"
    "\n"
    "Examples:\n"
    "  words=$(simba renew deploy) && eval \"$words\" || exit 1\n"
    "  simba renew deploy --id \"$id\" --fence \"$fence\" --for 30m --json\n"
    "\n"
    "Exit codes: 0, 70 when the term is gone, or 64, 69, 77, 78 as 'simba --help'\n"
    "lists them.";

const struct cli_verb cli_verb_renew = {
    .name = "renew",
    .usage = "renew NAME [OPTION...]",
    .summary = "renew a mutex that is held without a command",
    .details = details,
    .options = options,
    .into = &term,
    .operands = CLI_OPERANDS_NAME,
    .run = run,
};
