/*
 * sim.h - the simulator: whole clusters of contention machines in one thread, in virtual time.
 *
 * A world is drawn from one 64-bit seed and run event by event; nothing else enters it, so a seed
 * is a run. True time is in microseconds; every host has a clock of its own, and the store counts
 * true milliseconds. All memory is inside the world: a run allocates nothing.
 *
 *     faults ........................ heal ........ demand ........ finale ........ end
 *     safety only                      |  a leader by  |  it stays   |  all stop, nothing is left
 *
 * Files: draw.c draws a world and world.c runs it, app.c is the application, member.c drives a
 * machine as the runtime does, net.c carries requests, store.c and session.c are the stores,
 * client.c remembers what a session is told, fault.c breaks things. The judges: check.c of beliefs
 * and the store, check_told.c of what the application is told, check_duty.c of guards, stops and
 * what is left behind, check_live.c of leaders.
 */
#ifndef SIMBA_SIM_H
#define SIMBA_SIM_H

#include "core/observer.h"
#include "core/report.h"

#include <stdio.h>

#define SIM_MEMBERS_MAX 22 /* 20 contenders and 2 observers */
#define SIM_PROCESSES_MAX 6
#define SIM_HOSTS_MAX 4
#define SIM_REQUESTS_MAX 2048
#define SIM_EVENTS_MAX 4096
#define SIM_SESSIONS_MAX 512
#define SIM_NODES_MAX 256
#define SIM_GRANTS 16 /* of one member, that are remembered */
#define SIM_PINGS 32  /* of one process, that are under way */
#define SIM_ENDED 64  /* records that stood first, of the store of sessions */
#define SIM_NOBODY (-1)
#define SIM_NEVER INT64_MAX
#define SIM_MS 1000 /* microseconds */
#define SIM_S (1000 * SIM_MS)

/* ---- Events ---------------------------------------------------------------------------------- */

enum sim_event_type {
    /* of a member's process: they wait while it is paused, and are lost when it has crashed */
    SIM_TICK,     /* the machine's deadline */
    SIM_ANSWER,   /* a reply reaches the process */
    SIM_TIMEOUT,  /* the backend gives a request up */
    SIM_WAKE,     /* a notice that the mutex was released, true or not */
    SIM_CHANGED,  /* a notice that the owner changed, true or not */
    SIM_RESERVED, /* a notice that it is reserved for the one before, true or not */
    SIM_STANDBY,  /* a notice that it is reserved for one further in front, true or not */
    SIM_BEGIN,    /* a callback begins */
    SIM_RETURN,   /* a callback returns */
    SIM_RETURNED, /* the machine is told so */
    SIM_APP,      /* the application starts or stops the member */
    SIM_STOP,     /* a stop that a callback asked for */
    SIM_WRITE,    /* the application writes to the fenced resource if it believes */
    SIM_PING,     /* the session's heartbeat; `who` is a process */
    SIM_PONG,     /* the heartbeat's answer; `who` is a process */
    SIM_EXPELLED, /* the process learns that its session is over; `who` is a process */
    /* of everybody else */
    SIM_ARRIVE,   /* a request reaches the store */
    SIM_HEARD,    /* a heartbeat reaches the store; `who` is a process */
    SIM_RESOURCE, /* a write reaches the fenced resource */
    SIM_SWEEP,    /* the store looks for sessions that ended */
    SIM_FAULT,    /* `who` is an enum sim_fault */
    SIM_REJOIN,   /* a server that was deposed learns so */
    SIM_HEAL,
    SIM_DEMAND,
    SIM_HICCUP, /* `argument` is its length in microseconds */
    SIM_FINALE,
    SIM_END
};

struct sim_event {
    int64_t at_us;
    uint64_t order; /* of two events at one instant the earlier made comes first */
    enum sim_event_type type;
    int who;
    uint32_t life; /* of the process, when it was made */
    uint64_t argument;
};

struct sim_queue {
    struct sim_event heap[SIM_EVENTS_MAX];
    size_t count;
    uint64_t order;
};

/* ---- Hosts, processes, members --------------------------------------------------------------- */

/* Runs at (1 + ppm / 1000000) of true time. It counts through pauses and suspends. */
struct sim_clock {
    int64_t offset_us;
    int64_t ppm;
};

