/*
 * hooks.h - stands between the backend and the client library: loses replies, holds them back, and
 * runs something between two calls. A test program that is linked with it has the library's
 * functions wrapped.
 */
#ifndef SIMBA_TEST_ZOOKEEPER_HOOKS_H
#define SIMBA_TEST_ZOOKEEPER_HOOKS_H

#include "witness.h"

#include <stdatomic.h>

struct hooks {
    void (*before_get)(const char *path); /* before a node is read; may be NULL */
    void (*_Atomic before_close)(void);   /* of a handle; may be NULL */
    atomic_int lose_creates;              /* so many latches are created and the reply is lost */
    atomic_int lose_deletes;              /* so many deletes never reach the server */
    atomic_int forget_deletes;            /* so many are carried out and never answered */
    atomic_int forget_lists;              /* so many lists of children are never answered */
    atomic_int deletes;                   /* asked for so far */
    atomic_int syncs;                     /* the same */
    atomic_int lists;                     /* of children, the same */
    atomic_bool hold_creates;             /* their replies, at most until their handle is closed */
    atomic_bool forget_held; /* then they are forgotten, as the library does at times */
    atomic_int held;
    atomic_int resolutions; /* of names of servers, so far */
    atomic_int resolve_ms;  /* that each takes where the backend makes a handle */
    atomic_bool
        hold_closes; /* the backend's own thread waits before it looks at a handle's state */
    atomic_int closes_waiting; /* there */
};

extern struct hooks hooks;

void hooks_reset(void);

/* The replies that were held go on their way. */
void hooks_let_go(void);

/* Whether the handle that the backend made last is connected. */
bool hooks_is_connected(void *unused);

/* Of the session that the backend made last; an id of 0 while there is none. */
clientid_t hooks_session(void);

#endif
