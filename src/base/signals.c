/*
 * signals.c - a signal is blocked, and what came of it is taken away before it is let through
 * again.
 */
#include "base/signals.h"

#include <time.h>

static void hold_also(struct sb_signal_hold *hold, int number)
{
    if (sigismember(&hold->before, number) != 0)
        return;
    sigaddset(&hold->held, number);
    hold->any = true;
}

void sb_signal_hold_two(struct sb_signal_hold *hold, int first, int second)
{
    sigset_t both;

    sigemptyset(&both);
    sigaddset(&both, first);
    sigaddset(&both, second);
    pthread_sigmask(SIG_BLOCK, &both, &hold->before);
    sigemptyset(&hold->held);
    hold->any = false;
    hold_also(hold, first);
    hold_also(hold, second);
}

void sb_signal_hold(struct sb_signal_hold *hold, int number)
{
    sb_signal_hold_two(hold, number, number);
}

void sb_signal_let_go(const struct sb_signal_hold *hold)
{
    const struct timespec now = {0};

    if (!hold->any)
        return;
    while (sigtimedwait(&hold->held, NULL, &now) >= 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
