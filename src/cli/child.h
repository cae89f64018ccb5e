/*
 * child.h - the command that runs under a mutex: a process group of its own, which ends with this
 * process; and its supervision under a lease (supervise.c).
 *
 * All functions are for the main thread only: the kernel ties the child to the
 * thread that forked it.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/events.h"
#include "cli/guardian.h"
#include "cli/health.h"

#include <simba/simba.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

struct cli_child {
    pid_t pid;      /* also the id of its process group */
    int failure_fd; /* brings errno when the command could not be executed */
    int tty_fd;     /* -1: there is no terminal, or it is not for the child */
    bool withheld;  /* the terminal is not for it */
    bool terminal;  /* it was handed to it */
    bool lent;      /* only when it asks: others of this job want the terminal, too */
    bool has_modes; /* `modes` are those of the terminal before the child */
    struct termios modes;
    bool adopts; /* this process inherits what the child leaves running */
    bool failed; /* after cli_child_collect: the command could not be executed */
    const char *command;
    int liveness_fd;     /* of simba_client_life_fd, for the command; -1: none */
    int guardian_fd;     /* the same for the guardian: a lock that the command cannot give up */
    int64_t deadline_ms; /* the end of the lease as the guardian knows it */
    struct cli_guardian guardian;
    int64_t guardian_at_ms; /* when to try again to start one; SIMBA_INFINITE: not needed */
};

/* How a child is started, and what it finds in its environment. */
struct cli_child_setup {
    const char *mutex;
    const char *id;
    uint64_t fence;
    const char *fences; /* of each mutex of a set, "a=12 b=7"; NULL: it is none */
    int slot;           /* of a semaphore; -1: it is none */
    const char *store;  /* the variable that names it; "": the environment does already */
    bool notify; /* also the socket of the service manager, which is this program's own otherwise */
    bool terminal;        /* the terminal is for the child, where this process has it */
    bool adopts;          /* cli_orphans_adopt has succeeded */
    simba_client *client; /* whose liveness descriptors child and guardian get */
    int64_t deadline_ms;  /* the end of the lease */
};

struct cli_environment {
    char **list; /* what is inherited, what the setup says, NULL */
    char *texts; /* of what the setup says, one behind the other */
};

/* The environment of a child, with what its store adds. Valid as long as the setup and this
 * process's own one are. Returns false, with errno, without memory. Free takes one that is
 * zeroed. */
bool cli_environment_build(struct cli_environment *environment,
                           const struct cli_child_setup *setup);
void cli_environment_free(struct cli_environment *environment);

/* Starts argv, with the signals, descriptors and environment that this process was started with,
 * and SIMBA_MUTEX, SIMBA_CONTENDER_ID, SIMBA_FENCE, and SIMBA_SLOT or SIMBA_FENCES. When this
 * process has the foreground of its terminal for itself, the child gets that place; when the
 * terminal is not for it, it does not get it as standard input either, and reading /dev/tty is an
 * error. Returns false, with errno, when it cannot fork. */
bool cli_child_start(struct cli_child *child, char **argv, const struct cli_child_setup *setup);

/* Tells the guardian of a later end of the lease. */
void cli_child_guard(struct cli_child *child, int64_t deadline_ms);

/* Replaces a guardian that has ended. Returns when to call it again, where it could not;
 * SIMBA_INFINITE: after a SIGCHLD. */
int64_t cli_child_check_guardian(struct cli_child *child);

/* After a SIGCHLD: collects those that have ended of what the child left behind. */
void cli_child_reap(const struct cli_child *child);

/* Sends a signal to the group, and to the child where it has left the group. Returns false, with
 * errno, when no process could be reached: one that has changed its user cannot be signalled. */
bool cli_child_signal(const struct cli_child *child, int signal);

/* Kills the child and all of its group. Returns false, with errno, when the child cannot be
 * killed. */
bool cli_child_kill(const struct cli_child *child);

/* Whether a child that has ended left processes running that do not end soon by themselves. */
bool cli_child_leaves_others(const struct cli_child *child);

struct cli_lease;

/* Before the child is collected: kills all that it left running, and goes on while the lease lasts.
 * Returns whether some could not be killed. */
