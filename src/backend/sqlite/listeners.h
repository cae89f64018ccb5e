/*
 * listeners.h - the contenders and observers of one client that are to be told of changes, by the
 * slot of their mutex in the side file.
 */
#ifndef SB_SQLITE_LISTENERS_H
#define SB_SQLITE_LISTENERS_H

#include "backend/sqlite/wake.h"

/* Those of one mutex. */
struct sb_sqlite_listener {
    struct sb_sqlite_listener *next; /* in its slot */
    unsigned contenders;
    unsigned observers;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

/* Begins as zeros. */
struct sb_sqlite_listeners {
    struct sb_sqlite_listener *slots[SB_SQLITE_WAKE_SLOTS];
    size_t count;     /* of mutexes */
    size_t observers; /* of all of them */
};

/* False when memory is short. The slot is the mutex's own, here and below. */
bool sb_sqlite_listeners_add(struct sb_sqlite_listeners *listeners, size_t slot, const char *mutex,
                             bool observer);

/* The entry stays, so that this may be called while the slot is walked through. */
void sb_sqlite_listeners_remove(struct sb_sqlite_listeners *listeners, size_t slot,
                                const char *mutex, bool observer);

/* Frees the entries of a slot that nobody is left in. */
void sb_sqlite_listeners_trim(struct sb_sqlite_listeners *listeners, size_t slot);

void sb_sqlite_listeners_clear(struct sb_sqlite_listeners *listeners);

#endif
