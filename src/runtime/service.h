/*
 * service.h - runs one machine: a contender's or an observer's.
 *
 * It feeds the machine events with the time, sends its requests, ticks when it asks for it,
 * delivers its notifications on a strand of the dispatcher, and shows to all threads what it
 * believes.
 */
#ifndef SB_RUNTIME_SERVICE_H
#define SB_RUNTIME_SERVICE_H

#include "base/handle.h"
#include "runtime/engine.h"

struct sb_service;

/* What a service calls of the library's own object that it belongs to. Any but `gone` may be
 * NULL. */
struct sb_service_hooks {
    /* On the loop thread after every step, before its callbacks are queued, with no lock held. It
     * must not block. It is no callback: nothing waits for its return. */
    void (*stepped)(void *object, struct sb_service *service, const struct sb_event *event,
                    const struct sb_step *step);
    /* Before on_acquired, on its thread. It may wait. */
    void (*before_acquired)(void *object);
    /* When a stop has ended, with its code, after the status has become INITIAL. Loop thread; it
     * must not block. */
    void (*stopped)(void *object, int code);
    /* Frees the object, on any thread: nothing uses it or the service any more. */
    void (*gone)(void *object);
};

/* Callbacks of a service. */
struct sb_service_calls {
    simba_state_fn *on_acquired;
    simba_state_fn *on_released;
    simba_state_fn *on_notify;
    simba_state_fn *on_renewed;
    simba_closed_fn *on_closed;           /* the last of them, after close; see simba.h */
    void *user;                           /* of all of them */
    const struct sb_service_hooks *hooks; /* shared by all objects of a kind */
};

struct sb_service_config {
    const char *mutex;
    const char *id;  /* NULL: an observer */
    int64_t poll_ms; /* of an observer */
    int64_t ttl_ms;  /* of a contender; the engine's where equal */
    int64_t transition_ms;
    struct sb_service_calls calls;
    void *object;  /* the library's own that the service belongs to; its handle finds it */
    size_t *party; /* counts those that listen of services for which one thread waits; the loop
                      thread's, and the owner's memory. NULL: it has a thread for itself */
};

int sb_service_create(struct sb_engine *engine, const struct sb_service_config *config,
                      struct sb_service **ret_service, struct simba_error *error);

/* The lifecycle, as the public header tells it. A close may be the end of the service and of what
 * it belongs to. */
int sb_service_start(struct sb_service *service, struct simba_error *error);
int sb_service_stop(struct sb_service *service, struct simba_error *error);
void sb_service_close(struct sb_service *service);

/* The same without waiting for it. */
int sb_service_begin_stop(struct sb_service *service, struct simba_error *error);

/* A stop that leaves the term of a contender on the store, where it runs out. */
int sb_service_leave(struct sb_service *service, struct simba_error *error);

/* A start by a thread that waits for the loop next (sb_engine_wait), and so need not wake it. It
 * does not wait for its turn: there are only so many threads. */
int sb_service_begin_start(struct sb_service *service, struct simba_error *error);

/* A stop that nobody waits for, from any thread; and the wait for the end of whatever stop is under
 * way, which is false when that has not come by `until_ms`. */
void sb_service_stop_soon(struct sb_service *service);
bool sb_service_wait_initial(struct sb_service *service, int64_t until_ms);

/* Both in one: the thread that waits does the work, and need not wake the loop's for it. */
void sb_service_stop_until(struct sb_service *service, int64_t until_ms);

/* Keep it alive for a task of the owner's that is on its way. */
void sb_service_hold(struct sb_service *service);
void sb_service_drop(struct sb_service *service);

/* The handle of its object, for the application where that is what it is given. From the end of the
 * close on the handle finds nothing. */
void *sb_service_handle(const struct sb_service *service);

/* For a caller that has pinned the object of its handle: whether it should close it, and the end of
 * the pin, which may be the end of the service and of its object. */
bool sb_service_begin_close(struct sb_service *service);
void sb_service_unpin(struct sb_service *service);

/* Its names; the id is NULL where it is an observer. They stay as long as it does. */
const char *sb_service_mutex(const struct sb_service *service);
const char *sb_service_id(const struct sb_service *service);

/* Lets a contender hear of changes of the mutex from now on, as its followers do, until it stops.
 * Loop thread only. */
void sb_service_follow(struct sb_service *service);

/* Whether the calling thread is inside one of its callbacks. */
bool sb_service_is_inside(const struct sb_service *service);

/* Gives its callbacks a thread of their own, and takes that away: see sb_strand_begin_thread. Loop
 * thread only. */
bool sb_service_begin_thread(struct sb_service *service, const char *name);
void sb_service_end_thread(struct sb_service *service);

/* Puts a call of the owner's behind the callbacks. `call` stays valid until it has run. */
void sb_service_call(struct sb_service *service, struct sb_call *call);

bool sb_service_is_owner(const struct sb_service *service);
uint64_t sb_service_fence(const struct sb_service *service);
int64_t sb_service_place(const struct sb_service *service); /* in the wait queue; 0: not known */
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

/* Help with the callbacks of one service, or of all services of a mutex. */
struct sb_help sb_service_help(const struct sb_service *service);
struct sb_help sb_service_help_mutex(const struct sb_service *service);

#endif
