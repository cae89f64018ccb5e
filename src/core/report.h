/*
 * report.h - what a service has to tell the application and has not begun to tell yet. The driver
 * of a machine keeps one. Pure; the caller's lock guards it.
 *
 * What waits merges with what comes, so that a slow callback has at most one report behind it. A
 * term that was lost before its on_acquired began is not told at all, nor is a renewal that a
 * change stands before or comes after.
 */
#ifndef SB_CORE_REPORT_H
#define SB_CORE_REPORT_H

#include "core/machine.h"

struct sb_report {
    struct simba_state state;
    bool pending;
    bool acquired;
    bool released;
    bool renewed; /* and nothing has changed */
};

/* Takes in the change or the renewal of a step, if it has one. Returns how many of them will have
 * no callback of their own: the driver tells the machine that these have returned. */
unsigned sb_report_keep(struct sb_report *report, const struct sb_step *step);

/* Forgets what is pending: after the end of a stop nothing begins any more. Returns as above. */
unsigned sb_report_drop(struct sb_report *report);

/* What is to be told now; it is pending no more. */
struct sb_report sb_report_take(struct sb_report *report);

#endif
