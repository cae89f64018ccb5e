/*
 * proxy.h - stands between a client and a server and misbehaves on demand.
 */
#ifndef SIMBA_TEST_REDIS_PROXY_H
#define SIMBA_TEST_REDIS_PROXY_H

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#define PROXY_PAIRS_MAX 64

struct proxy {
    int port;                   /* where it listens */
    atomic_int server_port;     /* where new connections are led to */
    atomic_bool swallow;        /* what the server says is thrown away */
    atomic_bool swallow_at_end; /* the same from the end of a connection on */
    atomic_bool mute;           /* what clients say is thrown away */
    atomic_bool hold;           /* what the server says waits */
    atomic_bool cut;            /* all connections are cut, once */
    atomic_int piece;           /* bytes of the server that are let through at once; 0: all */
    atomic_int rest_ms;         /* after each piece, for everybody */
    atomic_ulong swallowed;     /* bytes thrown away */
    atomic_ulong writes;        /* pieces that came from clients */
    atomic_bool stop;
    /* Sees all that comes, on the proxy's thread; may be NULL. */
    void (*watch)(bool from_server, const char *bytes, size_t count);
    pthread_t thread;
    int listener;
    struct {
        int client;
        int server;
    } pairs[PROXY_PAIRS_MAX];
    size_t count;
};

void proxy_start(struct proxy *proxy, int server_port);
void proxy_start_watched(struct proxy *proxy, int server_port,
                         void (*watch)(bool from_server, const char *bytes, size_t count));
void proxy_stop(struct proxy *proxy);

#endif
