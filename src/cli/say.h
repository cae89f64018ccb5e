/*
 * say.h - what the program says on standard error, and the exit code that goes with it.
 *
 * Standard output is for results only.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <simba/simba.h>

/* Prints "simba: " and the sentence as one line, in one write. Once a store is open it does not wait for
 * the reader of standard error; see printer.h. */
void cli_say(const char *format, ...) SIMBA_PRINTF(1, 2);

/* The log hook for clients: "simba: warning: ...". */
void cli_say_log(void *user, enum simba_log_level level, const char *line);

/* Holds the library's warnings back until cli_say_resume prints them, but for those that only repeat the error that
 * is about to be told (NULL: none is). Any thread. */
void cli_say_hold(void);
void cli_say_resume(const char *told);

/* The exit code for an error of the library. */
int cli_exit_code(int code);

/* Says what failed and returns its exit code. */
int cli_fail(const struct simba_error *error);

/* Says that a call of the system failed, with the text of errno, and returns CLI_EXIT_SYSTEM. */
int cli_fail_system(const char *what);

#endif
