/*
 * service.h - runs one machine: a contender's or an observer's.
 *
 * It feeds the machine events with the time, sends its requests, keeps its deadline, delivers its
 * notifications on a lane of the dispatcher, and shows to all threads what it believes.
 */
#ifndef SB_RUNTIME_SERVICE_H
#define SB_RUNTIME_SERVICE_H

#include "runtime/engine.h"
#include "runtime/rest.h"

#include <stdatomic.h>

struct sb_service;

/* Whom a service calls. */
struct sb_service_calls {
    simba_state_fn *on_acquired;
    simba_state_fn *on_released;
    simba_state_fn *on_notify;
    simba_state_fn *on_renewed;
    void *user;
    simba_closed_fn *on_closed; /* the last of them, after close; see simba.h */
    void *closed_user;
    /* For the library's own objects: called on the loop thread after every step, with no lock held. It must
     * not block. A service with a hook and no callbacks has nobody to wait for. */
    void (*hook)(void *user, struct sb_service *service, const struct sb_event *event,
                 const struct sb_step *step);
    /* Frees the library's own object that the service belongs to, on any thread: nothing uses either any more. */
    void (*gone)(void *object);
    void *object;
};

struct sb_service_config {
    const char *mutex;
    const char *id;  /* NULL: an observer */
    int64_t poll_ms; /* of an observer */
    int64_t ttl_ms;  /* of a contender; the engine's where equal */
    int64_t transition_ms;
    struct sb_service_calls calls;
};

/* There may be a hundred thousand of them, so each byte counts: what all have in common is the engine's, and what
 * few have is allocated for those. */
struct sb_service {
    struct sb_engine *engine;
    struct sb_member member;
    struct sb_timer timer;
    struct sb_lane lane;
    struct sb_call report_call;
    struct sb_call closed_call;
    struct simba_task start_task;
    struct simba_task stop_task;
    struct simba_task close_task;
    struct simba_task returned_task;
    struct sb_timing *own_timing; /* where it is not the engine's */
    struct sb_service_calls calls;
    _Atomic unsigned references;
    _Atomic unsigned returned; /* callbacks that have returned and the machine does not know yet */
    bool awaited; /* a thread waits for what the last start brings; set before its task is posted */

    /* Loop thread only. */
    int64_t contest_at_us;    /* since when this contest runs */
    int64_t warned_at_ms;     /* of a failure */
    int64_t failing_since_ms; /* 0: the last request did not fail */
    struct sb_start start;    /* where it waits for its turn */
    bool close_when_stopped;
    bool away_told; /* that the store fails for longer than a lease */
    bool listening;
    bool following; /* a contender that has had to wait is told of changes, as observers are */

    /* What other threads may ask without a lock. */
    _Atomic int64_t belief_ms;
    _Atomic int64_t ttl_ms;
    _Atomic uint64_t fence;
    _Atomic int status;
    int stop_code;  /* of the last stop; under engine->lock */
    unsigned stops; /* that are complete; under engine->lock */
    bool is_closed; /* no callback runs or will begin; under engine->lock */

    /* What decides whether a callback may begin; under engine->rest_lock. */
    bool report_queued; /* its call is on the lane and has not begun */
    bool told;          /* of a term, and not yet of its end */
    bool muted;         /* closed from inside a callback: none begins any more but on_closed */
    unsigned ends; /* stops that the machine has completed; a report of before begins nothing */

    /* The machine and what waits to be reported; under engine->rest_lock, written by the loop thread. */
    struct sb_rest rest;
    struct simba_error *last_error;

    char names[]; /* the strings of `member` */
};

int sb_service_create(struct sb_engine *engine, const struct sb_service_config *config,
                      struct sb_service **ret_service, struct simba_error *error);

/* The lifecycle, as the public header tells it. A close may be the end of the service and of what it belongs to. */
int sb_service_start(struct sb_service *service, struct simba_error *error);
int sb_service_stop(struct sb_service *service, struct simba_error *error);
void sb_service_close(struct sb_service *service);

/* A start by a thread that waits for the loop next (sb_engine_wait), and so need not wake it. It does not wait
 * for its turn: there are only so many threads. */
int sb_service_begin_start(struct sb_service *service, struct simba_error *error);

/* A stop that nobody waits for, from any thread; and the wait for the end of whatever stop is under way,
 * which is false when that has not come by `until_ms`. */
void sb_service_stop_soon(struct sb_service *service);
bool sb_service_wait_initial(struct sb_service *service, int64_t until_ms);

/* Begins a start whose turn has come, if it still waits. For the engine's queue of starts. Loop thread only. */
void sb_service_begin_queued(struct sb_start *start);

/* Tells a store that was not open before that the service listens, if it does. Loop thread only. */
void sb_service_introduce(struct sb_service *service);

/* Feeds an event that has nothing but a time. Loop thread only. */
void sb_service_event(struct sb_service *service, enum sb_event_type type);

/* Whether it wants to hear of changes of the owner: an observer, or a contender that follows. Loop thread only. */
bool sb_service_hears_changes(const struct sb_service *service);

/* Keep it alive for a task of the owner's that is on its way. */
void sb_service_hold(struct sb_service *service);
void sb_service_drop(struct sb_service *service);

/* Puts a call of the owner's behind the callbacks. `call` stays valid until it has run. */
void sb_service_call(struct sb_service *service, struct sb_call *call);

bool sb_service_is_owner(const struct sb_service *service);
bool sb_service_is_in_ttl(const struct sb_service *service);
uint64_t sb_service_fence(const struct sb_service *service);
int64_t sb_service_deadline_ms(const struct sb_service *service);
enum simba_status sb_service_status(const struct sb_service *service);
void sb_service_state(struct sb_service *service, struct simba_state *ret_state);
int sb_service_last_error(struct sb_service *service, struct simba_error *error);

/* Makes of the times of an owner that the machine plans by those that the application is told. */
void sb_service_tell_times(const struct sb_service *service, struct simba_owner *owner);

/* How long before the end of a belief its renewal begins; 0: it does not own. */
int64_t sb_service_window_ms(const struct sb_service *service);

/* The times that its machine has. */
const struct sb_timing *sb_service_timing(const struct sb_service *service);

struct sb_service *sb_service_of_member(struct sb_member *member);

/* Help with the callbacks of one service, or of all services of a mutex. */
struct sb_help sb_service_help(const struct sb_service *service);
struct sb_help sb_service_help_mutex(const struct sb_service *service);

#endif
