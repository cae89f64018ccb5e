/*
 * job.h - what the verbs that run commands share: `lock`, `lead`, `schedule`.
 *
 * The struct of each of these verbs begins with a struct cli_job, so that the options below can
 * stand in the table of each.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/child.h"
#include "cli/inherit.h"
#include "cli/store.h"

#include <simba/simba.h>

#include <stdatomic.h>

struct cli_job {
    struct cli *cli;
    const char *mutex;  /* of a set: its names, with blanks between */
    char **names;       /* of a set; NULL: one mutex */
    size_t names_count; /* 0: it is no set */
    int slots;          /* of a semaphore; 0: it is none */
    char **command;
    const char *listen; /* lead, schedule: where endpoints are served; NULL: nowhere */
    const char *note;   /* NULL: none */
    char id[SIMBA_ID_MAX + 1];
    bool pass_notify; /* NOTIFY_SOCKET is for the command, too */
    bool grace_given;
    int64_t grace_ms;   /* from SIGTERM to SIGKILL; SIMBA_UNSET until cli_job_open chooses it */
    int64_t reserve_ms; /* from SIGKILL to the end of the lease */
    int64_t window_ms;  /* of a lease, from ttl_at to the deadline: in it renewals are tried */
    int64_t wait_ms; /* lock: for the mutex; others: for the store. SIMBA_UNSET: without a limit */
    int64_t hold_at_least_ms; /* 0: no minimum */
    int64_t hold_at_most_ms;  /* SIMBA_INFINITE: no limit */
    int64_t stop_timeout_ms; /* from a signal that tells to end to SIGKILL; SIMBA_INFINITE: never */
    bool leave_running;      /* what the command leaves running is not killed */
    bool terminal;           /* the terminal is for the command, where this process has it */
    bool adopts;             /* cli_orphans_adopt has succeeded */
    bool tells_of_store;     /* cli_job_open says that it waits for the store */
    atomic_bool opened;      /* by cli_job_open; any thread */
    struct cli_events events;
    char store[CLI_INHERIT_MAX]; /* for the command: see cli_inherit_store */
    simba_client *client;
    struct simba_error error; /* why cli_job_open failed */
};

/* The values that hold without options. */
#define CLI_JOB_INIT(stop_timeout)                                                                 \
    {                                                                                              \
        .grace_ms = SIMBA_UNSET, .wait_ms = SIMBA_UNSET, .hold_at_most_ms = SIMBA_INFINITE,        \
        .stop_timeout_ms = (stop_timeout),                                                         \
    }

/* The default of --stop-timeout for verbs that go on until a signal tells them to end. */
#define CLI_JOB_STOP_TIMEOUT_MS 10000

/* The options that all of these verbs have. */
extern const struct cli_option cli_job_options[];

/* Applies --note to a struct cli_job. */
bool cli_job_set_note(void *into, const char *value);

/* Takes the NAME and the COMMAND, and chooses the id of the contender. Returns CLI_CONTINUE or an
 * exit code. */
int cli_job_prepare(struct cli_job *job, struct cli *cli, char **argv);

/* Whether the wait has an end, and is one. */
bool cli_job_is_bounded(const struct cli_job *job);

/* How often cli_job_open tries again; without an end of the wait less and less often. */
#define CLI_JOB_REOPEN_MS 200
#define CLI_JOB_REOPEN_MAX_MS 2000

/* Opens the store, and chooses the grace or refuses the one that was given. A store that is down is
 * tried again until `until_ms` (0: not at all; SIMBA_INFINITE: for ever). Returns an error of the
 * library. */
int cli_job_open(struct cli_job *job, int64_t until_ms);

/* Asks the open store for the owner. Refuses a name that the store does not accept, and a mutex
 * whose owner runs this program (SIMBA_EMISUSE): both would be tried for ever. What else is wrong
 * with the store may pass: SIMBA_OK. */
int cli_job_check(struct cli_job *job);

/* Whether this program runs in the command of a simba, however deep; and of the one with this
 * id. */
bool cli_job_is_nested(void);
bool cli_job_runs_under(const char *id);

/* Called when a term begins, with the time that its lease has for renewals: cuts grace and reserve
 * where that is shorter than what was asked for, as with sessions of ZooKeeper. */
void cli_job_fit(struct cli_job *job, int64_t window_ms);

/* Whether a lease with this deadline ends so soon that its command has to be stopped: the store has
 * not renewed it in time. */
bool cli_job_runs_out(const struct cli_job *job, int64_t deadline_ms);

/* The mutex, for the warning that it was not released; NULL where warnings are not wanted. */
const char *cli_job_held(const struct cli_job *job);

/* Whether it is a semaphore or a set. */
bool cli_job_is_group(const struct cli_job *job);

/* A run under this lease. `shown_id` and `fence` are for the command to see. */
struct cli_run cli_job_run(const struct cli_job *job, const char *shown_id, uint64_t fence,
                           const struct cli_lease *lease);

/* Keeps the mutex until that instant, though the command has ended. A signal that tells to end, a
 * request to hand over, or the loss of the lease ends that. Returns whether the mutex is still
 * held. */
bool cli_job_hold(const struct cli_job *job, const struct cli_lease *lease, int64_t until_ms);

#endif