/* A heartbeat on its way. Its place is taken again when it is long lost. */
struct sim_ping {
    uint64_t number;
    uint64_t session;
    int64_t sent_ms; /* on the process' clock */
    int64_t heard_us;
};

struct sim_process {
    int host;
    uint32_t life; /* crashes so far */
    bool dead;     /* it does not come back */
    int64_t paused_until_us;
    int64_t cut_until_us; /* partitioned from the store */
    /* When its server, which was deposed, was last confirmed as the master, on the process' clock.
     * 0: it uses the master. */
    int64_t confirmed_ms;
    uint64_t session;  /* 0: none yet */
    int64_t proved_ms; /* when the session was last proved alive, on the process' clock */
    int64_t known_us;  /* up to when the process knows what happened on the store of sessions */
    uint64_t ping_count;
    struct sim_ping pings[SIM_PINGS];
};

/* A request on its way. It lives while an event refers to it. */
struct sim_request {
    bool used;
    unsigned events;
    uint64_t serial;
    uint64_t term; /* that the sender believed in; 0: none */
    int member;
    uint32_t life;
    uint32_t start; /* the how-many-th start of the member it belongs to; 0: an afterthought */
    uint64_t session;
    enum simba_op op;
    uint32_t generation;
    uint64_t revision;
    uint64_t fence; /* GUARD: of the term to renew; 0: any */
    int64_t timeout_ms;
    int64_t sent_at_ms;
    int64_t
        arrived_ms; /* when it began to wait inside the store, by that one's clock; 0: it did not */
    int64_t stamp_ms;   /* the time that the store takes for now when it carries the request out */
    int64_t applied_us; /* 0: not yet */
    bool answered;      /* the machine has its answer: what comes later is dropped */
    bool reply_lost;
    bool twice;     /* it arrives twice */
    bool expelled;  /* the store no longer knows the session */
    bool deposed;   /* the server that carried it out was the master no more */
    bool foreign;   /* what it found is of the sender's id, and of another term than it names */
    bool gave_back; /* RELEASE: the store had the record that it names */
    /* the answer: */
    int code;
    int owner; /* a member or SIM_NOBODY */
    int64_t ttl_left_ms;
    int64_t transition_left_ms;
    int64_t as_of_ms;
    uint64_t reply_revision;
    uint64_t reply_fence;     /* 0: the store does not know it */
    int64_t place;            /* in the wait queue; 0: not told */
    int64_t reserved_left_ms; /* for another; 0: it is not */
};

/* How the application of a member behaves. */
struct sim_habits {
    bool mute;                /* it has no callbacks */
    int64_t callback_us;      /* the longest usual callback */
    int slow_permille;        /* callbacks that take about a lease or more */
    int stuck_permille;       /* callbacks that never return */
    int stop_inside_permille; /* callbacks that stop their own member */
    int64_t run_us;           /* the longest time between start and stop; 0: it stays */
    int64_t rest_us;          /* the longest time between stop and start */
};

struct sim_member {
    int process;
    bool observer;
    bool follows; /* a contender that wants to know of changes between others */
    bool stuck;   /* a callback will never return */
    uint32_t starts;
    uint32_t generation; /* the newest that is known from outside: a start and a request tell it */
    uint32_t timer;      /* only the newest SIM_TICK counts */
    int64_t deadline_ms;
    bool listening;   /* the backend is told that it competes */
    uint64_t applied; /* the newest of its requests that the store of sessions has carried out */
    struct sb_timing timing;
    struct sim_habits habits;
    int twin; /* the first member with the same id: mostly itself */
    char id[8];
    uint64_t told_revision; /* of its record that stands first, as its client remembers; 0: none */
    union {
        struct sb_machine contender;
        struct sb_observer observer;
    } machine;

    /* The strand of callbacks, as the runtime keeps it. */
    struct sb_report report;
    bool report_queued;
    bool strand_busy;
    unsigned returned; /* callbacks that the machine has not been told of */
};

/* ---- The store ------------------------------------------------------------------------------- */

