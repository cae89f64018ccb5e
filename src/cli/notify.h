/*
 * notify.h - tells the service manager how this program is: the protocol of sd_notify(3).
 *
 * A datagram of VARIABLE=VALUE lines to the socket that NOTIFY_SOCKET names. Without that variable nothing
 * is sent; that nobody listens is no error either.
 */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <simba/simba.h>

/* READY=1: the program does what it was started for. It brings no sentence, which could come after a later one of
 * another thread. A manager that has no room for it is told again by cli_notify_retry: a unit would never be up
 * otherwise. For the main thread, like the watchdog's; the others are for any. */
void cli_notify_ready(void);

/* To be called before the main thread sleeps. Returns when to call it again, on simba_now_ms(); SIMBA_INFINITE:
 * there is nothing to tell again. */
int64_t cli_notify_retry(void);

/* A sentence for `systemctl status`. */
void cli_notify_status(const char *format, ...) SIMBA_PRINTF(1, 2);

/* STOPPING=1: it is about to end. */
void cli_notify_stopping(void);

/* WATCHDOG=1, where the manager wants to hear it (WATCHDOG_USEC) and it is due: twice in its interval. For
 * the main thread, when it has found that all is well. */
void cli_notify_healthy(void);

/* When that is due next, on simba_now_ms(); SIMBA_INFINITE: never. */
int64_t cli_notify_healthy_at_ms(void);

#endif
