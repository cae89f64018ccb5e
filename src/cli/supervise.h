/*
 * supervise.h - keeps a child and its lease together.
 *
 * The child runs only while the lease does. All signals that this process gets go to the child.
 */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include "cli/child.h"

struct cli_lease {
    const char *mutex;
    /* The instant, on simba_now_ms(), at which the lease ends unless it is renewed before; 0: it is
     * lost. It lies a drift margin before anybody else can own. */
    int64_t (*deadline_ms)(void *user);
    void *user;
    int lost_fd;      /* becomes readable when the lease is lost before its deadline */
    int64_t grace_ms; /* how long before the deadline the child is asked to end */
};

/* Starts the command and returns when it has ended, with its exit code, or CLI_EXIT_LOST when the lease
 * ended first. CLI_EXIT_SYSTEM when it could not be started. */
int cli_supervise(char **command, const struct cli_child_lease *shown,
                  const struct cli_lease *lease, int signals_fd);

#endif
