/*
 * help.c - the texts of --help.
 */
#include "cli/cli.h"

static const char introduction[] =
    "Usage: simba [OPTION...] VERB ...\n"
    "\n"
    "Runs commands under a mutex that many machines share, and shows who owns it. The owner of\n"
    "a mutex holds a lease on a store. It renews the lease until it gives the mutex back.\n"
    "\n"
    "Verbs:\n";

static const char conclusion[] =
    "\n"
    "DURATION is written as 250ms, 10s, 1m30s or 2h.\n"
    "\n"
    "The store is what the first of these names: --url or --config, SIMBA_URL, SIMBA_CONFIG,\n"
    "simba.yaml in $XDG_CONFIG_HOME or ~/.config, /etc/simba.yaml. Otherwise it is the SQLite "
    "file\n"
    "simba/simba.db in $XDG_STATE_HOME or ~/.local/state: good for all processes of a user.\n"
    "URLs: sqlite:PATH, mysql://USER@HOST/DATABASE, postgres://USER@HOST/DATABASE,\n"
    "redis://HOST:PORT/DB, rediss:// (TLS), zookeeper://HOST:PORT. A password is best kept in a\n"
    "file: ...?password-file=PATH. One in SIMBA_URL is in the environment of COMMAND as well.\n"
    "\n"
    "Examples:\n"
    "  simba lock backup -- ./backup.sh        one backup at a time; wait for the turn\n"
    "  simba lock -n backup -- ./backup.sh     or give up at once (exit code 75)\n"
    "  simba lead api -- ./api-server          keep it running on one machine at a time\n"
    "  simba schedule tidy --every 1h -- ./tidy.sh\n"
    "  simba status                            who owns what, and for how long\n"
    "  simba -u sqlite:/srv/jobs.db watch backup\n"
    "\n"
    "Exit codes:\n"
    "  64  the command line is wrong           75  not acquired (lock -E changes it)\n"
    "  69  the store is unreachable            77  the store refused the credentials\n"
    "  70  the lease was lost                  78  a URL, name or timing is invalid\n"
    "  71  the system refused memory or such   74  standard output cannot be written\n"
    "  124 --hold-at-most stopped the command; otherwise that of the command\n"
    "\n"
    "'simba VERB --help' or 'simba help VERB' tells more.\n";

void cli_help_print(FILE *stream, const struct cli_verb *const *verbs)
{
    fputs(introduction, stream);
    for (size_t i = 0; verbs[i] != NULL; i++)
        fprintf(stream, "  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\nOptions, before or after the verb:\n", stream);
    cli_options_print(stream, cli_global_options);
    fputs(conclusion, stream);
}

void cli_help_print_verb(FILE *stream, const struct cli_verb *verb)
{
    fprintf(stream, "Usage: simba %s\n\n%s\n", verb->usage, verb->details);
    if (verb->options->name != NULL) {
        fputs("\nOptions:\n", stream);
        cli_options_print(stream, verb->options);
    }
    if (verb->shared != NULL)
        cli_options_print(stream, verb->shared);
    fputs("\nOptions of all verbs:\n", stream);
    cli_options_print(stream, cli_global_options);
}
