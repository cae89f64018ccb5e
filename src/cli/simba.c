/*
 * simba.c - the verbs of the program `simba`, and how it starts the programs behind two of them.
 */
#include "cli/cli.h"

#include "backend/module.h"
#include "cli/events.h"
#include "cli/instrument.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_verb *const cli_verbs[] = {
    &cli_verb_lock,    &cli_verb_lead, &cli_verb_schedule, &cli_verb_status, &cli_verb_watch,
    &cli_verb_release, &cli_verb_init, &cli_verb_tck,      &cli_verb_bench,  NULL,
};

/* Whether the URL is the whole argument, or the part behind the name of the option. */
static bool stands_in(const char *argument, const char *url)
{
    return argument <= url && url <= argument + strlen(argument);
}

/* "-u URL", "--url URL", "-uURL" or "--url=URL". Letters of other options may stand before the u:
 * they stay. */
static void leave_out(char **arguments, const char *url)
{
    char **last = arguments;

    while (!stands_in(*last, url))
        last++;
    char **first = *last == url ? last - 1 : last;
    size_t length = first == last ? (size_t)(url - *first) : strlen(*first);
    if ((*first)[1] != '-' && length > 2)
        (*first++)[length - 1] = 0;
    do
        *first++ = *++last;
    while (*last != NULL);
}

/* Everybody can read its command line, but only its user the environment. */
static bool hand_over_url(const struct cli *cli)
{
    if (cli->hidden_url == NULL)
        return true;
    leave_out(cli->arguments, cli->hidden_url);
    return setenv("SIMBA_URL", cli->url, 1) == 0;
}

/* It reads the same command line again, so that nothing else has to be told in another form.
 * Passwords that are in files, or come from pipes, are left to it. */
static int start(const struct cli *cli, const char *program)
{
    struct simba_error error;
    char path[PATH_MAX];

    if (sb_module_path("program", program, path, &error) != SIMBA_OK)
        return cli_fail(&error);
    if (!hand_over_url(cli))
        return cli_fail_system("the environment");
    cli_signals_restore();
    execv(path, cli->arguments);
    return cli_fail_system(path);
}

int cli_bench_run(const struct cli *cli, const struct cli_bench *options, int question_count,
                  char **questions)
{
    (void)options;
    (void)question_count;
    (void)questions;
    return start(cli, "simba-bench");
}

int cli_tck_run(const struct cli *cli, const struct cli_tck *options)
{
    (void)options;
    return start(cli, "simba-tck");
}
