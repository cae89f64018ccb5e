/*
 * port.h - free ports of the loopback for the servers of tests.
 */
#ifndef SIMBA_TEST_PORT_H
#define SIMBA_TEST_PORT_H

/* A port that nobody listens on. No other test gets it, in whatever process, while this one lives:
 * also not before the server listens, nor while it is down for a moment. Never given back. */
int test_free_port(void);

#endif
