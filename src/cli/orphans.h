/*
 * orphans.h - what a command leaves running: finds it, waits for it, ends it.
 *
 * A process group is not enough: the jobs of an interactive shell have groups of their own, and a
 * daemon a session. So this process inherits those below it that lose their parent; its children
 * are then all that is left.
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

/* Keeps as many descriptors as a look needs, until it is needed: a program that has used up all
 * others can look all the same. Returns false with errno when there are not that many. */
bool cli_proc_reserve(void);
void cli_proc_use_reserve(void);

/* Whether the kernel tells of the children of this process: not without /proc. */
bool cli_proc_lists_children(void);

/* ---- Orphans --------------------------------------------------------------------------------- */

/* Inherits orphans from now on, and remembers the children that this process has: they are no
 * orphans. What such a child leaves behind later cannot be told from what the command leaves, and
 * counts as the command's. False: it does not inherit, because the kernel refuses, or because it
 * cannot list its children, which it says. */
bool cli_orphans_adopt(void);

struct cli_tree_look {
    size_t listed; /* below the root itself, the dead included that it has not collected */
    size_t alive;  /* and killed; they need a moment to be dead */
    bool failed;   /* for want of descriptors or memory: there may be more */
};

/* Kills all that it finds below a process, in all generations, but `spared` and those that
 * cli_orphans_adopt remembers: first it stops them, so that they do not outrun it. What may not be
 * killed, because of another user, is left. Async-signal-safe. */
struct cli_tree_look cli_orphans_kill_tree(pid_t root, pid_t spared);

/* Whether anybody of a process group runs, or may run because it cannot look; who has ended and was
 * not collected does not. Async-signal-safe. */
bool cli_orphans_group_lives(pid_t group);

/* The children that are no orphans. */
struct cli_known_children {
    pid_t command;
    pid_t guardian;
};

/* Collects the orphans that have ended. */
void cli_orphans_reap(const struct cli_known_children *known);

/* Lets orphans end by themselves for that long. Returns whether some have not. */
bool cli_orphans_await(const struct cli_known_children *known, int64_t limit_ms);

/* Where the kernel does not tell of children, and command and guardian have been collected: lets
 * orphans end by themselves for that long. Returns whether some have not. */
bool cli_orphans_await_unlisted(int64_t limit_ms);

/* Kills and collects until none is left that this process may kill, for as long as it takes while
 * it cannot look for want of descriptors or memory. Returns whether some are left. */
bool cli_orphans_kill(const struct cli_known_children *known);

#endif
