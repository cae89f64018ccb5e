/*
 * contender.h - what the program wants of a contender beyond simba.h.
 */
#ifndef SB_API_CONTENDER_H
#define SB_API_CONTENDER_H

#include "base/shared.h"

#include <simba/simba.h>

/* How long before simba_contender_deadline_ms the renewals begin; 0: it does not own. */
int64_t sb_contender_window_ms(const simba_contender *contender) SB_SHARED("contender_window_ms");

#endif
