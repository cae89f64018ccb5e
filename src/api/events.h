/*
 * events.h - the events of a client that is asked for them instead of calling back.
 *
 * What the library wants to call waits in the dispatcher. simba_client_next_event runs it, on a
 * thread of the application, and what would be a callback becomes an event.
 */
#ifndef SB_API_EVENTS_H
#define SB_API_EVENTS_H

#include "runtime/service.h"

struct sb_events;
struct sb_object;

int sb_events_create(struct sb_events **ret_events, struct simba_error *error);

/* After the client's engine. NULL is allowed. */
void sb_events_free(struct sb_events *events);

/* How the engine's dispatcher wakes the application. */
struct sb_pull sb_events_pull(struct sb_events *events);

/* A contender or an observer as a source of events, part of that object; its callbacks are those
 * below. */
struct sb_event_source {
    const struct sb_object *object; /* NULL: it calls back */
    void *user;
};

/* A locker, of one mutex or of several. It ends with its last event. */
struct sb_locker_source;
struct sb_locker;

/* Puts a source in the place of the callbacks and of `user` in a locker's options; `mutex` is what
 * the events name. *ret_source is NULL where the client calls back. Where the creation of the
 * locker fails the caller frees the source; otherwise the second tells it the locker. */
int sb_events_take_locker(struct sb_events *events, const char *mutex,
                          struct simba_locker_options *options,
                          struct sb_locker_source **ret_source, struct simba_error *error);
void sb_events_set_locker(struct sb_locker_source *source, struct sb_locker *locker);

/* Whether an object's options fit its client. SIMBA_EINVAL: `pull` has more than `allowed`; it has
 * something, and the client calls back; or there are callbacks, and the client does not. */
int sb_events_check(const struct sb_events *events, unsigned pull, unsigned allowed,
                    bool has_callbacks, struct simba_error *error);

/* Callbacks; `source` is a struct sb_event_source. */
void sb_event_on_acquired(void *source, const struct simba_state *state);
void sb_event_on_released(void *source, const struct simba_state *state);
void sb_event_on_renewed(void *source, const struct simba_state *state);
void sb_event_on_notify(void *source, const struct simba_state *state);
void sb_event_on_handover(void *source, const struct simba_handover *request);
void sb_event_on_stopped(struct sb_event_source *source, int code);
void sb_event_on_closed(void *source);

#endif