enum sim_kind {
    SIM_SQL,    /* a row: the revision grows with every change */
    SIM_REDIS,  /* a key that expires: the revision grows with acquisitions; data can be lost */
    SIM_SESSION /* nodes of sessions in a queue, as ZooKeeper has them */
};

/* What a request left on the store, and whether its sender had given it up by then. */
struct sim_origin {
    int member;
    uint32_t start;
    uint64_t serial;     /* of the request */
    uint32_t told_start; /* the later start that was told of its outcome; 0: none */
    bool given_up;
};

struct sim_waiter {
    struct sim_origin origin;
    bool waiting;
    uint64_t joined;
};

struct sim_node {
    struct sim_origin origin;
    uint64_t session;
    uint64_t revision;
    bool granted;       /* its contender was told that it owns */
    int64_t touched_ms; /* when it last was guarded or came first, on its client's clock */
};

struct sim_session {
    int process;
    bool over;
    int64_t heard_ms;
    int64_t removed_ms; /* when the nodes of a session that is over are taken off the list */
};

/* A record that stood first and does so no more. */
struct sim_ended {
    uint64_t revision;
    int64_t at_us;
};

/* What a server of SIM_SQL or SIM_REDIS has of the mutex. */
struct sim_record {
    struct sim_origin owner; /* .member is SIM_NOBODY when nobody owns */
    uint64_t revision;
    uint64_t fence; /* the revision with which the owner's term began */
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
};

struct sim_store {
    enum sim_kind kind;
    int64_t down_until_us;
    uint64_t counter; /* the last revision; never handed out twice */
    uint64_t joined;
    bool curt;        /* where nothing is to be given back it names no owner */
    bool tells_fence; /* it knows the owner's term; SIM_SQL: or only counts changes */
    /* SIM_SQL and SIM_REDIS: */
    struct sim_record record;
    struct sim_record
        deposed; /* of a server that was the master, and still answers those that use it */
    int64_t deposed_until_us; /* until it learns so */
    struct sim_waiter waiters[SIM_MEMBERS_MAX];
    int64_t dead_waiters; /* of others, before all of these in the queue */
    bool has_queue;       /* SIM_SQL: it has a table of those that wait, and wakes the first */
    int reserved_for;     /* a member, alive or not, or SIM_NOBODY */
    int64_t reserved_until_ms;
    uint64_t whims; /* dice: a store that forgets reservations and invents some; 0: it does not */
    /* SIM_SESSION: */
    int64_t session_ms;
    bool endless; /* another's lease is reported as SIMBA_INFINITE */
    bool recalls; /* its clients answer guards from what they remember */
    struct sim_node nodes[SIM_NODES_MAX];
    size_t node_count;
    struct sim_session sessions[SIM_SESSIONS_MAX];
    uint64_t session_count;
    struct sim_ended ended[SIM_ENDED];
    size_t ended_count;
};

/* ---- Faults ---------------------------------------------------------------------------------- */

enum sim_fault {
    SIM_FAULT_PARTITION,
    SIM_FAULT_PAUSE,
    SIM_FAULT_SUSPEND,
    SIM_FAULT_CRASH,
    SIM_FAULT_DEATH, /* a crash without a restart */
    SIM_FAULT_STORE_DOWN,
    SIM_FAULT_DATA_LOSS,
    SIM_FAULT_FORCE_RELEASE,
    SIM_FAULT_FALSE_WAKE,
    SIM_FAULT_DEPOSE, /* another server becomes the master, and not everybody hears of it */
    SIM_FAULT_COUNT
};

/* In a thousand messages, before the faults heal. */
struct sim_network {
    int refused;    /* reset before it was sent: certainly never carried out */
    int lost;       /* never arrives */
    int reset;      /* given up at once, and carried out at any time or never */
    int reply_lost; /* carried out, but nobody is told */
    int duplicated; /* carried out twice, the second time at any time */
    int no_memory;  /* fails before it is a request */
    int slow;       /* delayed by up to two leases */
    int blocked;    /* waits inside the store for up to two leases, as behind a lock */
    int wake_lost;
    int64_t delay_us;
    int64_t patience; /* how many times its timeout a request is waited for */
};

/* ---- The checker ----------------------------------------------------------------------------- */

enum sim_phase { SIM_DOWN, SIM_UP, SIM_ENDING };

