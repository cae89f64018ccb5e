/*
 * rest.h - a service's machine and report between two steps, in the memory that they need.
 *
 * Machine and report name owners by value, 129 bytes each, so that the core needs no memory. A client may hold
 * a hundred thousand mutexes, though, and of nearly all its machines the owner is the contender itself. So at
 * rest the id of an owner is a reference: to nobody's, to the contender's own, or to the name of another, which
 * the owners in one rest share.
 *
 * Not thread-safe: the caller's lock guards it.
 */
#ifndef SB_RUNTIME_REST_H
#define SB_RUNTIME_REST_H

#include "core/observer.h"
#include "core/report.h"

#include <stddef.h>

/* A machine awake: an observer's, or a contender's. */
union sb_mind {
    struct sb_machine contender;
    struct sb_observer observer;
};

/* What lies down as it is ends where the owner begins. */
_Static_assert(offsetof(struct sb_machine, owner) + sizeof(struct simba_owner) ==
                   sizeof(struct sb_machine),
               "the owner is a machine's last member");
_Static_assert(offsetof(struct sb_observer, owner) + sizeof(struct simba_owner) ==
                   sizeof(struct sb_observer),
               "the owner is an observer's last member");

struct sb_rest_owner {
    const char *id; /* nobody's, own_id, or in a name */
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t fence;
};

struct sb_rest {
    const char *own_id; /* NULL: an observer */
    union {             /* of each machine all but its last member, the owner */
        _Alignas(struct sb_machine) char contender[offsetof(struct sb_machine, owner)];
        _Alignas(struct sb_observer) char observer[offsetof(struct sb_observer, owner)];
    } mind;
    struct sb_rest_owner owner;
    struct sb_rest_owner before; /* this and all below: the report */
    struct sb_rest_owner after;
    bool pending;
    bool acquired;
    bool released;
    bool renewed;
};

/* The id of another owner. */
struct sb_name;

/* `own_id` stays the caller's and outlives the rest. */
void sb_rest_init(struct sb_rest *rest, const char *own_id, const union sb_mind *mind);
void sb_rest_free(struct sb_rest *rest);

/* Makes the name that a step may bring, so that laying it down needs no memory. False when memory is short. The
 * contender's own id needs none: then *ret_name is NULL. */
bool sb_rest_make_name(const struct sb_rest *rest, const char *id, struct sb_name **ret_name);

/* Takes the machine up for a step. */
void sb_rest_wake(const struct sb_rest *rest, union sb_mind *ret_mind);

/* Takes the report up, too: for the steps that have to do with it, which few have. */
void sb_rest_wake_report(const struct sb_rest *rest, struct sb_report *ret_report);

/* Lays them down after it; `report` is NULL where it was not taken up. `name` (NULL: none) was made for the event; it is
 * the caller's no more. */
void sb_rest_lay(struct sb_rest *rest, const union sb_mind *mind, const struct sb_report *report,
                 struct sb_name *name);

/* sb_report_take on the report at rest. */
struct sb_report sb_rest_take_report(struct sb_rest *rest);

/* Makes the state that can be read one without a change: the owner is the one that was known. A report that waits
 * keeps its change. */
void sb_rest_confirm(struct sb_rest *rest);

/* Makes the state that can be read nobody's, for a life that begins. No report waits. */
void sb_rest_forget(struct sb_rest *rest);

/* Who owned before the last change, and who owns. */
void sb_rest_state(const struct sb_rest *rest, struct simba_state *ret_state);

#endif
