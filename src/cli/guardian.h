/*
 * guardian.h - kills the command's whole process group when this process dies without having ended it.
 *
 * The kernel's parent-death signal reaches the command alone, not what it has started: a script would
 * die and its rsync would go on without the mutex. The guardian is a process that does nothing but wait
 * for this one to end, SIGKILL included.
 */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

struct cli_guardian {
    pid_t pid;
    int fd; /* its end, however it comes about, is what the guardian waits for */
};

/* Starts one, which guards nothing yet. Returns false, with errno, when it cannot. */
bool cli_guardian_start(struct cli_guardian *guardian);

/* Names the process group to kill. Async-signal-safe. */
void cli_guardian_watch(const struct cli_guardian *guardian, pid_t group);

/* Ends it without harm to the group. To be called while the group's id cannot be another's. */
void cli_guardian_dismiss(struct cli_guardian *guardian);

#endif
