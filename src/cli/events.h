/*
 * events.h - what the main thread of a verb that runs commands sleeps on: signals and a clock.
 *
 * The clock is that of the leases, which goes on while the machine is suspended.
 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_events {
    int signals_fd;
    int timer_fd;
    bool
        reaps; /* this process inherits what a command leaves running, and collects it in a pause */
    /* What the verb does besides, before each sleep; returns when it is to be done again. NULL: nothing. */
    int64_t (*tend)(void *user);
    void *user;
};

/* The instant that is `ms` after another; SIMBA_INFINITE where there is none so late. */
int64_t cli_instant_after(int64_t at_ms, int64_t ms);
int64_t cli_instant_earlier(int64_t a_ms, int64_t b_ms);

/* Takes the signals, too; see signals.h. Returns false, with errno, on failure. */
bool cli_events_open(struct cli_events *events);
void cli_events_close(const struct cli_events *events);

/* Sleeps until that instant on simba_now_ms() (SIMBA_INFINITE: without a limit), a signal, or something to
 * read from `wake_fd` (-1: none). Returns whether it was the last. */
bool cli_events_sleep(const struct cli_events *events, int wake_fd, int64_t until_ms);

#define CLI_PAUSE_OVER 0
#define CLI_PAUSE_WOKEN (-1)

/* The same while no command runs: takes signals, and goes on sleeping unless one tells the program to end
 * (its number is returned). Ctrl-Z stops the program. */
int cli_events_pause(const struct cli_events *events, int wake_fd, int64_t until_ms);

/* Takes all signals that have come. Returns the last one that tells the program to end, 0: none. */
int cli_events_drain(const struct cli_events *events);

#endif
