/*
 * service_parts.h - what the files of a service share. Each calls only those before it: service.c, service_answer.c,
 * service_report.c, service_step.c, service_life.c.
 */
#ifndef SB_RUNTIME_SERVICE_PARTS_H
#define SB_RUNTIME_SERVICE_PARTS_H

#include "runtime/service.h"

static inline bool sb_service_is_observer(const struct sb_service *service)
{
    return service->member.id == NULL;
}

/* ---- service.c ------------------------------------------------------------------------------- */

/* Sets up the queue of its callbacks. SIMBA_ENOMEM when memory is short. */
int sb_service_init_calls(struct sb_service *service);

/* Frees a service that nobody refers to. */
void sb_service_free(struct sb_service *service);

/* ---- service_answer.c ------------------------------------------------------------------------ */

/* Completes the event that an answer is to the machine, and keeps what the service shows of a failure. `told` is a copy
 * of the answer, changed where it cannot be believed or kept; the event points into it. *ret_name: of the owner that it
 * tells, for sb_rest_lay; NULL: none is needed. Loop thread only. */
void sb_service_take_answer(struct sb_service *service, const struct sb_request *request,
                            struct simba_reply *told, struct sb_event *event,
                            struct sb_name **ret_name);

/* ---- service_report.c ------------------------------------------------------------------------ */

/* What service->report_call runs. */
void sb_service_run_report(struct sb_call *call);

/* Adds what a step has changed to the report, with engine->rest_lock held. Returns how many changes will have no
 * callback of their own. *ret_dropped: whether one of them should have had. */
unsigned sb_service_keep_report(struct sb_service *service, const struct sb_step *step,
                                struct sb_report *report, bool *ret_dropped);

/* ---- service_step.c -------------------------------------------------------------------------- */

/* Sets the functions of its timer and of its tasks, but for those of a close. */
void sb_service_init_steps(struct sb_service *service);

#endif
