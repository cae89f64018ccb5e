/*
 * groups.h - the simulator of semaphores and sets: many groups and their mutexes in one thread, in
 * virtual time, with the steps that ship (src/core/group.h).
 *
 * What one mutex does is not drawn from its machine here, but is as simba-sim has shown it to be:
 * one owner at a time, a belief that ends before the lease, a queue of waiters, a release that
 * wakes the first. Faults may strike at any instant until they heal; then each group acquires
 * a few times more, and the world is over when all have done so.
 *
 * Files: world.c draws a world and runs its events, store.c has the mutexes, part.c drives one
 * mutex of a group as mutex_locker.c and a contender do, member.c takes the steps of a group and
 * waits in between as group_locker.c does, check.c judges.
 */
#ifndef SIMBA_GROUPS_H
#define SIMBA_GROUPS_H

#include "core/group.h"

#include <simba/simba.h>

#include <stdio.h>

#define GRP_GROUPS_MAX 8
#define GRP_PARTS_MAX 9 /* a gate and 8 slots, or the mutexes of a set */
#define GRP_EVENTS_MAX 4096
#define GRP_NOBODY (-1)
#define GRP_NUMBERS 16 /* that a semaphore has had */

/* From the end of faults until the leases, reservations and numbers of before count no more. */
#define GRP_SETTLE_MS 8000

enum grp_event_type {
    /* of a group's process: they wait while it is paused, and are lost when it has crashed */
    GRP_RUN,    /* its thread */
    GRP_TRY,    /* a part sends an attempt */
    GRP_ANSWER, /* to that; `value` is the time left, negative: it was granted */
    GRP_RENEW,
    GRP_RENEWED, /* `value` is 0: it was not */
    GRP_LAPSE,   /* the end of a belief, perhaps */
    GRP_LEFT,    /* a stop is over */
    GRP_TOLD,    /* the number of slots; `value` is -1: no answer, -2: the store refused */
    /* of the store and of everybody */
    GRP_AT_TRY,
    GRP_AT_RENEW,
    GRP_AT_LEAVE,
    GRP_AT_ASK,
    GRP_FAULT,
    GRP_HEAL,
    GRP_RESIZE, /* on a good day, too */
    GRP_LATE    /* all must have finished by now */
};

struct grp_event {
    int64_t at_ms;
    uint64_t order;
    enum grp_event_type type;
    int group;
    int part;
    uint32_t life;   /* of the group's process */
    uint32_t serial; /* of the part's contest, or of the thread's timer */
    int64_t sent_ms;
    int64_t value;
};

/* What the store has of a mutex. */
struct grp_mutex {
    int owner; /* a group or GRP_NOBODY */
    uint32_t life;
    int64_t until_ms;
    int queue[2 * GRP_GROUPS_MAX]; /* those that crashed stay in it */
    uint32_t queue_lives[2 * GRP_GROUPS_MAX];
    size_t waiting;
    bool reserved; /* for the first in the queue */
    int64_t reserved_until_ms;
    int64_t free_ms; /* since when nobody owns it; INT64_MAX: somebody does */
};

enum grp_status { GRP_INITIAL, GRP_COMPETING, GRP_OWNING, GRP_STOPPING };

struct grp_part {
    int mutex;
    enum grp_status status;
    bool begun;    /* and not withdrawn */
    bool taken;    /* the same */
    bool answered; /* once, in this contest */
    bool voided;   /* taken away by force: its owner does not know yet */
    uint32_t serial;
    int64_t until_ms; /* of the belief */
    int64_t timer;    /* only the newest counts */
    int64_t woken_ms;
    int64_t last_arrival_ms; /* requests of one part stay in order */
};

enum grp_phase { GRP_RESTING, GRP_ACQUIRING, GRP_HOLDING, GRP_GONE };

struct grp_group {
    struct grp_world *world;
    int number;
    uint32_t life;
    enum grp_phase phase;
    int64_t paused_until_ms;
    int64_t cut_until_ms; /* from the store */
    struct sb_group plan;
    struct sb_part sights[GRP_PARTS_MAX]; /* of the plan, which has their number */
    struct grp_part parts[GRP_PARTS_MAX];
    bool asks;        /* the thread waits for the number of slots */
    int64_t since_ms; /* of its phase */
    int64_t until_ms; /* of the acquire, or of the hold */
    int64_t run_ms;   /* the thread's timer */
    uint32_t timer;
    int left; /* acquires that it has still to do, after the faults */
    /* The checker: since when something is so that may be so for a moment only; 0: it is not. */
    int64_t disorder_ms;
    int64_t unserved_ms;
};

