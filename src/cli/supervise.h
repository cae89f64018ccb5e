/*
 * supervise.h - keeps a child and its lease together.
 *
 * The child runs only while the lease does, and no longer than it may. All signals that this process gets
 * go to the child.
 */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include "cli/child.h"
#include "cli/events.h"

struct cli_lease {
    const char *mutex;
    /* The instant, on simba_now_ms(), at which the lease ends unless it is renewed before; 0: it is
     * lost. It lies a drift margin before anybody else can own. */
    int64_t (*deadline_ms)(void *user);
    void *user;
    int lost_fd;      /* becomes readable when the lease is lost before its deadline */
    int64_t grace_ms; /* from SIGTERM to SIGKILL */
    int64_t
        reserve_ms; /* from SIGKILL to the deadline, for a machine that is slow to carry it out */
};

struct cli_run {
    char **command;
    struct cli_child_setup setup;
    struct cli_lease lease;
    const struct cli_events *events;
    int64_t limit_at_ms;   /* when the command has had its time; SIMBA_INFINITE: never */
    int64_t told_grace_ms; /* from a signal that tells to end to SIGKILL; SIMBA_INFINITE: never */
    bool sweep;            /* what the command leaves running ends with it */
};

enum cli_ending {
    CLI_ENDED,         /* by itself, or by a signal that was passed on to it */
    CLI_ENDED_LOST,    /* the lease ended first */
    CLI_ENDED_OVERDUE, /* it was stopped at its limit */
    CLI_ENDED_TOLD,    /* a signal told this program to end, or the command was hung up */
    CLI_ENDED_UNBORN   /* it could not be started */
};

struct cli_outcome {
    enum cli_ending how;
    int status; /* the command's exit code, or 128 and the signal; where it does not count, ours */
    int signal; /* the last one that told this program to end, 0: none */
};

/* Starts the command and returns when it has ended. */
struct cli_outcome cli_supervise(const struct cli_run *run);

#endif
