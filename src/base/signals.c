/*
 * signals.c - a signal is blocked, and what came of it is taken away before it is let through again.
 */
#include "base/signals.h"

#include <time.h>

void sb_signal_hold(struct sb_signal_hold *hold, int number)
{
    hold->number = number;
    sigemptyset(&hold->held);
    sigaddset(&hold->held, number);
    pthread_sigmask(SIG_BLOCK, &hold->held, &hold->before);
}

void sb_signal_let_go(const struct sb_signal_hold *hold)
{
    const struct timespec now = {0};

    if (sigismember(&hold->before, hold->number) != 0)
        return;
    while (sigtimedwait(&hold->held, NULL, &now) >= 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