/* What can be seen of a member from outside. */
struct sim_seen {
    enum sim_phase phase;
    /* beliefs, in true time: */
    int64_t until_us;      /* the end of its belief; 0: it does not believe */
    int64_t last_until_us; /* of its last belief */
    int64_t ttl_us;
    int64_t proved_us; /* the latest end of a belief that the store's answers allow */
    int64_t proved_ttl_us;
    uint64_t token;
    uint64_t last_token; /* of all its terms */
    uint64_t term;       /* the how-many-th belief of the world */
    uint64_t grants[SIM_GRANTS];
    size_t grant_count;
    int64_t voided_us;  /* when its term was taken away by force, or with the data; 0: it was not */
    uint64_t voided_to; /* the tokens up to this one are void then */
    bool restored;      /* an old request of its own brought the voided record back */
    int64_t deposed_us; /* when the server that it listens to was deposed; 0: it was not */
    bool rival;     /* it was told of a term of its id that is not its own, and of nothing since */
    bool doubt;     /* an older start of its own came to light since its last guard */
    uint64_t stray; /* of a term that an older start of it came to have */
    uint64_t unsettled; /* its requests whose outcome it does not know, in this life */
    /* requests: */
    uint64_t acquiring;    /* the serial of its ACQUIRE that has no answer yet; 0: none */
    uint64_t released;     /* the last revision that it has sent a RELEASE for */
    bool woken;            /* while it waited for that answer */
    uint64_t probes;       /* looks that it has sent */
    int64_t guard_from_us; /* since when a guard has been due; 0: none is */
    int64_t guard_due_us;  /* when it is too late */
    int64_t burst_us;      /* since when requests are counted */
    int64_t burst;
    int64_t burst_guards;
    int64_t prods;   /* wake-ups and the like meanwhile */
    bool prodded;    /* since it last came for its turn, by anything but an answer */
    int64_t turn_us; /* when its place in the queue lets it come; 0: it was told none */
    bool waits;      /* its last attempt found another owner, or a reservation for another */
    /* what the application was told: */
    bool acquired_told;  /* on_acquired has begun and on_released has not */
    char owner_told[8];  /* whom the last callback named */
    uint64_t fence_told; /* its token */
    uint64_t reports;    /* changes that its machine has named */
    char owner_named[8]; /* in the last of them */
    uint64_t fence_named;
    /* stops: */
    bool handing_over;     /* it stops, and on_released has not returned */
    int64_t kept_until_us; /* as far as its lease is proved while it hands over */
    int64_t stop_from_us;
    int64_t stop_by_us;  /* when a stop has to be complete */
    uint64_t ending;     /* the token of the term that the stop ends; 0: none */
    bool releasing;      /* a release of the stop has no answer yet */
    bool gave_back;      /* a release of the stop has found a record of its own */
    bool gave_term_back; /* and that was this term's */
    bool unclear;        /* a release of the stop may have found one */
    bool asked_to_stop;  /* in the finale */
    int stop_code;       /* of the last stop */
};

struct sim_check {
    struct sim_seen seen[SIM_MEMBERS_MAX];
    uint64_t terms;
    uint64_t last_token; /* the largest that was believed in */
    uint64_t last_grant; /* the largest that the store has given */
    uint64_t resource_token;
    uint64_t resource_term;
    int leader; /* when one was demanded; SIM_NOBODY: there was nobody to lead */
    uint64_t leader_term;
    char violation[256];
};

