/*
 * semaphore.h - the names and the size of a semaphore, as they stand on the store.
 */
#ifndef SB_API_SEMAPHORE_H
#define SB_API_SEMAPHORE_H

#include "api/client.h"

/* Whether that may be a semaphore: a valid name that is not one of a slot, and a possible
 * number. */
int sb_semaphore_check(const char *name, int slots, struct simba_error *error);

/* The mutex of a slot: "NAME#0", "NAME#1" ... */
int sb_semaphore_slot_name(const char *name, size_t slot, char ret_name[SIMBA_MUTEX_MAX + 1],
                           struct simba_error *error);

/* What the store says. Where it says nothing, `gate_id`, the owner of the gate, writes `slots`.
 * *ret_slots is 0 where that one does not own the gate any more, or is NULL. */
int sb_semaphore_agree(struct sb_client *client, const char *name, const char *gate_id, int slots,
                       int64_t until_ms, int *ret_slots, struct simba_error *error);

#endif
