/*
 * machine.h - the contention machine: one contender of one mutex.
 *
 * Pure: it has no clock, does no I/O, allocates nothing. Its driver feeds it events that carry the
 * time, and does what the step answers. The same machine runs in production and in the simulator.
 *
 * Duties of the driver
 *  1. Step the machine with every event, one at a time, times never going back.
 *  2. After each step: send the request, deliver the notification, end the stop, in that order, as
 *     far as the step asks for them; and step it with SB_EVENT_TICK at step->deadline_ms, the
 *     next tick.
 *  3. Answer every request exactly once with SB_EVENT_REPLY, with the generation, the fence and the
 *     sending time that it had. The sending time is taken before the request leaves.
 *  4. Deliver the changes and renewals in order, and report each with SB_EVENT_RETURNED when its
 *     callback has returned or will never run. What waits for a callback that runs is merged into
 *     one (report.h), so at most two are owed between two steps.
 *  5. Believe only while sb_machine_belief_ms() is ahead of the clock.
 */
#ifndef SB_CORE_MACHINE_H
#define SB_CORE_MACHINE_H

#include "core/status.h"

#include <simba/backend.h>

/* The times of a contest, in milliseconds. Many machines share one. */
struct sb_timing {
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t margin_ms; /* how much earlier than the store the owner stops believing */
    int64_t initial_delay_ms;
    int64_t jitter_min_ms;
    int64_t jitter_max_ms;
    int64_t turn_ms; /* from one waiter to the next in the queue; 0: the jitter keeps them apart */
    int64_t reserve_ms; /* how long a free mutex waits for the next in the queue; 0: for nobody */
    bool fair;          /* whether there is a reserve_ms: fair= in the URL */
    int64_t stop_timeout_ms;
    int64_t read_ms; /* between two READs of a follower; 0: the store tells it of changes */
};

enum sb_event_type {
    SB_EVENT_START,
    SB_EVENT_STOP,
    SB_EVENT_TICK,
    SB_EVENT_REPLY,
    SB_EVENT_WAKE,        /* a notice says that the mutex was released */
    SB_EVENT_CHANGED,     /* a notice says that the owner changed */
    SB_EVENT_RESERVED,    /* a notice says that it is reserved for the waiter before this one */
    SB_EVENT_STANDBY,     /* the same for one further in front, and that the next may hang, too */
    SB_EVENT_RETURNED,    /* `returned` callbacks have returned */
    SB_EVENT_SESSION_LOST /* the store has forgotten all that was held */
};

enum sb_answer {
    SB_ANSWER_MINE,   /* I am the owner */
    SB_ANSWER_OTHER,  /* another contender is */
    SB_ANSWER_NOBODY, /* nobody is */
    SB_ANSWER_FAILED, /* it was not carried out and will not be */
    SB_ANSWER_UNKNOWN /* it may have been carried out, or will be, or not */
};

struct sb_event {
    enum sb_event_type type;
    int64_t now_ms;
    unsigned returned; /* RETURNED */
    bool leaves;       /* STOP: a term that is held stays on the store, and runs out there */
    /* REPLY: */
    uint32_t generation;
    enum simba_op op;
    enum sb_answer answer;
    int code;           /* FAILED and UNKNOWN: SIMBA_E... */
    uint64_t named;     /* GUARD and READ: the fence of the request */
    int64_t sent_at_ms; /* when the request was sent, or the instant that its lease counts from */
    const char *owner;  /* MINE and OTHER */
    int64_t ttl_left_ms;
    int64_t transition_left_ms;
    uint64_t revision;
    bool revision_counts; /* each ACQUIRE and GUARD that changed the record added 1 to it */
    uint64_t fence;       /* of the owner's term, or of the last one in the record; 0: not known */
    int64_t place; /* OTHER, ACQUIRE: mine in the wait queue, from 1; 0 where it is not known */
    bool missed;   /* RELEASE: the store did not have the record that it named */
    int64_t reserved_left_ms; /* NOBODY, ACQUIRE: > 0 where it is reserved for another */
};

