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

#define ENTRY(name) &cli_verb_##name,
const struct cli_verb *const cli_verbs[] = {CLI_VERB_MAP(ENTRY) NULL};

/* Removes "-u URL", "--url URL", "-uURL" or "--url=URL"; `url` points into the arguments. Letters
 * of other options that stand before the u stay. */
static void leave_out(char **arguments, const char *url)
{
    char **last = arguments;

    while (url < *last || url > *last + strlen(*last))
        last++;
    char **first = *last == url ? last - 1 : last;
    size_t length = first == last ? (size_t)(url - *first) : strlen(*first);
    if ((*first)[1] != '-' && length > 2)
        (*first++)[length - 1] = 0;
    do
        *first++ = *++last;
    while (*last != NULL);
}

/* The program reads the same command line again. It reads passwords in files or pipes itself. A URL
 * with a password goes into the environment: everybody can read a command line. */
int cli_instrument_main(struct cli *cli, int argc, char **argv)
{
    struct simba_error error;
    char program[32];
    char path[PATH_MAX];

    (void)argc;
    (void)argv;
    snprintf(program, sizeof program, "simba-%s", cli->verb->name);
    if (sb_module_path("program", program, path, &error) != SIMBA_OK)
        return cli_fail(&error);
    if (cli->hidden_url != NULL) {
        leave_out(cli->arguments, cli->hidden_url);
        if (setenv("SIMBA_URL", cli->url, 1) != 0)
            return cli_fail_system("the environment");
    }
    cli_signals_restore();
    execv(path, cli->arguments);
    return cli_fail_system(path);
}
