/*
 * torture.h - plays every scene with every piece of a resource refused in turn, once and for good.
 *
 * Each piece is refused in a run of its own, until a run has used none of the refused ones. In each
 * run: calls fail only for the shortage and say so; when it is over the same scene works, on the
 * objects that it left or on new ones; and after the client is closed the process has what it had
 * before.
 */
#ifndef SIMBA_FAULT_TORTURE_H
#define SIMBA_FAULT_TORTURE_H

#include "scenes.h"

struct torture {
    struct shortage *shortage;
    const struct scene *scenes;
    const char *store; /* "memory" or "sqlite"; NULL: both */
    /* 1, or more where there are too many pieces: only every nth is refused. FAULT_STRIDE in the
     * environment says otherwise. */
    long stride;
    bool open_first; /* scenes that use the store begin with an open client */
};

/* Runs all scenes as cmocka tests, or those whose name fits the pattern, such as "*locker*once";
 * NULL: all. Returns main's result. */
int torture_run(const struct torture *torture, const char *pattern);

#endif