/* What the driver has to do after a step. */
struct sb_step {
    struct {
        enum simba_op op; /* SIMBA_OP_NONE: nothing to send */
        uint32_t generation;
        uint64_t revision;
        uint64_t fence; /* GUARD and READ: of the term that is meant; 0: any of mine */
        int64_t timeout_ms;
        bool shared; /* READ: it only tells of the owner, so all that follow a mutex may share it */
    } request;
    bool changed;  /* the owner changed: `state` tells from whom to whom */
    bool acquired; /* and that made me the owner */
    bool released; /* and I was the owner */
    bool renewed;  /* I still am, for longer: `state` has me twice. Only where renewals are told */
    /* The known owner still owns: no change is left to be read. */
    bool confirmed;
    struct simba_state state;
    bool stopped; /* the stop is complete */
    /* SIMBA_OK, or why something may be left on the store; SIMBA_ELOST: the term that the stop
     * ended was gone before its release */
    int stop_code;
    int64_t deadline_ms; /* the next tick, not the end of the belief; SIMBA_INFINITE: none */
};

/* What the store has of this contender, as far as it knows. */
enum sb_claim {
    SB_CLAIM_NONE,   /* nothing */
    SB_CLAIM_MINE,   /* a record with `revision` */
    SB_CLAIM_UNKNOWN /* perhaps a record: a reply was lost */
};

/* Read it from outside only through the functions below. */
struct sb_machine {
    const struct sb_timing *timing;
    enum simba_status status;
    enum sb_claim claim;
    enum simba_op in_flight; /* the one request of this generation that has no answer yet */
    uint32_t generation;
    unsigned callbacks;  /* changes and renewals whose callbacks have not returned */
    unsigned failures;   /* of requests, in a row */
    bool tells_term;     /* one of those tells of a term of mine, or is of an older start */
    bool held;           /* the lease runs and has not been given up */
    bool touched;        /* a request of this generation has been sent */
    bool woken;          /* a wake-up came while a request was in flight */
    bool give_back;      /* a grant came too late to be believed: release it */
    bool tells_renewals; /* each is told like a change */
    bool follows;        /* while it waits it reads when the owner is said to have changed */
    bool reading;        /* the last request was such a READ */
    /* An older ACQUIRE succeeded or is unknown, and the store may have run it after the request in
     * flight. */
    bool doubt;
    bool rival;             /* the store has a term of my id that is not mine: it is waited for */
    bool ends_term;         /* a stop ends a term that is neither released nor found gone yet */
    bool lost;              /* a stop has found the term gone that it ends */
    bool leaves;            /* a stop leaves the term that it ends on the store */
    int last_code;          /* of the last request */
    int64_t attempt_at_ms;  /* when the next request is due */
    int64_t read_at_ms;     /* when the next such READ is due; SIMBA_INFINITE: never */
    int64_t lease_until_ms; /* the end of the belief while held */
    int64_t stop_at_ms;     /* when a stop gives up */
    uint64_t fence;         /* of the term, while held */
    uint64_t revision; /* of the record when it was last told; it still is where claim is MINE */
    uint64_t claimed;  /* the token of its term then; 0: not known */
    uint64_t stray;    /* fence of a term that a late ACQUIRE of an older generation won; 0: none */
    uint64_t open;     /* of my ACQUIREs and GUARDs: those that may change the record after that */
    uint64_t random;
    struct simba_owner owner; /* as far as is known; last: the runtime folds it between two steps */
};

void sb_machine_init(struct sb_machine *machine, const struct sb_timing *timing, uint64_t seed);

/* Makes the machine tell each renewal. Call it before the first step. */
void sb_machine_tell_renewals(struct sb_machine *machine);

/* Makes a waiting contender send a READ when a notice says that the owner changed. Otherwise it
 * learns of a change between others by its next attempt. Call it before the first step. */
void sb_machine_follow(struct sb_machine *machine);

/* Returns SIMBA_OK, or SIMBA_ESTATE when START or STOP does not fit the status; then nothing has
 * changed. *step is always filled in. */
int sb_machine_step(struct sb_machine *machine, const struct sb_event *event, struct sb_step *step);

/* Until when the machine believes that it owns; 0: it does not. The belief ends by itself at that
 * instant, whether or not anything steps the machine. */
int64_t sb_machine_belief_ms(const struct sb_machine *machine);

/* When the ttl of the term that is believed in ends; 0: none. */
int64_t sb_machine_ttl_ms(const struct sb_machine *machine);

/* The token of the term that is believed in; 0: none. */
uint64_t sb_machine_fence(const struct sb_machine *machine);

/* The rule that the machine breaks, or NULL. Every step checks that this is NULL. */
const char *sb_machine_broken_rule(const struct sb_machine *machine);

#endif
