/*
 * tck.c - the program simba-tck: runs the compatibility kit against a store.
 */
#include "cli/cli.h"
#include "cli/instrument.h"

#include <simba/tck.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REASON_MAX 1024 /* bytes that are shown */

struct tck {
    struct simba_tck_options options;
    int64_t started_ms; /* of the case that runs */
};

const struct cli_verb *const cli_verbs[] = {&cli_verb_tck, NULL};

/* Nothing may stay in the buffer of standard output: the kit forks. */
static void report(void *user, const char *name, int passed, const char *text)
{
    struct tck *tck = user;
    char shown[REASON_MAX];

    if (passed < 0) {
        tck->started_ms = simba_now_ms();
        return;
    }
    double seconds = (double)(simba_now_ms() - tck->started_ms) / 1000.0;
    printf("%-4s  %-28s %6.2f s\n", passed ? "ok" : "FAIL", name, seconds);
    cli_text_printable(text != NULL ? text : "no reason given", shown, sizeof shown);
    if (!passed)
        printf("      %s\n", shown);
    fflush(stdout);
}

/* ---- A store for one run --------------------------------------------------------------------- */

/* The folder of this run, for the signal that ends it. */
static struct {
    struct cli_scratch folder;
    pid_t owner; /* the kit forks, and its processes inherit the handler */
} interrupted;

/* What the store creates. */
static void remove_files(void)
{
    static const char *const names[] = {CLI_SCRATCH_FILE,         CLI_SCRATCH_FILE "-wal",
                                        CLI_SCRATCH_FILE "-shm",  CLI_SCRATCH_FILE "-journal",
                                        CLI_SCRATCH_FILE "-wake", CLI_SCRATCH_FILE "-life"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlinkat(interrupted.folder.folder, names[i], 0);
    unlinkat(interrupted.folder.parent, interrupted.folder.name, AT_REMOVEDIR);
}

/* The threads of the kit would create the files again as long as they are there: so a process of
 * its own waits until this one has ended. The signal may come anywhere: only async-signal-safe
 * calls. */
static void remove_scratch(int signal)
{
    struct timespec interval = {.tv_nsec = 1000000};

    if (getpid() == interrupted.owner && _Fork() == 0) {
        while (getppid() == interrupted.owner)
            nanosleep(&interval, NULL);
        remove_files();
        _exit(0);
    }
    raise(signal); /* now with its default action */
}

static void catch_signals(const struct cli_scratch *scratch)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = remove_scratch, .sa_flags = (int)SA_RESETHAND};

    interrupted.folder = *scratch;
    interrupted.owner = getpid();
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- The work -------------------------------------------------------------------------------- */

static int run_kit(const struct cli *cli, const char *url, const struct cli_scratch *scratch,
                   void *user)
{
    struct tck *tck = user;
    struct simba_error error = {0};
    int passed = 0;
    int failed = 0;

    (void)cli;
    if (scratch != NULL)
        catch_signals(scratch);
    tck->options.url = url;
    tck->options.report = report;
    tck->options.user = tck;
    int code = simba_tck_run(&tck->options, &passed, &failed, &error);
    if (code != SIMBA_OK && failed == 0)
        return cli_fail(&error);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int cli_instrument_main(struct cli *cli, int argc, char **argv)
{
    const struct cli_tck *options = cli->verb->into;
    struct tck tck = {.options = SIMBA_TCK_OPTIONS_INIT};
    bool known = options->only == NULL;

    (void)argc;
    (void)argv;
    for (size_t i = 0; simba_tck_case(i) != NULL; i++) {
        if (options->list)
            puts(simba_tck_case(i));
        else if (options->only != NULL && strcmp(simba_tck_case(i), options->only) == 0)
            known = true;
    }
    if (options->list)
        return CLI_EXIT_OK;
    if (!known)
        return cli_usage_error(cli, "there is no case '%s': see --list", options->only);
    tck.options.only = options->only;
    if (options->contend_ms != 0)
        tck.options.contend_ms = options->contend_ms;
    if (options->contenders != 0)
        tck.options.contenders = options->contenders;
    if (options->processes != 0)
        tck.options.processes = options->processes;
    if (cli->ttl_ms != SIMBA_UNSET)
        tck.options.ttl_ms = cli->ttl_ms;
    if (cli->transition_ms != SIMBA_UNSET)
        tck.options.transition_ms = cli->transition_ms;
    return cli_instrument_run(cli, run_kit, &tck);
}
