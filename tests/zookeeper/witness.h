/*
 * witness.h - a client that is not ours: it looks at the store, puts nodes there, takes them away,
 * and ends the sessions of others.
 */
#ifndef SIMBA_TEST_ZOOKEEPER_WITNESS_H
#define SIMBA_TEST_ZOOKEEPER_WITNESS_H

#include "server.h"

#define THREADED
#include <zookeeper/zookeeper.h>

#define WITNESS_NODES_MAX 64

struct witness {
    zhandle_t *handle;
};

struct witness_nodes {
    int count;
    char names[WITNESS_NODES_MAX][256]; /* in the order of their sequence numbers */
};

/* On that server; `id` NULL: a new session. Fails the test when there is none in time. */
void witness_open(struct witness *witness, const struct server *server, const clientid_t *id);
void witness_close(struct witness *witness);

/* The participants of /simba/MUTEX; none when there is no such node. */
struct witness_nodes witness_list(struct witness *witness, const char *mutex);
int witness_count(struct witness *witness, const char *mutex);

/* What a node holds, in static memory, and what the server knows of it. */
const char *witness_read(struct witness *witness, const char *mutex, const char *node);
struct Stat witness_stat(struct witness *witness, const char *mutex, const char *node);

/* Puts a participant there, as Curator would; the name is in static memory. */
const char *witness_join(struct witness *witness, const char *mutex, const char *id);
void witness_delete(struct witness *witness, const char *mutex, const char *node);

/* Tries to; for a witness that has to notice first that the server was gone. Whether the node is
 * gone. */
bool witness_try_delete(struct witness *witness, const char *mutex, const char *node);

/* Takes everybody every right on the mutex, or gives all back. */
void witness_lock(struct witness *witness, const char *mutex, bool locked);

/* Ends a session as the servers would. */
void witness_expire(const struct server *server, const clientid_t *id);

#endif