bool cli_child_sweep(const struct cli_child *child, const struct cli_lease *lease);

/* After it was collected: whether it left processes running that the sweep could not find, because
 * there is no /proc of this pid namespace. */
bool cli_child_leaves_unlisted(const struct cli_child *child);

enum cli_child_event {
    CLI_CHILD_RUNS,    /* nothing new */
    CLI_CHILD_STOPPED, /* by the user */
    CLI_CHILD_WAITS,   /* it was stopped until it gets the terminal */
    CLI_CHILD_ENDED    /* and is still to be collected */
};
enum cli_child_event cli_child_poll(const struct cli_child *child);

/* After CLI_CHILD_WAITS: gives the child the terminal where the job of this process has it, and
 * continues it. False: another job has it. */
bool cli_child_lend_terminal(struct cli_child *child);

/* After a SIGTTIN or SIGTTOU, by which others of the job were stopped: they get the terminal back,
 * and go on. False: the child does not have it. */
bool cli_child_return_terminal(struct cli_child *child);

/* After CLI_CHILD_STOPPED: stops this process, and its job where that has the terminal. Returns
 * when it was continued. False: it did not stop, since no shell would continue it. */
bool cli_child_follow_stop(const struct cli_child *child);

/* After CLI_CHILD_WAITS: stops the job as the kernel does, so that the owner of the terminal sees
 * it. Also returns after the limit, with a SIGCONT; SIMBA_INFINITE: none. */
bool cli_child_ask_for_terminal(int64_t limit_ms);

/* After a SIGCONT: gives the child the terminal again where this process has it, and continues
 * it. */
void cli_child_continue(struct cli_child *child);

/* Collects a child that has ended, takes the terminal back and says so when the command could not
 * be executed. Returns its exit code, or 128 and the signal that killed it. The guardian is for
 * cli_guardian_collect. */
int cli_child_collect(struct cli_child *child);

/* In place of cli_child_collect, for a child that cannot be killed: leaves it to itself. */
void cli_child_abandon(struct cli_child *child);

/* ---- Under a lease: supervise.c -------------------------------------------------------------- */

struct cli_lease {
    const char *mutex;
    /* The instant, on simba_now_ms(), at which the lease ends unless it is renewed before; 0: it is
     * lost. It lies a drift margin before another contender can own. */
    int64_t (*deadline_ms)(void *user);
    void *user;
    /* Whether the owner is asked to hand the mutex over. */
    bool (*is_asked)(void *user);
    int wake_fd; /* becomes readable when the lease is lost before its deadline, or it is asked */
    int64_t grace_ms; /* from SIGTERM to SIGKILL */
    int64_t
        reserve_ms; /* from SIGKILL to the deadline, for a machine that is slow to carry it out */
};

struct cli_run {
    char **command;
    struct cli_child_setup setup;
    struct cli_lease lease;
    const struct cli_events *events;
    int64_t limit_at_ms;     /* when the command has had its time; SIMBA_INFINITE: never */
    int64_t stop_timeout_ms; /* from a signal that tells to end to SIGKILL; SIMBA_INFINITE: never */
    bool sweep;              /* what the command leaves running ends with it */
    struct cli_health *health; /* NULL: nobody checks it */
};

enum cli_ending {
    CLI_ENDED,            /* by itself, or by a signal that was passed on to it */
    CLI_ENDED_LOST,       /* the lease ended first */
    CLI_ENDED_OVERDUE,    /* it was stopped at its limit */
    CLI_ENDED_UNHEALTHY,  /* it was stopped since its health check failed */
    CLI_ENDED_HANDOVER,   /* it was stopped since the mutex is to be handed over */
    CLI_ENDED_TOLD,       /* a signal told this program to end, or the command got SIGHUP */
    CLI_ENDED_NOT_STARTED /* it could not be started */
};

struct cli_outcome {
    enum cli_ending how;
    int status; /* the command's exit code, or 128 and the signal; where it does not count, ours */
    int signal; /* the last one that told this program to end, 0: none */
};

/* Starts the command and returns when it has ended. */
struct cli_outcome cli_supervise(const struct cli_run *run);

#endif
