/*
 * handover.h - requests to hand a mutex over: their form on the store, and the part of a contender
 * that hears and sends them.
 */
#ifndef SB_API_HANDOVER_H
#define SB_API_HANDOVER_H

#include "api/client.h"

#define SB_HANDOVER_PROPERTY "handover"
#define SB_HANDOVER_VALID_MAX_MS ((int64_t)24 * 3600 * 1000)

/* ---- handover.c: the property ---------------------------------------------------------------- */

/* Writes the value of the property. */
void sb_handover_write(const struct simba_handover *request,
                       char value[SIMBA_PROPERTY_VALUE_MAX + 1]);

/* Reads it. Anybody can write to the store: what makes no sense, and what is over, is no request,
 * and *ret_request has no owner then. */
void sb_handover_read(const struct simba_property *property, struct simba_handover *ret_request);

/* ---- handover_watch.c: a contender that takes part ------------------------------------------- */

struct sb_handover_watch;

struct sb_handover_config {
    struct sb_engine *engine;
    simba_handover_fn *on_handover; /* NULL: it takes no part */
    void *user;
    int priority;
    int64_t after_ms; /* of the wait before a contender with a priority asks; 0: it never does */
    /* A winner that has waited for less does not look whether the mutex should pass on: a look
     * would double the time between two short terms of a crowd. */
    int64_t look_after_ms;
};

/* Creates; without on_handover *ret_watch stays NULL. To be freed when nothing uses the service any
 * more. */
int sb_handover_watch_create(const struct sb_handover_config *config,
                             struct sb_handover_watch **ret_watch, struct simba_error *error);
void sb_handover_watch_free(struct sb_handover_watch *watch); /* NULL is allowed */

/* For the hook of the service: see struct sb_service_hooks. Loop thread only. */
void sb_handover_watch_step(struct sb_handover_watch *watch, struct sb_service *service,
                            const struct sb_event *event, const struct sb_step *step);

/* Waits until a winner that had to wait knows whether the mutex should pass on, at most a second.
 * From any thread. */
void sb_handover_watch_await(struct sb_handover_watch *watch);

/* Whether the owner is asked to hand over. `watch` NULL: no; `ret_request` may be NULL. From any
 * thread. */
bool sb_handover_watch_asked(struct sb_handover_watch *watch, const struct sb_service *service,
                             struct simba_handover *ret_request);

void sb_handover_watch_set_priority(struct sb_handover_watch *watch, int priority);

#endif
