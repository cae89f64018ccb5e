/*
 * job.h - what the verbs that run commands share: `lock`, `lead`, `schedule`.
 *
 * The struct of each of these verbs begins with a struct cli_job, so that the options below can stand in
 * the table of each.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/cli.h"
#include "cli/store.h"
#include "cli/supervise.h"

struct cli_job {
    struct cli *cli;
    const struct cli_verb *verb;
    const char *mutex;
    char **command;
    const char *note; /* NULL: none */
    char id[SIMBA_ID_MAX + 1];
    bool pass_notify; /* NOTIFY_SOCKET is for the command, too */
    bool grace_given;
    int64_t grace_ms;   /* from SIGTERM to SIGKILL; SIMBA_UNSET until cli_job_open chooses it */
    int64_t reserve_ms; /* from SIGKILL to the end of the lease */
    int64_t window_ms;  /* of the lease, in which it is renewed, as far as it is believed in */
    int64_t hold_at_least_ms; /* 0: no longer than it takes */
    int64_t hold_at_most_ms;  /* SIMBA_INFINITE: as long as it takes */
    int64_t told_grace_ms; /* from a signal that tells to end to SIGKILL; SIMBA_INFINITE: never */
    bool sweep;            /* what the command leaves running ends with it */
    bool terminal;         /* the terminal is for the command, where this process has it */
    bool adopts;           /* this process inherits what the command leaves running */
    struct cli_events events;
    simba_client *client;
    struct simba_error error; /* why cli_job_open failed */
};

/* The values that hold without options. */
void cli_job_init(struct cli_job *job, struct cli *cli, const struct cli_verb *verb);

/* The options that all of these verbs have. */
extern const struct cli_option cli_job_options[];

/* For the tables of those that hold for a job and not for a service. */
bool cli_job_set_hold_at_least(void *into, const char *value);
bool cli_job_set_hold_at_most(void *into, const char *value);

/* What --stop-timeout is where it is not given, for verbs that go on until they are told to end. */
#define CLI_JOB_STOP_TIMEOUT_MS 10000

/* Says what is wrong with the command line. Returns CLI_EXIT_USAGE. */
int cli_job_usage_error(const struct cli_job *job, const char *what);

/* Reads the command line. Returns CLI_CONTINUE or an exit code. */
int cli_job_parse(struct cli_job *job, int argc, char **argv);

/* Opens the store, and chooses the grace or refuses the one that was given. Waits for the store. Returns an
 * error of the library. */
int cli_job_open(struct cli_job *job, const struct cli_place *place);

/* To be called when a term begins, with the time that it has for renewals: grace and reserve are cut where that is
 * shorter than what was asked for, as with sessions of ZooKeeper. */
void cli_job_fit(struct cli_job *job, int64_t window_ms);

/* Whether a lease with this deadline runs out so soon that its command has to end: the store has not renewed
 * it in time. */
bool cli_job_runs_out(const struct cli_job *job, int64_t deadline_ms);

/* The mutex, for the warning that it was not given back; NULL where warnings are not wanted. */
const char *cli_job_held(const struct cli_job *job);

/* A run under this lease. `shown_id` and `fence` are for the command to see. */
struct cli_run cli_job_run(const struct cli_job *job, const char *shown_id, uint64_t fence,
                           const struct cli_lease *lease);

/* Keeps the mutex until that instant, though the command has ended. A signal that tells to end, or the loss of
 * the lease, ends that. Returns whether the mutex is still held. */
bool cli_job_hold(const struct cli_job *job, int lost_fd, int64_t until_ms);

#endif
