/*
 * queue.h - three clients whose contenders wait in line, for tests of that.
 */
#ifndef SIMBA_TEST_SQLSERVERS_QUEUE_H
#define SIMBA_TEST_SQLSERVERS_QUEUE_H

#include "server.h"

#include "backend/host.h"

#define RESERVE_MS 900 /* long, because machines are slow at times */

extern struct host one, two, three;

/* cmocka fixtures, which open and close them. */
int open_clients(void **state);
int close_clients(void **state);

#define ON_CLIENTS(test) cmocka_unit_test_setup_teardown(test, open_clients, close_clients)

struct call acquire(struct host *host, const char *mutex, const char *id);
struct call wins(struct host *host, const char *mutex, const char *id);
struct call wins_at_last(struct host *host, const char *mutex, const char *id); /* waits */
void gives_back(struct host *host, const struct call *held);
void waits(struct host *host, const char *mutex, const char *id, const char *owner);

/* For test_wait(): whether the client can acquire, perhaps over a new connection. */
bool is_back(void *host);

/* How many rows of simba_waiter count for something. */
int64_t rows_of(const char *mutex);

/* A contender listens for releases. Once it waits, the client hears of them after a while: what
 * came before is not told. */
void hears(struct host *host, const char *mutex, const char *id);
void hear_by_now(struct host *host);

/* By the statements of the other library, with the id "jvm". */
bool jvm_acquires(const char *mutex);
void jvm_releases(const char *mutex);

#endif
