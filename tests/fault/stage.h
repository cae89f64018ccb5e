/*
 * stage.h - a client with the objects that a scene needs, while something runs short.
 *
 * A scene makes what is missing and uses what is there, so that the same scene can be played again
 * on what the shortage has left: then every call has to succeed.
 */
#ifndef SIMBA_FAULT_STAGE_H
#define SIMBA_FAULT_STAGE_H

#include "shortage.h"
#include "test.h"

#include <simba/simba.h>

#define STAGE_CONTENDERS 3
#define STAGE_HURRY_MS 20 /* how long is waited for what a shortage for good will prevent */

struct stage_contender {
    simba_contender *handle;
    atomic_uint acquired;
    atomic_uint released;
    unsigned dropped; /* of those, by stops that were given up */
};

struct stage {
    const struct shortage *shortage;
    bool peace; /* the shortage is over */
    bool
        hurried; /* a call was given up in peace: its limit, made for the shortage, was too short */
    char url[TEST_PATH_MAX + 128];
    simba_client *client;
    struct stage_contender contenders[STAGE_CONTENDERS];
    simba_locker *locker;
    simba_locker *rival; /* another locker for the same mutex */
    simba_scheduler *scheduler;
    simba_observer *observer;
    atomic_uint works;   /* runs of the scheduler's work */
    atomic_uint notices; /* of the observer */
};

/* What a call may do when the shortage hits. */
enum stage_right {
    STAGE_MAY_FAIL, /* with the shortage's code */
    STAGE_HEALS     /* the same, but only a shortage for good; one refusal is got over */
};

/* Whether a call went well. It fails the test when that is wrong, or when the sentence is
 * missing. */
bool stage_ok(struct stage *stage, enum stage_right right, const char *call, int code,
              const struct simba_error *error);

/* Waits for a condition. A shortage for good may prevent it, and is not waited for long. */
bool stage_wait(struct stage *stage, const char *what, bool (*condition)(void *user), void *user);

/* The objects of the stage; each returns whether it is there. */
bool stage_client(struct stage *stage);
bool stage_contender(struct stage *stage, size_t index, const char *mutex, const char *id);
bool stage_locker(struct stage *stage);
bool stage_rival(struct stage *stage);
bool stage_scheduler(struct stage *stage);
bool stage_observer(struct stage *stage);

/* Closes all that is there, which must succeed whatever runs short. */
void stage_close(struct stage *stage);

#endif