/* What happened, to show that the worlds are not dull. main.c has the names. */
enum sim_count {
    SIM_EVENTS,
    SIM_TERMS,
    SIM_RENEWALS,
    SIM_LOSSES,
    SIM_UNKNOWN,      /* answers */
    SIM_LATE_APPLIED, /* carried out after they had been given up */
    SIM_LATE_DROPPED, /* replies to what had been given up */
    SIM_LATE_GRANTS,  /* that were given back */
    SIM_SESSIONS_LOST,
    SIM_RECALLED, /* guards that were answered without the store */
    SIM_STOPS_OK,
    SIM_STOPS_LOST, /* that found the term gone */
    SIM_STOPS_FAILED,
    SIM_VOIDED,   /* terms taken away by force or with the data */
    SIM_OVERLAPS, /* of beliefs, beyond the drift bound or after a term was voided */
    SIM_WRITES,
    SIM_REFUSED_WRITES,
    SIM_REFUSED, /* by the network; and so on */
    SIM_LOST,
    SIM_RESET,
    SIM_REPLY_LOST,
    SIM_DUPLICATED,
    SIM_SLOW,
    SIM_NO_MEMORY,
    SIM_WAKE_LOST,
    SIM_SLOW_CALLBACKS,
    SIM_STUCK_CALLBACKS,
    SIM_STOPS_INSIDE,
    SIM_ILLEGAL_CALLS,
    SIM_OWNERS_KILLED,
    SIM_HICCUPS,
    SIM_PLACES, /* told to those who take turns */
    SIM_RESERVATIONS,
    SIM_RESERVED_FOR_OTHER, /* attempts that found the mutex free, but not for them */
    SIM_WHIMS,              /* reservations forgotten or invented */
    SIM_LOOKS, /* of contenders that follow, when they were told of a change or by themselves */
    SIM_BLOCKED,
    SIM_STOLEN,  /* terms, by a contender with the same id */
    SIM_FOREIGN, /* guards that found another term of the same id */
    SIM_DEPOSED, /* answers of a server that is the master no more */
    SIM_FAULTS,  /* and one for each enum sim_fault that struck somebody */
    SIM_COUNTS = SIM_FAULTS + SIM_FAULT_COUNT
};

/* ---- The world ------------------------------------------------------------------------------- */

struct sim_options {
    bool beyond_drift;
    FILE *trace;  /* for people; NULL: none */
    FILE *events; /* for programs; NULL: none */
};

struct sim_world {
    const struct sim_options *options;
    uint64_t seed;
    uint64_t dice;
    int64_t now_us;
    int64_t heal_us;
    int64_t lease_ms; /* the longest of all members */
    bool healed;
    bool over;  /* the finale has come */
    bool close; /* contenders come at the very instant at which a lease ends */
    bool slow;  /* leases last tens of seconds */
    struct sim_network network;
    int64_t fault_gap_us[SIM_FAULT_COUNT]; /* 0: does not happen */
    struct sim_queue queue;
    struct sim_clock clocks[SIM_HOSTS_MAX];
    int host_count;
    struct sim_process processes[SIM_PROCESSES_MAX];
    int process_count;
    struct sim_member members[SIM_MEMBERS_MAX];
    int member_count;
    struct sim_request requests[SIM_REQUESTS_MAX];
    size_t request_hint; /* where a free one may be */
    uint64_t serial;     /* of the last request */
    int64_t hiccup_until_us;
    struct sim_store store;
    struct sim_check check;
    uint64_t counts[SIM_COUNTS];
};

/* world.c: runs a seed; NULL, or the rule that was broken. `world` is the caller's memory. */
const char *sim_world_run(struct sim_world *world, uint64_t seed,
                          const struct sim_options *options);

/* draw.c: what the seed decides before anything happens. */
void sim_draw(struct sim_world *w);
void sim_draw_trace(const struct sim_world *w);

/* dice.c: draws. `high` is not reached. */
int64_t sim_roll(struct sim_world *w, int64_t low, int64_t high);
bool sim_chance(struct sim_world *w, int permille);

/* clock.c: what a clock shows, and the first instant at which it shows `ms`. */
int64_t sim_clock_ms(const struct sim_clock *clock, int64_t true_us);
int64_t sim_clock_true_us(const struct sim_clock *clock, int64_t ms);
int64_t sim_clock_most_us(const struct sim_world *w, int64_t ms); /* by the slowest clock */
int64_t sim_process_ms(const struct sim_world *w, int process);

/* queue.c */
void sim_queue_push(struct sim_queue *queue, struct sim_event event);
bool sim_queue_pop(struct sim_queue *queue, struct sim_event *ret_event);

/* world.c: makes an event `in_us` from now. */
void sim_after(struct sim_world *w, int64_t in_us, enum sim_event_type type, int who,
               uint64_t argument);

