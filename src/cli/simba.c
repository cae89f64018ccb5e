/*
 * simba.c - the verbs of the program `simba`, and how it starts the programs behind two of them.
 */
#include "cli/cli.h"

#include "backend/module.h"
#include "cli/events.h"
#include "cli/instrument.h"

#include <limits.h>
#include <unistd.h>

const struct cli_verb *const cli_verbs[] = {
    &cli_verb_lock,    &cli_verb_lead, &cli_verb_schedule, &cli_verb_status, &cli_verb_watch,
    &cli_verb_release, &cli_verb_init, &cli_verb_tck,      &cli_verb_bench,  NULL,
};

/* It reads the same command line again, so that nothing has to be told in another form. */
static int start(const struct cli *cli, const char *program)
{
    struct simba_error error;
    char path[PATH_MAX];

    if (sb_module_path("program", program, path, &error) != SIMBA_OK)
        return cli_fail(&error);
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
