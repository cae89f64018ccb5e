/*
 * packed.h - a service's machine and report between two steps, in the memory that they need.
 *
 * Machine and report name owners by value, 129 bytes each, so that the core needs no memory. A
 * client may hold a hundred thousand mutexes, though, and of nearly all its machines the owner is
 * the contender itself. So, packed, the id of an owner is a reference: to nobody's, to the
 * contender's own, or to the name of another, which the owners of one service share. The service
 * knows the times of its machine.
 *
 * Not thread-safe: the caller's lock guards it.
 */
#ifndef SB_RUNTIME_PACKED_H
#define SB_RUNTIME_PACKED_H

#include "core/observer.h"
#include "core/report.h"

#include <stddef.h>

/* A machine as the core takes it: an observer's, or a contender's. */
union sb_any_machine {
    const struct sb_timing *timing; /* the first member of both */
    struct sb_machine contender;
    struct sb_observer observer;
};

/* What is packed as it is begins behind the timing and ends where the owner begins. */
_Static_assert(offsetof(struct sb_machine, timing) == 0, "the timing is a machine's first member");
_Static_assert(offsetof(struct sb_machine, owner) + sizeof(struct simba_owner) ==
                   sizeof(struct sb_machine),
               "the owner is a machine's last member");
_Static_assert(offsetof(struct sb_observer, timing) == 0,
               "the timing is an observer's first member");
_Static_assert(offsetof(struct sb_observer, owner) + sizeof(struct simba_owner) ==
                   sizeof(struct sb_observer),
               "the owner is an observer's last member");

struct sb_packed_owner {
    const char *id; /* nobody's, own_id, or in a name */
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t fence;
};

struct sb_packed {
    const char *own_id; /* NULL: an observer */
    union {             /* of each machine all but its first and its last member */
        char contender[offsetof(struct sb_machine, owner) - sizeof(struct sb_timing *)];
        char observer[offsetof(struct sb_observer, owner) - sizeof(struct sb_timing *)];
    } machine;
    struct sb_packed_owner owner;
    struct sb_packed_owner before; /* this and all below: the report */
    struct sb_packed_owner after;
    bool pending;
    bool acquired;
    bool released;
    bool renewed;
};

/* The id of another owner. */
struct sb_name;

/* `own_id` stays the caller's and outlives what is packed. */
void sb_packed_init(struct sb_packed *packed, const char *own_id,
                    const union sb_any_machine *machine);
void sb_packed_free(struct sb_packed *packed);

/* Makes the name that a step may bring, so that packing it needs no memory. False when memory is
 * short. The contender's own id needs none: then *ret_name is NULL. */
bool sb_packed_make_name(const struct sb_packed *packed, const char *id, struct sb_name **ret_name);

/* The machine, for a step. `timing` is the one that it was made with. */
void sb_packed_get_machine(const struct sb_packed *packed, const struct sb_timing *timing,
                           union sb_any_machine *ret_machine);

/* The report, too: for the steps that have to do with it, which few have. */
void sb_packed_get_report(const struct sb_packed *packed, struct sb_report *ret_report);

/* Packs them after it; `report` is NULL where it was not asked for. `name` (NULL: none) was made
 * for the event; it is the caller's no more. */
void sb_packed_set(struct sb_packed *packed, const union sb_any_machine *machine,
                   const struct sb_report *report, struct sb_name *name);

/* sb_report_take on the packed report. */
struct sb_report sb_packed_take_report(struct sb_packed *packed);

/* Makes the state that can be read one without a change: the owner is the one that was known. A
 * report that waits keeps its change. */
void sb_packed_confirm(struct sb_packed *packed);

/* Makes the state that can be read nobody's, for a life that begins. No report waits. */
void sb_packed_forget(struct sb_packed *packed);

/* Who owned before the last change, and who owns. */
void sb_packed_state(const struct sb_packed *packed, struct simba_state *ret_state);

#endif
