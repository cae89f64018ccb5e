/*
 * leader.h - runs a command again and again while this contender leads.
 *
 * When to run it is the plan's business: a service that is restarted, a job at intervals.
 */
#ifndef CLI_LEADER_H
#define CLI_LEADER_H

#include "cli/job.h"

/* In place of an instant: there is no next run, and the program ends with the status of the last. */
#define CLI_PLAN_END INT64_MIN

struct cli_plan {
    /* When the first run of a term is due that begins now, on simba_now_ms(). */
    int64_t (*first_ms)(void *user, int64_t now_ms);
    /* When the next run is due after one that began at `begun_ms` and has just ended. A run that ended
     * because a signal told the program to end is not asked about. */
    int64_t (*next_ms)(void *user, const struct cli_outcome *outcome, int64_t begun_ms,
                       int64_t now_ms);
    void *user;
};

/* Competes for the mutex of the job until a signal tells it to end or the plan does. Returns the exit code. */
int cli_leader_run(struct cli_job *job, const struct cli_plan *plan);

#endif
