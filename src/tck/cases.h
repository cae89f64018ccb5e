/*
 * cases.h - the cases of the kit. Each runs on a kit of its own and records what it finds wrong; it
 * may leave everything open behind it.
 */
#ifndef SB_TCK_CASES_H
#define SB_TCK_CASES_H

#include "tck/kit.h"

typedef void sb_case(struct sb_kit *kit);

/* lifecycle.c */
sb_case sb_case_start;
sb_case sb_case_restart;
sb_case sb_case_guard;
sb_case sb_case_stop_in_callback;

/* terms.c */
sb_case sb_case_handover_order;
sb_case sb_case_fence_grows;
sb_case sb_case_equal_ids;

/* services.c */
sb_case sb_case_schedule;
sb_case sb_case_observe;
sb_case sb_case_lock_timeout;

/* faults.c */
sb_case sb_case_self_fence;
sb_case sb_case_late_reply;

/* contract.c */
sb_case sb_case_contract;

/* contest.c and processes.c */
sb_case sb_case_multi_contend;
sb_case sb_case_multi_process; /* forks: no thread may exist */

#endif
