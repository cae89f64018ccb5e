/*
 * release.c - `simba release`: releases a mutex that is held without a command, or takes a mutex
 * away from its owner.
 */
#include "cli/cli.h"
#include "cli/store.h"
#include "cli/term.h"

#include <inttypes.h>

#define TIMEOUT_MS 10000

static struct release {
    struct cli_term term; /* first */
    bool force;
} release = {.term = {.for_ms = SIMBA_UNSET}};

static const struct cli_option options[] = {
    CLI_TERM_FENCE,
    {'f', "force", NULL, "take it from its owner, which may be at work",
     CLI_FLAG(struct release, force)},
    CLI_OPTION_JSON("print a JSON object"),
    CLI_OPTIONS_END,
};

static void print_json(const char *mutex, const struct simba_owner *owner)
{
    cli_json_string(stdout, "{\"mutex\":", mutex);
    printf(",\"released\":%s", owner->id[0] != 0 ? "true" : "false");
    cli_json_string(stdout, ",\"owner\":", owner->id);
    cli_json_fence(stdout, ",\"fence\":", owner->fence);
    fputs("}\n", stdout);
}

static void print_text(const char *mutex, const struct simba_owner *owner)
{
    char name[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];

    cli_text_printable(mutex, name, sizeof name);
    cli_text_printable(owner->id, id, sizeof id);
    if (!release.force)
        cli_result("%s is released, fence %" PRIu64, name, owner->fence);
    else if (id[0] == 0)
        cli_result("%s is free: there is nothing to release", name);
    else if (owner->fence > 0)
        cli_result("%s has been taken from %s, fence %" PRIu64, name, id, owner->fence);
    else
        cli_result("%s has been taken from %s", name, id);
}

/* A store that no process has used yet has nothing to release. */
static int take(const struct cli *cli, const char *mutex, struct simba_owner *ret_owner)
{
    const struct cli_term *term = &release.term;
    simba_client *client = NULL;
    struct simba_error error;

    int code = cli_store_open_existing(cli, &client, &error);
    if (code == SIMBA_ENOTFOUND && release.force)
        return CLI_EXIT_OK;
    if (code == SIMBA_OK && release.force)
        code = simba_client_force_release(client, mutex, TIMEOUT_MS, ret_owner, &error);
    else if (code == SIMBA_OK)
        code = simba_client_end(client, mutex, term->id, term->fence, TIMEOUT_MS, &error);
    if (code == SIMBA_OK && !release.force) {
        snprintf(ret_owner->id, sizeof ret_owner->id, "%s", term->id);
        ret_owner->fence = term->fence;
    }
    cli_store_close(client);
    return code == SIMBA_OK ? CLI_EXIT_OK : cli_fail(&error);
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    (void)argc;
    if (release.force && release.term.fence != 0)
        return cli_usage_error(cli, "--force and --fence exclude each other");
    if (!release.force && !cli_term_find(&release.term, cli, argv[0]))
        return cli_usage_error(cli,
                               "which term? Give --id and --fence, or the environment that "
                               "'simba acquire %s' has printed. To take the mutex from an "
                               "owner that may be at work, add --force",
                               argv[0]);
    int status = take(cli, argv[0], &owner);
    if (status == CLI_EXIT_OK && release.term.output.json)
        print_json(argv[0], &owner);
    else if (status == CLI_EXIT_OK)
        print_text(argv[0], &owner);
    return status;
}

static const char details[] =
    "Releases the mutex NAME that 'simba acquire' has acquired. The term is named by\n"
    "--id, taken as it is here, and --fence, or by the environment that acquire has\n"
    "printed. If that term is gone, nothing changes on the store, and the exit code\n"
    "is 70: another may have owned the mutex while the script still worked.\n"
    "\n"
    "With --force: takes the mutex away from its owner, and names that owner. The\n"
    "next waiter gets the mutex at once; the owner learns of its loss only at its\n"
    "next renewal. Both may work for up to one ttl. Use it for an owner that hangs.\n"
    "It ends only the term that it has seen. A mutex that is free is no error.\n"
    "\n"
    "With --json it is an object with mutex, released (true or false), owner (empty:\n"
    "nobody) and fence (null: not known).\n"
    "\n"
    "Examples:\n"
    "  simba release deploy\n"
    "  simba release backup --force\n"
    "\n"
    "Exit codes: 0, 70 when the term is gone, 75 when the owner changed meanwhile and\n"
    "nothing was taken, or 64, 69, 77, 78 as 'simba --help' lists them.";

const struct cli_verb cli_verb_release = {
    .name = "release",
    .usage = "release NAME [OPTION...]",
    .summary = "release a mutex of acquire, or take one from its owner",
    .details = details,
    .options = options,
    .into = &release,
    .operands = CLI_OPERANDS_NAME,
    .run = run,
};