/* member.c: drives the machine of a member. */
enum simba_status sim_member_status(const struct sim_member *m);
void sim_member_event(struct sim_world *w, int member, enum sb_event_type type);
void sim_member_drive(struct sim_world *w, int member, const struct sb_event *event);
void sim_member_tick(struct sim_world *w, int member, uint32_t timer);
void sim_member_begin(struct sim_world *w, int member);
void sim_member_return(struct sim_world *w, int member);
void sim_member_returned(struct sim_world *w, int member);
void sim_member_reset(struct sim_world *w, int member);

/* app.c */
void sim_app_start(struct sim_world *w, int member);
void sim_app_stop(struct sim_world *w, int member);
void sim_app_turn(struct sim_world *w, int member);
void sim_app_next_turn(struct sim_world *w, int member);
void sim_app_write(struct sim_world *w, int member);
int64_t sim_app_callback_us(struct sim_world *w, int member); /* SIM_NEVER: it gets stuck */

/* net.c */
int64_t sim_net_delay(struct sim_world *w);
bool sim_net_is_cut(const struct sim_world *w, int process);
bool sim_request_is_old(const struct sim_world *w, const struct sim_request *request);
bool sim_request_is_current(const struct sim_world *w, const struct sim_request *request);
void sim_net_send(struct sim_world *w, int member, const struct sb_step *step);
void sim_net_arrive(struct sim_world *w, size_t request);
void sim_net_answer(struct sim_world *w, size_t request);
void sim_net_timeout(struct sim_world *w, size_t request);
void sim_net_drop(struct sim_world *w, size_t request); /* an event that referred to it is gone */
void sim_net_wake(struct sim_world *w, int member);

/* Tells contenders that follow that the owner changed. */
void sim_net_reserved(struct sim_world *w, int member, enum sim_event_type type);
void sim_net_change(struct sim_world *w);
void sim_net_expelled(struct sim_world *w, int process);

/* store.c and session.c: carries a request out and fills in the answer. */
int64_t sim_store_ms(const struct sim_world *w);
void sim_store_init(struct sim_world *w);
void sim_store_apply(struct sim_world *w, struct sim_request *request);
void sim_store_force_release(struct sim_world *w);
void sim_store_lose_data(struct sim_world *w);
int sim_store_owner(struct sim_world *w);             /* by the store's clock; or SIM_NOBODY */
uint64_t sim_store_new_revision(struct sim_world *w); /* larger than all before */
bool sim_store_has_left(struct sim_world *w, int member, uint32_t start);    /* a trace of it */
void sim_store_told(struct sim_world *w, const struct sim_request *request); /* its answer came */
void sim_store_depose(struct sim_world *w);
void sim_store_rejoin(struct sim_world *w);
bool sim_same_id(const struct sim_world *w, int member, int other);
bool sim_has_twins(const struct sim_world *w);
struct sim_origin sim_origin_of(const struct sim_request *request);
bool sim_origin_is_left(const struct sim_origin *origin, int member, uint32_t start);

uint64_t sim_session_open(struct sim_world *w, int process);
void sim_session_apply(struct sim_world *w, struct sim_request *request);
void sim_session_sweep(struct sim_world *w);
bool sim_session_hear(struct sim_world *w, uint64_t session); /* false: it is over */
bool sim_session_has_ended(const struct sim_world *w, uint64_t revision, int64_t by_us);
void sim_session_touch(struct sim_world *w, const struct sim_request *request);
void sim_session_force_release(struct sim_world *w);
void sim_session_lose_data(struct sim_world *w);
int sim_session_owner(struct sim_world *w);
bool sim_session_has_left(struct sim_world *w, int member, uint32_t start);
void sim_session_told(struct sim_world *w, const struct sim_request *request);

/* client.c */
void sim_client_ping(struct sim_world *w, int process);
void sim_client_heard(struct sim_world *w, int process, uint64_t number);
void sim_client_pong(struct sim_world *w, int process, uint64_t number);
void sim_client_sent(struct sim_world *w, const struct sim_request *request);
void sim_client_answered(struct sim_world *w, const struct sim_request *request);
bool sim_client_recall(struct sim_world *w, struct sim_request *request);

/* fault.c */
void sim_fault_plan(struct sim_world *w, enum sim_fault fault);
void sim_fault_strike(struct sim_world *w, enum sim_fault fault);
void sim_fault_kill_owner(struct sim_world *w);

