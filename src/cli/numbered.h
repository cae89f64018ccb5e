/*
 * numbered.h - folders of /proc whose entries are numbers: processes, descriptors.
 */
#ifndef CLI_NUMBERED_H
#define CLI_NUMBERED_H

#include <stdbool.h>

/* Looks at one entry. Returns whether to go on. */
typedef bool cli_numbered_visit(int number, void *user);

/* Visits the entries in the order of their numbers. What visit closes or ends hides no other entry. Returns false
 * where the folder cannot be read. Async-signal-safe where visit is. */
bool cli_numbered_each(const char *folder, cli_numbered_visit *visit, void *user);

#endif
