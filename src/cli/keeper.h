/*
 * keeper.h - a process in the background that holds a mutex for as long as another process lives:
 * for `simba acquire --keep`.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include "cli/contest.h"

#include <sys/types.h>

struct cli_keeper {
    bool is_keeper; /* this process is the one in the background */
    int kept_fd;    /* a pidfd of the process that the mutex is held for */
    int word_fd;    /* a socket to the other of the two */
    pid_t child;    /* of the process that is not the keeper */
};

/* What the keeper tells when it owns. */
struct cli_keeper_word {
    char id[SIMBA_ID_MAX + 1];
    uint64_t fence;
    long pid;
};

/* Takes hold of the process PID and forks. Both processes return: see is_keeper. Before there are
 * threads. Returns CLI_CONTINUE or an exit code. */
int cli_keeper_fork(struct cli_keeper *keeper, pid_t pid);

/* In the first process: waits until the keeper owns. Returns CLI_CONTINUE, or the exit code of a
 * keeper that has ended. */
int cli_keeper_listen(struct cli_keeper *keeper, struct cli_keeper_word *ret_word);

/* In the keeper, whose contest has won with `status`: leaves the terminal, and holds the mutex
 * until PID ends or a signal comes; not at all if a signal came with the mutex. Then releases.
 * Returns the exit code. */
int cli_keeper_hold(struct cli_keeper *keeper, struct cli_contest *contest, int status);

#endif
