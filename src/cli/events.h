/*
 * events.h - what the main thread sleeps on: signals, taken as events in place of interruptions,
 * and a clock; and what it tells the service manager meanwhile.
 *
 * All catchable signals are blocked before the first thread starts, so that none is delivered to a
 * thread of the library, and are read from a descriptor by the main thread. The clock is that of
 * the leases, which goes on while the machine is suspended.
 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <simba/simba.h>

#include <stdbool.h>
#include <stdint.h>

/* ---- Signals --------------------------------------------------------------------------------- */

/* Call it first: remembers what the program was started with, and makes a write into a closed pipe
 * or socket an error in place of the end of the program. */
void cli_signals_init(void);

/* Blocks the signals and opens the descriptor. Signals that were ignored when the program was
 * started (nohup) stay ignored. Returns false, with errno, on failure. */
bool cli_signals_take(int *ret_fd);

/* The next signal that has come, 0 when there is none. Those that the program caused itself, by
 * writing into a closed pipe, are dropped. */
int cli_signals_next(int fd);

/* Takes those that have come, up to one that `ends`, such as cli_signal_ends. Returns that, 0:
 * none. Ctrl-Z stops the program. */
int cli_signals_take_end(int fd, bool (*ends)(int signal));

/* Whether a signal has come that cli_signals_next has not returned yet. */
bool cli_signal_is_pending(int signal);

/* Whether the default action of the signal is to end the process. */
bool cli_signal_ends(int signal);

/* Whether the signal tells this program to end, and not only its command: SIGTERM, SIGINT, SIGQUIT,
 * and SIGHUP where there is a terminal to hang up. */
bool cli_signal_tells_to_end(int signal);

/* Whether the signal that cli_signals_next has just returned tells to end, and does not repeat the
 * one before: timeout(1) sends it to a process and then to all of its group. */
bool cli_signal_insists(int signal);

/* The same for the last steps of the program, which the first request has begun: whether it is a
 * later one. */
bool cli_signal_insists_again(int signal);

/* The exit code of a verb that goes on until it is told to end: 0 for SIGTERM and SIGINT. */
int cli_signal_exit_code(int signal);

/* Whether its default action is to stop the process. */
bool cli_signal_stops(int signal);

/* Stops this process as Ctrl-Z does; returns when it was continued. False: it did not stop, since
 * the kernel does not stop a process that no shell would continue. For the main thread. */
bool cli_signals_stop(void);

/* The same for all of its process group, by a signal that stops. */
bool cli_signals_stop_job(int signal);

/* The same; after the limit this process, and no other of the group, gets a SIGCONT. */
bool cli_signals_stop_job_for(int signal, int64_t limit_ms);

/* The exit code of a program that a signal has ended. It is remembered for cli_signals_leave. For
 * the main thread. */
int cli_signals_ended_by(int signal);

/* The last step of the program, when all has been given back and printed. Where `status` is that of
 * an interrupt (SIGINT, SIGQUIT) it ends by that signal: the shell that runs a script ends the
 * script only then. Otherwise returns `status`. */
int cli_signals_leave(int status);

/* In a child, before exec: as the program was started. Async-signal-safe. */
void cli_signals_restore(void);

/* ---- Sleeping -------------------------------------------------------------------------------- */

struct cli_events {
    int signals_fd;
    int timer_fd;
    bool reaps; /* a pause collects orphans: see cli_orphans_adopt */
    /* Called before each sleep; returns when it wants to be called again. NULL: none. */
    int64_t (*before_sleep)(void *user);
    void *user;
};

/* Calls cli_signals_take, too. Returns false, with errno, on failure. */
bool cli_events_open(struct cli_events *events);
void cli_events_close(const struct cli_events *events);

/* Sleeps until that instant on simba_now_ms() (SIMBA_INFINITE: without a limit), a signal, or
 * something to read from `wake_fd` (-1: none). Returns whether it was the last. */
bool cli_events_sleep(const struct cli_events *events, int wake_fd, int64_t until_ms);

#define CLI_PAUSE_OVER 0
#define CLI_PAUSE_WOKEN (-1)

/* The same while no command runs: takes signals, and goes on sleeping unless one tells the program
 * to end (its number is returned). Ctrl-Z stops the program. */
int cli_events_pause(const struct cli_events *events, int wake_fd, int64_t until_ms);

/* Takes all signals that have come. Returns the last one that tells the program to end, 0: none. */
int cli_events_drain(const struct cli_events *events);

/* ---- The service manager: notify.c ----------------------------------------------------------- */

/* READY=1: the program does what it was started for. Where the socket of the manager is full,
 * cli_notify_retry tries again: otherwise the unit would never be up. For the main thread, like the
 * functions of the watchdog; the others are for any thread. */
void cli_notify_ready(void);

/* Called before the main thread sleeps. Returns when to call it again, on simba_now_ms();
 * SIMBA_INFINITE: not needed. */
int64_t cli_notify_retry(void);

/* A sentence for `systemctl status`. */
void cli_notify_status(const char *format, ...) SIMBA_PRINTF(1, 2);

/* The same while the program is not ready yet: gives its start half a minute more. */
void cli_notify_starting(const char *format, ...) SIMBA_PRINTF(1, 2);

/* STOPPING=1: it is about to end. */
void cli_notify_stopping(void);

/* WATCHDOG=1, where the manager asks for it (WATCHDOG_USEC), twice in its interval. For the main
 * thread, when it has found that all is well. */
void cli_notify_healthy(void);

/* When that is due next, on simba_now_ms(); SIMBA_INFINITE: never. */
int64_t cli_notify_healthy_at_ms(void);

#endif
