/*
 * locker.h - what the program wants of a locker beyond simba.h.
 */
#ifndef SB_API_LOCKER_H
#define SB_API_LOCKER_H

#include "base/shared.h"

#include <simba/simba.h>

/* From now on an acquire also ends when the store fails at the first attempt (SIMBA_ESTORE), a full disk for example:
 * whoever would wait without a limit learns at once that there is nothing to wait for yet. Not while another thread
 * acquires. */
void sb_locker_end_at_first_failure(simba_locker *locker) SB_SHARED("locker_end_at_first_failure");

#endif
