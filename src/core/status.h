/*
 * status.h - the lifecycle of a service and its legal moves.
 */
#ifndef SB_CORE_STATUS_H
#define SB_CORE_STATUS_H

#include <simba/simba.h>

bool sb_status_may_move(enum simba_status from, enum simba_status to);

#endif
