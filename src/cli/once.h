/*
 * once.h - `simba lock --once-per`: a command runs on one machine in a period.
 */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include "cli/child.h"
#include "cli/last_run.h"

struct cli_once {
    int64_t period_ms; /* 0: the option was not given */
    bool retry_failed; /* a run that failed does not count */
    bool done;         /* the command has run within the period */
    bool begun;        /* the store remembers that it runs */
    int64_t begun_ms;
    struct cli_last_run last;
};

/* By the owner `id`, before the command: finds out whether it has run within the period, and has
 * the store remember that it runs if it has not. Waits for the store. Returns an error of the
 * library. */
int cli_once_begin(struct cli_once *once, simba_client *client, const char *mutex, const char *id,
                   struct simba_error *error);

/* Behind it: remembers how it ended. Waits for the store; prints a warning if that fails. */
void cli_once_end(struct cli_once *once, simba_client *client, const char *mutex, const char *id,
                  const struct cli_outcome *outcome);

/* Prints which machine has run it, and when. */
void cli_once_report(const struct cli_once *once, const char *mutex);

#endif
