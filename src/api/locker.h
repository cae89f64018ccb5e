/*
 * locker.h - what the program wants of a locker beyond simba.h.
 */
#ifndef SB_API_LOCKER_H
#define SB_API_LOCKER_H

#include "base/shared.h"

#include <simba/simba.h>

/* From now on an acquire also ends when the store fails at the first attempt (SIMBA_ESTORE), a full disk for example:
 * a caller without a limit learns at once that there is nothing to wait for yet. `or_unknown`: also when the
 * outcome is unknown (SIMBA_EUNKNOWN). That is for a store that is a file, where it means a disk that fails; on a
 * server a reply was lost, and the next attempt will tell. What the store may have granted is given back, like on
 * every acquire that ends in vain. Not while another thread acquires. */
void sb_locker_end_at_first_failure(simba_locker *locker, bool or_unknown)
    SB_SHARED("locker_end_at_first_failure");

/* How long before simba_locker_deadline_ms the renewals begin; 0: it is not held. */
int64_t sb_locker_window_ms(const simba_locker *locker) SB_SHARED("locker_window_ms");

#endif
