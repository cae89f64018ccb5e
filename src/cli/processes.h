/*
 * processes.h - what the kernel tells of processes in /proc. All of it is async-signal-safe.
 */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

#include "cli/numbered.h"

#include <stdbool.h>
#include <sys/types.h>

/* Visits the children of all threads of a process, those included that have ended and were not collected. A list that
 * gets shorter meanwhile may hide some of the others. None where the kernel does not tell. False: for want of
 * descriptors or memory it has not seen all. */
bool cli_processes_each_child(pid_t parent, cli_numbered_visit *visit, void *user);

/* Keeps as many descriptors as a look needs, until it is needed: a program that has used up all others can look all the
 * same. Returns false with errno when there are not that many. */
bool cli_processes_reserve(void);
void cli_processes_use_reserve(void);

/* Whether the kernel tells of the children of this process: not without /proc. */
bool cli_processes_are_listed(void);

/* Whether any thread of it runs, or could; one that has ended and was not collected does not. True also where it cannot
 * look for want of descriptors or memory. */
bool cli_processes_runs(pid_t pid);

/* The same, and whether it is a child of that process. */
bool cli_processes_is_living_child(pid_t pid, pid_t parent);

#endif
