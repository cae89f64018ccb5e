/*
 * scenes.h - what is done while something runs short.
 */
#ifndef SIMBA_FAULT_SCENES_H
#define SIMBA_FAULT_SCENES_H

#include "stage.h"

struct scene {
    const char *name;
    const char *lease; /* of the URL */
    bool uses_store;   /* beyond the opening of the client */
    void (*play)(struct stage *stage);
};

/* Ends with a NULL name. */
extern const struct scene scenes[];

#endif
