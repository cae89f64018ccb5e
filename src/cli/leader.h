/*
 * leader.h - runs a command again and again while this contender leads.
 *
 * A plan decides when the command runs: a service that is restarted, a job at intervals.
 */
#ifndef CLI_LEADER_H
#define CLI_LEADER_H

#include "cli/job.h"
#include "cli/listen.h"

/* In place of an instant: there is no next run, and the program ends with the status of the
 * last. */
#define CLI_PLAN_END INT64_MIN

struct cli_plan {
    /* When the first run of a term is due that begins now, on simba_now_ms(). */
    int64_t (*first_ms)(void *user, int64_t now_ms);
    /* When the next run is due after one that began at `begun_ms` and has just ended. Not called
     * when a signal has told the program to end. */
    int64_t (*next_ms)(void *user, const struct cli_outcome *outcome, int64_t begun_ms,
                       int64_t now_ms);
    /* Whether runs have failed so often that another contender should have the mutex, if there is
     * one, for `yield_ms`. NULL: never. */
    bool (*yields)(void *user);
    int64_t yield_ms;
    struct cli_health *health; /* NULL: nobody checks the command */
    int priority;              /* as of simba_contender_options, with the next */
    int64_t priority_after_ms;
    bool is_schedule; /* a run is a job, not a restart of a service */
    void *user;

    /* May be NULL. When a term begins, before first_ms, on a thread of the library: may wait for
     * the store. */
    void (*acquired)(void *user);
    /* May be NULL. Before each run and behind it, whatever became of it. `due_ms` is that of the
     * next run, CLI_PLAN_END: there is none. May wait for the store. */
    void (*starting)(void *user);
    /* May be NULL. Once in some ttls while a run is waited for: when it is due now. May wait for
     * the store. */
    int64_t (*look_again)(void *user, int64_t due_ms);
    void (*ended)(void *user, const struct cli_outcome *outcome, int64_t begun_ms, int64_t due_ms);
};

/* For the tables of both verbs. */
#define CLI_LEADER_OPTION_WAIT                                                                     \
    {                                                                                              \
        'w', "wait", "DURATION",                                                                   \
            "at the start, give up if the store stays down for that time\n(no limit)",             \
            CLI_SECONDS(struct cli_job, wait_ms)                                                   \
    }

#define CLI_LEADER_OPTION_LISTEN                                                                   \
    CLI_OPTION_LISTEN(struct cli_job, listen,                                                      \
                      "serve /metrics, /leader, /healthz and /readyz at PORT,\n"                   \
                      "ADDRESS:PORT or unix:PATH")

/* Parts of the help of both verbs. */
#define CLI_LEADER_HELP_COMMAND                                                                    \
    "COMMAND finds SIMBA_MUTEX, SIMBA_CONTENDER_ID and SIMBA_FENCE in its\n"                       \
    "environment, and gets SIGTERM and then SIGKILL before another machine can lead:\n"            \
    "see 'simba lock --help'. What it leaves running is killed. A terminal stays with\n"           \
    "simba, for Ctrl-C: COMMAND reads /dev/null. --listen serves Prometheus and load\n"            \
    "balancers: /leader answers 200 while this machine leads and 503 otherwise.\n"                 \
    "Without an address it is the loopback's.\n"                                                   \
    "A store that is down at the start is waited for; -w bounds that. Under systemd\n"             \
    "(Type=notify) simba is ready when it takes part, leading or not. It answers\n"                \
    "WatchdogSec= as long as all is well.\n"
#define CLI_LEADER_HELP_EXIT_CODES                                                                 \
    "Exit codes:\n"                                                                                \
    "  0   told to end by SIGTERM or SIGINT   128 and the number of another signal\n"              \
    "  that of COMMAND where it does not run again\n"                                              \
    "  64  the command line is wrong          77   the store refused the credentials\n"            \
    "  69  the store was down for all of -w   78   a URL, name or timing is invalid\n"             \
    "  70  lost in --hold-at-least, or what   126  COMMAND cannot be executed\n"                   \
    "      COMMAND left cannot be killed      127  COMMAND was not found\n"                        \
    "  71  out of memory, processes or descriptors"

/* Competes for the mutex of the job until a signal tells it to end or the plan does. Returns the
 * exit code. */
int cli_leader_run(struct cli_job *job, const struct cli_plan *plan);

#endif
