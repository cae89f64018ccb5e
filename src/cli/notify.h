/*
 * notify.h - tells the service manager how this program is: the protocol of sd_notify(3).
 *
 * A datagram of VARIABLE=VALUE lines to the socket that NOTIFY_SOCKET names. Without that variable nothing
 * is sent; that nobody listens is no error either.
 */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <simba/simba.h>

/* READY=1 and the sentence: the program does what it was started for. Any thread, like the others. */
void cli_notify_ready(const char *format, ...) SIMBA_PRINTF(1, 2);

/* A sentence for `systemctl status`. */
void cli_notify_status(const char *format, ...) SIMBA_PRINTF(1, 2);

/* STOPPING=1: it is about to end. */
void cli_notify_stopping(void);

#endif
