/*
 * orphans.h - what a command leaves running: finds it, waits for it, ends it.
 *
 * A process group is not enough: the jobs of an interactive shell have groups of their own, and a daemon a
 * session. So this process inherits whoever loses its parent below it; its children are then all that is left.
 */
#ifndef CLI_ORPHANS_H
#define CLI_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CLI_ORPHANS_MAX 1024 /* looked at in one go; the rest in the next one */

/* Inherits orphans from now on, and remembers the children that this process has: they are no orphans. What such
 * a child leaves behind later cannot be told from what the command leaves, and counts as the command's. False: it does
 * not inherit, because the kernel refuses, or because it cannot list its children, which it says. */
bool cli_orphans_adopt(void);

/* The children that the main thread of `parent` has, which includes all that it inherits, without those that
 * cli_orphans_adopt remembers. Returns how many were found; none also where the kernel does not tell.
 * Async-signal-safe. */
size_t cli_orphans_find(pid_t parent, pid_t *pids, size_t max);

/* Whether anybody of a process group runs; who has ended and was not collected does not. Async-signal-safe. */
bool cli_orphans_group_lives(pid_t group);

/* Those who are no orphans: the command and its guardian. */
struct cli_relatives {
    pid_t command;
    pid_t guardian;
};

/* Collects the orphans that have ended. */
void cli_orphans_reap(const struct cli_relatives *relatives);

/* Lets orphans end by themselves for that long. Returns whether some have not. */
bool cli_orphans_await(const struct cli_relatives *relatives, int64_t limit_ms);

/* Whether the kernel tells of the children of this process: not without /proc. */
bool cli_orphans_are_listed(void);

/* Where it does not, and all relatives have been collected: lets orphans end by themselves for that long. Returns
 * whether some have not. */
bool cli_orphans_await_unlisted(int64_t limit_ms);

/* Kills and collects until nobody is left whom this process may kill. Returns whether some are left. */
bool cli_orphans_kill(const struct cli_relatives *relatives);

#endif
