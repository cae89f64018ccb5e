/*
 * signals.h - keeps a signal that the library's own work may raise from the application's thread on
 * which it runs.
 */
#ifndef SB_BASE_SIGNALS_H
#define SB_BASE_SIGNALS_H

#include "base/shared.h"

#include <signal.h>
#include <stdbool.h>

/* What is held back on this thread. */
struct sb_signal_hold {
    sigset_t held;   /* that were not blocked anyway */
    sigset_t before; /* blocked before */
    bool any;        /* is held */
};

/* Only for signals that the kernel sends to the thread whose system call fails: SIGPIPE,
 * SIGXFSZ. */
void sb_signal_hold(struct sb_signal_hold *hold, int number) SB_SHARED("signal_hold");
void sb_signal_hold_two(struct sb_signal_hold *hold, int first, int second);

/* Takes away what has come meanwhile. A signal that was blocked anyway stays: it may be the
 * application's. */
void sb_signal_let_go(const struct sb_signal_hold *hold) SB_SHARED("signal_let_go");

#endif
