/*
 * terminal.h - the terminal that controls this process, and whose turn it is at it.
 *
 * It is reached by its own name, not by standard input: that may be a file while a password is asked for at the
 * terminal.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* A descriptor of the terminal, or -1 where there is none. */
int cli_terminal_open(void);

/* Whether this process has the foreground and nobody else of its job needs it. In a pipeline somebody may: `simba
 * lock N -- CMD | less` needs the keys for less. */
bool cli_terminal_is_ours(int fd);

/* Gives the foreground to a group. Works from the background as well, since SIGTTOU is blocked. */
void cli_terminal_give(int fd, pid_t group);

#endif