enum grp_count {
    GRP_WORLDS,
    GRP_HELDS,
    GRP_REFUSALS,
    GRP_TIMEOUTS,
    GRP_DENIALS, /* of the number of slots, so the acquire ends */
    GRP_LOSSES,
    GRP_LOST_WAITING,  /* a part that was held while another was waited for */
    GRP_LOST_STEPPING, /* between two looks of a step, or before it was taken */
    GRP_CRASHES,
    GRP_PAUSES,
    GRP_CUTS,
    GRP_FORCED,
    GRP_RESIZES,
    GRP_RESERVATIONS,
    GRP_WITHDRAWALS, /* of sets that do not hold */
    GRP_BESIDE,      /* tries that found a slot beside a gate in use */
    GRP_COUNTS
};

struct grp_world {
    uint64_t dice;
    FILE *trace; /* NULL: none */
    bool semaphore;
    bool queues; /* the store keeps the order of waiters */
    int64_t now_ms;
    int64_t lease_ms;
    int64_t delay_ms; /* the longest usual delay of a message */
    int64_t reserve_ms;
    int lost_permille;
    bool healed;
    bool over;
    int64_t settled_ms;
    int mutexes;
    struct grp_mutex store[GRP_PARTS_MAX];
    int64_t number;               /* of slots, as the store has it; 0: it was never written */
    int64_t numbers[GRP_NUMBERS]; /* all that it was, and until when */
    int64_t number_until_ms[GRP_NUMBERS];
    size_t number_count;
    struct grp_group groups[GRP_GROUPS_MAX];
    int group_count;
    struct grp_event events[GRP_EVENTS_MAX]; /* the next one last */
    size_t event_count;
    uint64_t order;
    char violation[160];
    uint64_t counts[GRP_COUNTS];
};

/* world.c: runs a seed; NULL, or the rule that was broken. */
const char *grp_world_run(struct grp_world *w, uint64_t seed, FILE *trace);
int64_t grp_roll(struct grp_world *w, int64_t low, int64_t high);
bool grp_chance(struct grp_world *w, int permille);
void grp_push(struct grp_world *w, struct grp_event event);
void grp_trace(const struct grp_world *w, const char *format, ...) SIMBA_PRINTF(2, 3);
int64_t grp_delay(struct grp_world *w);
bool grp_is_lost(struct grp_world *w, int group); /* a message to or from the store */

/* store.c: carries a request out. */
int64_t grp_store_try(struct grp_world *w, int mutex, int group); /* as `value` of GRP_ANSWER */
bool grp_store_renew(struct grp_world *w, int mutex, int group);
void grp_store_leave(struct grp_world *w, int mutex, int group);
void grp_store_force(struct grp_world *w, int mutex);
bool grp_store_is_free(const struct grp_world *w, int mutex);
void grp_store_set_number(struct grp_world *w, int64_t number);

/* part.c */
extern const struct sb_part_ops grp_part_ops; /* their user is a struct grp_group */
bool grp_part_is_held(const struct grp_world *w, const struct grp_part *part);
void grp_part_event(struct grp_world *w, const struct grp_event *event);
void grp_part_wake(struct grp_world *w, int group, int mutex, int64_t at_ms);

/* member.c */
void grp_member_run_at(struct grp_world *w, int group, int64_t at_ms);
void grp_member_changed(struct grp_world *w, int group);
void grp_member_event(struct grp_world *w, const struct grp_event *event);

/* check.c */
void grp_violate(struct grp_world *w, const char *format, ...) SIMBA_PRINTF(2, 3);
void grp_check_held(struct grp_world *w, int group);
void grp_check_refused(struct grp_world *w, int group);
void grp_check(struct grp_world *w); /* after each event */
void grp_check_end(struct grp_world *w);
bool grp_believes(const struct grp_world *w, int group);

#endif
