/*
 * stage.h - what most tests begin with: one server for all tests of a program, a witness that looks
 * at it, and a client of the backend without the library above it.
 */
#ifndef SIMBA_TEST_ZOOKEEPER_STAGE_H
#define SIMBA_TEST_ZOOKEEPER_STAGE_H

#include "backend/host.h"
#include "witness.h"

extern struct server server;
extern struct witness witness;
extern struct host host;

/* Fixtures of a group: the server, alone or with a witness. */
int stage_start(void **state);
int stage_stop(void **state);
int stage_start_watched(void **state);
int stage_stop_watched(void **state);

/* Opens the client, with what follows the server in its URL; fails the test when it cannot. */
void stage_open_host(const char *rest);

/* A fixture of a test: closes it. */
int stage_close_host(void **state);

#endif
