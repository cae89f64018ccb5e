/*
 * last_run.h - what the store remembers of the last run of a command under a mutex: the property
 * `last-run`. Times are the store's.
 */
#ifndef CLI_LAST_RUN_H
#define CLI_LAST_RUN_H

#include "cli/child.h"

#include <simba/simba.h>

enum cli_run_state {
    CLI_RUN_NONE,    /* there was none, or what the store has says nothing */
    CLI_RUN_RUNNING, /* it has begun; if nobody owns the mutex, it died */
    CLI_RUN_ENDED,   /* the command ended by itself, or at its time limit */
    CLI_RUN_STOPPED  /* it was told to end, lost its lease or could not be started */
};

struct cli_last_run {
    enum cli_run_state state;
    int status; /* the exit code, where it has ended */
    int64_t started_ms;
    int64_t ended_ms; /* 0: it has not */
    int64_t
        store_ms; /* the store's time now, also where there was no run; this host's where the store
                         does not tell it */
    char by[SIMBA_ID_MAX + 1];
};

/* Both wait for the store, CLI_LAST_RUN_TIMEOUT_MS at most, and return an error of the library. */
#define CLI_LAST_RUN_TIMEOUT_MS 2000

int cli_last_run_read(simba_client *client, const char *mutex, struct cli_last_run *ret_run,
                      struct simba_error *error);

/* Written by the owner `id`. Of a run that is under way status and duration are 0. */
int cli_last_run_write(simba_client *client, const char *mutex, const char *id,
                       enum cli_run_state state, int status, int64_t duration_ms,
                       struct simba_error *error);

/* How a run that had this outcome is remembered. What was stopped, for example because the machine
 * goes down, has not done its work. */
enum cli_run_state cli_last_run_state(const struct cli_outcome *outcome);

/* When the next run is due, in milliseconds since 1970 by the store's clock: the property
 * `next-run`. 0: it is not known. */
int cli_next_run_read(simba_client *client, const char *mutex, int64_t *ret_at_ms,
                      struct simba_error *error);
int cli_next_run_write(simba_client *client, const char *mutex, const char *id, int64_t at_ms,
                       struct simba_error *error);

/* Takes both along to another store, written by its owner `to_id`, unless that store remembers a
 * later run. The run keeps its begin, and the time since its end counts as a part of it: the store
 * tells when it was written. The next run is moved by the difference of the stores' clocks. */
int cli_runs_copy(simba_client *from, simba_client *to, const char *mutex, const char *to_id,
                  struct simba_error *error);

/* The names of both properties; NULL behind the last. */
extern const char *const cli_run_properties[];

/* Whether the run has ended and began less than `limit_ms` ago. One that began that much in the
 * future does not count: somebody has set the store's clock back. */
bool cli_last_run_counts(const struct cli_last_run *run, int64_t limit_ms, bool only_success);

/* "by host1~x7k2p9 3h ago in 12s, with exit code 0" */
#define CLI_LAST_RUN_TEXT_MAX (SIMBA_ID_MAX + 160)
void cli_last_run_describe(const struct cli_last_run *run, char text[CLI_LAST_RUN_TEXT_MAX]);

#endif
