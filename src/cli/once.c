/*
 * once.c - `simba lock --once-per`: a command runs on one machine in a period. Owns which runs
 * count; the store counts the time.
 */
#include "cli/once.h"

#include "cli/cli.h"

/* A run counts for nine tenths of the period. Cron starts a job of every 24 hours a little earlier
 * or later each day, and another machine's clock may be ahead by minutes. */
static int64_t limit_ms(const struct cli_once *once)
{
    return once->period_ms - once->period_ms / 10;
}

int cli_once_begin(struct cli_once *once, simba_client *client, const char *mutex, const char *id,
                   struct simba_error *error)
{
    int code = cli_last_run_read(client, mutex, &once->last, error);

    if (code != SIMBA_OK)
        return code;
    once->done = cli_last_run_counts(&once->last, limit_ms(once), once->retry_failed);
    if (once->done)
        return SIMBA_OK;
    code = cli_last_run_write(client, mutex, id, CLI_RUN_RUNNING, 0, 0, error);
    once->begun = code == SIMBA_OK;
    once->begun_ms = simba_now_ms();
    return code;
}

void cli_once_end(struct cli_once *once, simba_client *client, const char *mutex, const char *id,
                  const struct cli_outcome *outcome)
{
    struct simba_error error;
    int code;

    if (!once->begun || outcome->how == CLI_ENDED_LOST)
        return; /* a run that seems to be under way while nobody owns does not count either */
    code = cli_last_run_write(client, mutex, id, cli_last_run_state(outcome), outcome->status,
                              simba_now_ms() - once->begun_ms, &error);
    if (code != SIMBA_OK)
        cli_message("warning: the store does not know how the run of '%s' ended, so another "
                    "machine may run it again: %s",
                    mutex, error.text);
}

void cli_once_report(const struct cli_once *once, const char *mutex)
{
    char run[CLI_LAST_RUN_TEXT_MAX];
    char period[32];

    cli_last_run_describe(&once->last, run);
    cli_message("'%s' was run %s: once per %s", mutex, run,
                simba_duration_format(once->period_ms, period, sizeof period));
}
