/*
 * fake.h - a server that says the same to everybody who says something, whatever that is.
 */
#ifndef SIMBA_TEST_REDIS_FAKE_H
#define SIMBA_TEST_REDIS_FAKE_H

#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

struct fake {
    int port;
    int listener;
    const char *text;
    bool dribbles;
    atomic_uint connections; /* so far */
    pthread_t thread;
};

/* With NULL it hangs up on everybody who says something. */
void fake_start(struct fake *fake, const char *text);

/* It says the text and then one byte each millisecond, without end. */
void fake_start_dribbling(struct fake *fake, const char *text);
void fake_stop(struct fake *fake);

/* A port of the loopback address where connections are begun and never accepted nor refused. */
struct tarpit {
    int port;
    int sockets[8];
};

void tarpit_open(struct tarpit *tarpit);
void tarpit_close(struct tarpit *tarpit);

#endif
