/*
 * health.h - asks a command of the user at intervals whether the supervised command is well.
 */
#ifndef CLI_HEALTH_H
#define CLI_HEALTH_H

#include <simba/simba.h>

#include <sys/types.h>

struct cli_health {
    const char *check; /* for the shell; NULL: nothing is asked */
    int64_t every_ms;  /* from one check to the next, and the time that each gets */

    /* Of a run: */
    pid_t pid;       /* of the check, and its process group; 0: none is under way */
    int result_fd;   /* brings its exit code */
    int64_t next_ms; /* when the check begins, or has had its time */
    int passed;      /* checks */
    bool failed;     /* one has */
};

/* A run begins. */
void cli_health_begin(struct cli_health *health);

/* Starts a check that is due, with this environment, and judges one that has ended or has had its
 * time: says why it failed. Returns when to call it again; it may be called earlier, such as after
 * a SIGCHLD. For the main thread. */
int64_t cli_health_step(struct cli_health *health, char **environment);

/* The run has ended: so does a check. */
void cli_health_end(struct cli_health *health);

#endif
