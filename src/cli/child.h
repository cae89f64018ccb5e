/*
 * child.h - the command that runs under a mutex: a process group of its own, tied to the life of this
 * process.
 *
 * Knows nothing of leases. All functions are for the main thread only: the kernel ties the child to the
 * thread that forked it.
 */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include "cli/guardian.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_child {
    pid_t pid;      /* also the id of its process group */
    int failure_fd; /* brings errno when the command could not be executed */
    bool terminal;  /* the terminal was handed to it */
    bool failed;    /* after cli_child_collect: the command could not be executed */
    const char *command;
    struct cli_guardian guardian;
};

/* What the child finds in its environment. */
struct cli_child_lease {
    const char *mutex;
    const char *id;
    uint64_t fence;
    bool notify; /* also the socket of the service manager, which is this program's own otherwise */
};

/* Starts argv, with the signals, descriptors and environment that this process was started with, and
 * SIMBA_MUTEX, SIMBA_CONTENDER_ID and SIMBA_FENCE. When this process is in the foreground of the terminal
 * on standard input, the child gets that place. Returns false, with errno, when it cannot fork. */
bool cli_child_start(struct cli_child *child, char **argv, const struct cli_child_lease *lease);

/* Sends a signal to all of its group. Returns false, with errno, when nobody in it could be reached:
 * who has changed its user is not this process's to signal. */
bool cli_child_signal(const struct cli_child *child, int signal);

/* Kills the child and all of its group. Returns false, with errno, when the child cannot be killed. */
bool cli_child_kill(const struct cli_child *child);

enum cli_child_event {
    CLI_CHILD_RUNS,    /* nothing new */
    CLI_CHILD_STOPPED, /* by a signal of job control */
    CLI_CHILD_ENDED    /* and is still to be collected */
};
enum cli_child_event cli_child_look(const struct cli_child *child);

/* Stops this process (and with it its job, when it had the terminal) because the child stopped;
 * returns when it was continued. */
void cli_child_follow_stop(const struct cli_child *child);

/* After a SIGCONT: gives the child the terminal again where this process has it, and continues it. */
void cli_child_continue(struct cli_child *child);

/* Collects a child that has ended, takes the terminal back and says so when the command could not be
 * executed. Returns its exit code, or 128 and the signal that killed it. */
int cli_child_collect(struct cli_child *child);

/* After cli_child_collect: whether somebody of the group is left who could not be killed. */
bool cli_child_left_others(const struct cli_child *child);

/* In place of cli_child_collect, for a child that cannot be killed: leaves it to itself. */
void cli_child_abandon(struct cli_child *child);

#endif
