/*
 * service_state.h - the inside of a service, for the files of the runtime. Of its own files each
 * calls only those before it: service.c, service_answer.c, service_step.c, service_lifecycle.c.
 */
#ifndef SB_RUNTIME_SERVICE_STATE_H
#define SB_RUNTIME_SERVICE_STATE_H

#include "runtime/engine_state.h"
#include "runtime/packed.h"
#include "runtime/service.h"

#include <stdatomic.h>

/* The last failure of a request. */
struct sb_failure {
    struct simba_error error; /* its code is SIMBA_OK when one has succeeded since */
    int64_t warned_at_ms;     /* of this one or one before */
};

/* There may be a hundred thousand of them, so each byte counts: what all have in common is the
 * engine's, and what few have is allocated for those. */
struct sb_service {
    struct sb_engine *engine;
    struct sb_member member;
    struct sb_timer timer;
    struct sb_strand strand;
    struct sb_call report_call;
    struct sb_call closed_call;
    struct simba_task start_task;
    struct simba_task stop_task;
    struct simba_task close_task;
    struct simba_task returned_task;
    struct sb_timing *own_timing; /* where it is not the engine's */
    size_t *party;                /* as its config says */
    struct sb_service_calls calls;
    struct sb_handle *handle; /* its view is what other threads may ask without a lock */
    _Atomic unsigned references;
    _Atomic unsigned returned; /* callbacks that have returned and the machine does not know yet */

    /* Loop thread only. */
    int64_t phase_at_us;      /* since when this contest runs, or this term */
    int64_t failing_since_ms; /* 0: the last request did not fail */
    struct sb_start start;    /* where it waits for its turn */
    bool close_when_stopped;
    bool away_told; /* that the store fails for longer than a lease */
    bool listening;
    bool following; /* a contender that has had to wait is told of changes, as observers are */
    bool awaited; /* a thread waits for what the last start brings; set before its task is posted */

    /* Under engine->lock. */
    bool leaves;    /* the stop under way leaves the term on the store */
    bool closing;   /* it does not start any more */
    bool is_closed; /* no callback runs or will begin */
    unsigned stops; /* that are complete */
    int stop_code;  /* of the last one */

    /* What decides whether a callback may begin; under engine->state_lock. */
    unsigned ends; /* stops that the machine has completed; a report of before begins nothing */
    bool report_queued; /* its call is on the strand and has not begun */
    bool told;          /* of a term, and not yet of its end */
    bool muted;         /* closed from inside a callback: none begins any more but on_closed */

    /* The machine and what waits to be reported; under engine->state_lock, written by the loop
     * thread. */
    struct sb_packed packed;
    struct sb_failure *failure; /* NULL: no request has failed, or memory was short */

    char names[]; /* the strings of `member` */
};

static inline bool sb_service_is_observer(const struct sb_service *service)
{
    return service->member.id == NULL;
}

/* ---- service.c ------------------------------------------------------------------------------- */

/* Sets up the queue of its callbacks, and the call of its reports. SIMBA_ENOMEM when memory is
 * short. */
int sb_service_init_calls(struct sb_service *service);

/* Nothing is left to run of that queue. For the engine's dispatcher. */
void sb_service_strand_idle(struct sb_strand *strand);

struct sb_service *sb_service_of_member(struct sb_member *member);

/* Frees a service that nobody refers to. */
void sb_service_free(struct sb_service *service);

/* Adds what a step has changed to the report, with engine->state_lock held. Returns how many
 * changes will have no callback of their own. *ret_dropped: whether one of them should have had. */
unsigned sb_service_keep_report(struct sb_service *service, const struct sb_step *step,
                                struct sb_report *report, bool *ret_dropped);

/* ---- service_answer.c ------------------------------------------------------------------------ */

/* Makes the answer of a request of that generation into the event for the machine, and keeps what
 * the service shows of a failure. `told` is a copy of the answer, changed where it cannot be
 * believed or kept; the event points into it. *ret_name, NULL before: the name of the owner that it
 * tells, for sb_packed_set, if one is needed. Loop thread only. */
struct sb_event sb_service_take_answer(struct sb_service *service, const struct sb_request *request,
                                       uint32_t generation, struct simba_reply *told,
                                       struct sb_name **ret_name);

/* ---- service_step.c -------------------------------------------------------------------------- */

/* Sets the functions of its timer and of its tasks, but for those of a close. */
void sb_service_init_steps(struct sb_service *service);

/* What follows is for the loop thread only. Feeds an event that has nothing but a time. */
void sb_service_event(struct sb_service *service, enum sb_event_type type);

/* Whether it wants to hear of changes of the owner: an observer, or a contender that follows. */
bool sb_service_hears_changes(const struct sb_service *service);

/* Begins a start whose turn has come, if it still waits. For the engine's queue of starts. */
void sb_service_begin_queued(struct sb_start *start);

/* Tells a store that was not open before that the service listens, if it does. */
void sb_service_introduce(struct sb_service *service);

/* ---- notices.c, for the engine --------------------------------------------------------------- */

/* `notice` and `session_lost` of the host. From any thread. */
void sb_notices_tell(const struct simba_backend_host *host, enum simba_notice what,
                     const char *mutex, const char *id);
void sb_notices_tell_session_lost(const struct simba_backend_host *host, const char *mutex);

/* What engine->session_task runs. */
void sb_notices_run_session_lost(struct simba_task *task);

/* Has the followers of a mutex read its owner. Loop thread only, not from within a step. */
void sb_notices_tell_followers(void *engine, const char *mutex);

/* A store that was down at first is open: tells it which services of the engine listen. Loop thread
 * only. */
void sb_notices_introduce_services(void *engine);

/* Frees what a store has told after the loop has ended, and what carries it. */
void sb_notices_destroy(struct sb_engine *engine);

#endif
