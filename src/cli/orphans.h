/*
 * orphans.h - finds, awaits and kills the processes that a command leaves running.
 *
 * A process group is not enough: the jobs of an interactive shell have groups of their own, and a
 * daemon has a session. So this process inherits the processes below it that lose their parent. Its
 * children are then all that the command has left.
 */
#ifndef CLI_ORPHANS_H
#define CLI_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- What the kernel tells in /proc: all of it is async-signal-safe -------------------------- */

/* Looks at one entry. Returns whether to go on. */
typedef bool cli_proc_visit(int number, void *user);

/* Visits the entries in the order of their numbers. What visit closes or ends hides no other entry.
 * Returns false where the folder cannot be read. Async-signal-safe where visit is. */
bool cli_proc_each(const char *folder, cli_proc_visit *visit, void *user);

/* Whether the numbers in /proc are those of this process's pid namespace. After `unshare --pid`
 * without --mount-proc they are not: signals to them would reach strangers. False also without
 * /proc, with errno. */
bool cli_proc_is_ours(void);

/* Keeps the descriptors that a scan of the children needs, and gives them back for it: so a program
 * that has used up all others can still scan. Returns false, with errno, when there are too few. */
bool cli_proc_reserve(void);
void cli_proc_use_reserve(void);

/* Whether the kernel lists the children of this process: not without a /proc that is ours. */
bool cli_proc_lists_children(void);

/* ---- Orphans --------------------------------------------------------------------------------- */

/* Inherits orphans from now on, and remembers the children that this process has: they are no
 * orphans. What such a child leaves behind later counts as the command's. False: it does not
 * inherit, because the kernel refuses, or because it cannot list its children (with a message). */
bool cli_orphans_adopt(void);

struct cli_tree_scan {
    size_t listed; /* below the root itself, the dead included that it has not collected */
    size_t alive;  /* of these: they have got SIGKILL, but may not be dead yet */
    bool failed;   /* for want of descriptors or memory: there may be more */
};

/* Kills all processes below a process, in all generations, but `spared` and those that
 * cli_orphans_adopt remembers. It stops all of them first, so that they cannot start others
 * meanwhile. Processes of another user are left. Async-signal-safe. */
struct cli_tree_scan cli_orphans_kill_tree(pid_t root, pid_t spared);

/* Whether a process of the group runs, or may run because the group cannot be scanned. A process
 * that has ended and was not collected does not run, but without a /proc that is ours it counts.
 * Async-signal-safe. */
bool cli_orphans_group_lives(pid_t group);

/* The children that are no orphans. */
struct cli_known_children {
    pid_t command;
    pid_t guardian;
};

/* Collects the orphans that have ended. */
void cli_orphans_reap(const struct cli_known_children *known);

/* Gives orphans that long to end by themselves. Returns whether some have not. */
bool cli_orphans_await(const struct cli_known_children *known, int64_t limit_ms);

/* The same where the kernel does not list children, when command and guardian have been
 * collected. */
bool cli_orphans_await_unlisted(int64_t limit_ms);

/* Whether it is worth while to go on: the lease lasts. */
typedef bool cli_orphans_insist(const void *user);

/* Kills and collects until none is left that this process may kill. It gives up a second after
 * `insists` was true for the last time. While scans fail for want of descriptors or memory it goes
 * on without a limit. Returns whether some are left. */
bool cli_orphans_kill(const struct cli_known_children *known, cli_orphans_insist *insists,
                      const void *user);

#endif