/* check.c */
bool sim_check_believes(const struct sim_world *w, int member);
bool sim_check_has_run(const struct sim_world *w, int member, int64_t since_us);
void sim_check_belief(struct sim_world *w, int member, int64_t until_us, int64_t ttl_us,
                      uint64_t token);
void sim_check_proof(struct sim_world *w, int member, int64_t until_us, int64_t ttl_us);
void sim_check_grant(struct sim_world *w, int member, uint64_t revision, bool old);
void sim_check_renewal(struct sim_world *w, int member, int owner, bool foreign);
void sim_check_release(struct sim_world *w, int member);
void sim_check_voided(struct sim_world *w, int member);
bool sim_check_may_mistake(const struct sim_world *w, const struct sim_request *request);
void sim_check_excused(struct sim_world *w, const struct sim_request *request,
                       const struct sb_event *event);
void sim_check_foreign(struct sim_world *w, const struct sim_request *request,
                       const struct sb_event *event, const struct sim_seen *before);
void sim_check_write(struct sim_world *w, uint64_t token, uint64_t term);
void sim_violate(struct sim_world *w, const char *format, ...) SIMBA_PRINTF(2, 3);

/* check_told.c */
void sim_check_step(struct sim_world *w, int member, const struct sb_event *event,
                    const struct sb_step *step);
void sim_check_callback(struct sim_world *w, int member, const struct sb_report *report);
void sim_check_losses_told(struct sim_world *w, int granted);
void sim_check_answer_told(struct sim_world *w, const struct sim_request *request,
                           const struct sb_event *event, const struct sim_seen *before);
void sim_check_deposed(struct sim_world *w, int member, uint64_t term, const char *why);

/* check_duty.c */
void sim_check_sent(struct sim_world *w, int member, const struct sb_step *step);
void sim_check_answered(struct sim_world *w, const struct sim_request *request,
                        enum sb_answer answer);
void sim_check_guard_wanted(struct sim_world *w, int member, int64_t ttl_us);
void sim_check_guards(struct sim_world *w, int granted);
void sim_check_belief_ended(struct sim_world *w, int member);
void sim_check_given_back(struct sim_world *w, const struct sim_request *request,
                          const struct sb_event *event, const struct sim_seen *before);
void sim_check_prod(struct sim_world *w, int member);
void sim_check_reserved(struct sim_world *w, int member, int reservations);
void sim_check_woken(struct sim_world *w, int member);
void sim_check_wake_kept(struct sim_world *w, const struct sim_request *request,
                         const struct sb_event *event, const struct sim_seen *before);
void sim_check_started(struct sim_world *w, int member);
/* The store has the record that a release names, of that owner and token. */
void sim_check_gave_back(struct sim_world *w, struct sim_request *r, int owner, uint64_t token);
void sim_check_stopping(struct sim_world *w, int member);
void sim_check_stopped(struct sim_world *w, int member, const struct sb_step *step);
void sim_check_strand_idle(struct sim_world *w, int member);
void sim_check_paused(struct sim_world *w, int process, int64_t until_us);
void sim_check_crashed(struct sim_world *w, int member);
void sim_check_expelled(struct sim_world *w, int member);

/* check_live.c */
bool sim_check_could_lead(const struct sim_world *w, int member);
void sim_check_demand(struct sim_world *w);
void sim_check_finale(struct sim_world *w);
void sim_check_end(struct sim_world *w);

/* trace.c: prints a line when the world is traced. */
void sim_trace(const struct sim_world *w, const char *format, ...) SIMBA_PRINTF(2, 3);

/* What the specification of the protocol has a word for, one line each: NAME=VALUE pairs, of a
 * contender. `format` begins with a blank. */
void sim_tell(const struct sim_world *w, const char *event, int member, const char *format, ...)
    SIMBA_PRINTF(4, 5);
void sim_tell_start(const struct sim_world *w);
/* What the specification cannot follow; spec/replay ends there. */
void sim_tell_end(const struct sim_world *w, const char *why);
/* The request whose answer the machine of a contender waits for. */
bool sim_is_awaited(const struct sim_world *w, const struct sim_request *request);
const char *sim_op_name(enum simba_op op);

#endif
