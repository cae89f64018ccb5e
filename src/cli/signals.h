/*
 * signals.h - takes signals as events in place of interruptions.
 *
 * All catchable signals are blocked before the first thread starts, so that none is delivered to a
 * thread of the library, and are read from a descriptor by the main thread.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Call it first: remembers what the program was started with, and makes a write into a closed pipe or
 * socket an error in place of the end of the program. */
void cli_signals_init(void);

/* Blocks the signals and opens the descriptor. Signals that were ignored when the program was started
 * (nohup) stay ignored. Returns false, with errno, on failure. */
bool cli_signals_take(int *ret_fd);

/* The next signal that has come, 0 when there is none. Those that the program caused itself, by
 * writing into a closed pipe, are dropped. */
int cli_signals_next(int fd);

/* Whether a signal has come that cli_signals_next has not returned yet. */
bool cli_signal_is_pending(int signal);

/* Whether the default action of the signal is to end the process. */
bool cli_signal_ends(int signal);

/* Whether it tells a program to end for good, and is not a word to a command that goes on: SIGTERM, SIGINT,
 * SIGQUIT, and SIGHUP where there is a terminal to hang up. */
bool cli_signal_tells_to_end(int signal);

/* Whether one that cli_signals_next has just returned tells to end, and not only repeats the one before: timeout(1)
 * sends it to a process and then to all of its group. */
bool cli_signal_insists(int signal);

/* The same, for the last steps of a program that ends anyway: the first request is one that they fulfil already. */
bool cli_signal_insists_again(int signal);

/* The exit code of a verb that goes on until it is told to end: SIGTERM and SIGINT are how it ends well. */
int cli_signal_exit_code(int signal);

/* Whether its default action is to stop the process. */
bool cli_signal_stops(int signal);

/* Stops this process as Ctrl-Z does; returns when it was continued. False: it did not stop, because the kernel
 * stops nobody whom no shell would continue. For the main thread. */
bool cli_signals_stop(void);

/* The same for all of its process group, by a signal that stops. */
bool cli_signals_stop_job(int signal);

/* The same; after the limit this process, and no other of the group, gets a SIGCONT. */
bool cli_signals_stop_job_for(int signal, int64_t limit_ms);

/* The exit code of a program that a signal has ended. It is remembered for cli_signals_leave. For the main thread. */
int cli_signals_ended_by(int signal);

/* The last step of the program, when all has been given back and printed. Where `status` is that of an interrupt
 * (SIGINT, SIGQUIT) it ends by that signal: the shell that runs a script ends the script only then. Otherwise
 * returns `status`. */
int cli_signals_leave(int status);

/* In a child, before exec: as the program was started. Async-signal-safe. */
void cli_signals_restore(void);

#endif
