/*
 * title.h - what `ps` shows of a process that was forked and goes on without exec.
 *
 * Without it such a process shows the command line of the one that started it, and nobody can tell the two apart.
 */
#ifndef CLI_TITLE_H
#define CLI_TITLE_H

/* Call it first, before the arguments are moved: remembers where the kernel has put them. */
void cli_title_init(int argc, char **argv);

/* Writes over them, and over the environment behind them: from here on neither can be read in this process.
 * Async-signal-safe. */
void cli_title_set(const char *title);

#endif
