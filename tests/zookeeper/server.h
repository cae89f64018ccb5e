/*
 * server.h - a private ZooKeeper server on a free loopback port in a folder of its own, alone or in
 * an ensemble, and a client that is not ours to look at it with.
 */
#ifndef SIMBA_TEST_ZOOKEEPER_SERVER_H
#define SIMBA_TEST_ZOOKEEPER_SERVER_H

#include "test.h"

#include <sys/types.h>

#define SERVER_TICK_MS 200
#define ENSEMBLE_SIZE 3

struct server {
    pid_t pid; /* 0: not running */
    int port;
    int tick_ms;    /* 0: SERVER_TICK_MS */
    int number;     /* in an ensemble, from 1; 0: alone */
    int packet_max; /* in bytes, of what it takes from a client; 0: its default */
    char folder[TEST_PATH_MAX];
};

/* Starts it and waits until it serves. */
void server_start(struct server *server);

/* The same for one that takes no larger packets. */
void server_start_narrow(struct server *server, int packet_max);

/* Starts it again on the same port, with the data that it has. */
void server_start_again(struct server *server);

void server_kill(struct server *server); /* like a crash */
void server_pause(struct server *server);
void server_go_on(struct server *server);
void server_wipe(struct server *server); /* removes the data of one that was killed */
void server_stop(struct server *server); /* ends it and removes the folder */

/* The answer to a four-letter command such as "wchs", in static memory; "" when there is none. */
const char *server_command(const struct server *server, const char *command);

/* How many watches the server has. */
long server_watches(const struct server *server);

/* zookeeper://127.0.0.1:PORT with what follows it; valid until the fourth next call. */
const char *server_url(const struct server *server, const char *rest);

/* Three servers, of which one leads. */
void ensemble_start(struct server servers[ENSEMBLE_SIZE]);

/* The same with another tick, and with a link of the test's own: the last server leads, and the
 * first reaches it on the port that `make_link` returns for the leader's. */
void ensemble_start_linked(struct server servers[ENSEMBLE_SIZE], int tick_ms,
                           int (*make_link)(int port));
void ensemble_stop(struct server servers[ENSEMBLE_SIZE]);
void ensemble_start_empty(struct server servers[ENSEMBLE_SIZE]); /* again, after all were lost */
struct server *ensemble_leader(struct server servers[ENSEMBLE_SIZE]);
const char *ensemble_url(const struct server servers[ENSEMBLE_SIZE], const char *rest);

#endif
