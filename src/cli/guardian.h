/*
 * guardian.h - kills what the command has started when this process cannot: it was killed, or it
 * stands still while the lease ends.
 *
 * The kernel's parent-death signal reaches the command alone, not what it has started: a script
 * would die and its rsync would go on without the mutex. And a stop of this process (SIGSTOP, a
 * debugger) does not stop the command. The guardian is a process that only waits for this one to
 * end, SIGKILL included, or for the last known end of the lease.
 */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Call it first, before the arguments are moved: remembers where the kernel has put them, so that
 * `ps` shows a name of its own for a guardian and not the command line of its parent. */
void cli_guardian_keep_arguments(int argc, char **argv);

struct cli_guardian {
    pid_t pid; /* 0: there is none */
    int fd;    /* its end, however it comes about, is what the guardian waits for */
};

/* None, or one that has ended. No function does anything with it. */
#define CLI_GUARDIAN_NONE ((struct cli_guardian){.pid = 0, .fd = -1})

struct cli_guardian_setup {
    bool adopts;     /* at the end of the lease it kills all children of this process, too */
    int liveness_fd; /* stays open until what was to be killed is dead; -1: none */
    pid_t group; /* as in cli_guardian_watch, known to it from birth; 0: it guards nothing yet */
    int64_t deadline_ms;
};

/* Starts one. Returns false, with errno, when it cannot. */
bool cli_guardian_start(struct cli_guardian *guardian, const struct cli_guardian_setup *setup);

/* Names the process group to kill and the end of its lease, on simba_now_ms().
 * Async-signal-safe. */
void cli_guardian_watch(const struct cli_guardian *guardian, pid_t group, int64_t deadline_ms);

/* Whether it has ended by itself; then it has been collected. */
bool cli_guardian_has_ended(struct cli_guardian *guardian);

/* Kills it without harm to the group, before the child is collected: until then no other group can
 * get that id. To be followed by cli_guardian_collect, before the next one is dismissed. */
void cli_guardian_dismiss(struct cli_guardian *guardian);

/* Waits until the last one that was dismissed is gone. */
void cli_guardian_collect(void);

#endif
