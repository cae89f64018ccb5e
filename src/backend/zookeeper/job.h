/*
 * job.h - a request on its way: a chain of steps, each of which makes one or two calls and names the step
 * that follows when they have ended.
 *
 *     ACQUIRE   [drop] -> create + rank -------+-> first: mine
 *                     \-> prove + rank --------+-> look at leader, watch the one before: other
 *                     \-> its turn was heard of: mine
 *     GUARD     prove + exists: mine, or rank and look
 *     RELEASE   drop: nobody, or rank and look where nothing was dropped
 *     READ      prove + rank -> look
 *
 * A request whose time is over is answered, and its job goes on without it: what it leaves on the store has to
 * be known.
 */
#ifndef SB_BACKEND_ZOOKEEPER_JOB_H
#define SB_BACKEND_ZOOKEEPER_JOB_H

#include "backend/zookeeper/call.h"
#include "backend/zookeeper/latch.h"
#include "backend/zookeeper/store.h"

/* The leader of the ensemble has answered a sync, which jobs that begin together share. */
struct sb_zk_proof {
    struct sb_zk_call call; /* first */
    unsigned holders;
    bool ended;
    int64_t counts_ms; /* from here; see liveness.h */
};

struct sb_zk_job {
    struct sb_zk_job *next; /* of the store */
    struct sb_zk_job **link;
    struct sb_zk_job *queued; /* the next in the latch's queue */
    simba_backend *store;
    struct simba_request *request; /* NULL: answered, or a withdrawal that nobody asked for */
    void (*take)(struct sb_zk_job *job, const struct simba_reply *reply); /* NULL: the host */
    void *user;
    enum simba_op op; /* SIMBA_OP_NONE: a withdrawal */
    uint64_t revision;
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t deadline_ms;
    struct sb_zk_place *place;
    struct sb_zk_latch *latch;           /* NULL: none is needed */
    void (*step)(struct sb_zk_job *job); /* when all calls have ended */
    void (*then)(struct sb_zk_job *job); /* when a part of the way has been gone */
    unsigned under_way;                  /* calls */
    unsigned rounds;                     /* because something vanished while it was looked at */
    bool wrote;                          /* something may be on the store that was not */
    bool notes_leader;                   /* it has noted that the leader's node is watched */
    bool notes_before;                   /* the same for the one before mine */
    bool notes_self;                     /* and for mine */
    bool parked;                         /* the answer is known and held back */
    bool missed; /* RELEASE: the node that it names was not found, or not yet */
    struct sb_zk_proof *proof;
    int64_t proved_ms; /* that its proof counts from; 0: none */
    size_t reach;      /* of the path, when parents are made */
    struct sb_zk_ranks ranks;
    struct sb_zk_call calls[3];
};

/* job.c: life */
void sb_zk_job_start(simba_backend *store, struct simba_request *request,
                     void (*take)(struct sb_zk_job *job, const struct simba_reply *reply),
                     void *user);
void sb_zk_job_withdraw(simba_backend *store, struct sb_zk_latch *latch);
void sb_zk_job_end(struct sb_zk_job *job);
void sb_zk_job_expire(struct sb_zk_job *job); /* its time is over */

/* The next step, when both calls or the one have ended; each call is prepared and then made. */
struct sb_zk_call *sb_zk_job_call(struct sb_zk_job *job, size_t index);

/* Asks for a proof, before the calls that it is to prove. False when memory is short: then it has failed. */
bool sb_zk_job_prove(struct sb_zk_job *job);

/* Whether the proof came; it counts for the job from then on. */
bool sb_zk_job_is_proved(struct sb_zk_job *job);

/* It is held by its call and by its caller. NULL: no memory. */
struct sb_zk_proof *sb_zk_proof_send(simba_backend *store);
void sb_zk_proof_drop(struct sb_zk_proof *proof); /* NULL does nothing */

/* One more round; false when there were too many: then the job has failed. */
bool sb_zk_job_again(struct sb_zk_job *job);

/* reply.c: answers, each of which ends the job */
void sb_zk_job_answer_mine(struct sb_zk_job *job);
void sb_zk_job_answer_other(struct sb_zk_job *job, const char *owner, uint64_t czxid);
void sb_zk_job_answer_nobody(struct sb_zk_job *job);
void sb_zk_job_fail(struct sb_zk_job *job, int zk_code);
void sb_zk_job_fail_with(struct sb_zk_job *job, const struct simba_error *error);
void sb_zk_job_reply(struct sb_zk_job *job, const struct simba_reply *reply); /* does not end it */

/* look.c */
void sb_zk_job_rank(struct sb_zk_job *job);  /* prove, rank, and go on with sb_zk_job_judge */
void sb_zk_job_judge(struct sb_zk_job *job); /* the ranks are known */
void sb_zk_job_look(struct sb_zk_job *job);  /* who is the leader? */

/* rights.c: goes on with sb_zk_job_judge */
bool sb_zk_job_must_check_rights(const struct sb_zk_job *job);
void sb_zk_job_check_rights(struct sb_zk_job *job);

/* turn.c: a turn that comes without a look */
bool sb_zk_turn_needs_watch(const struct sb_zk_job *job); /* on the own node */
void sb_zk_turn_doubt(struct sb_zk_job *job); /* a list shows that somebody comes before mine */
void sb_zk_turn_note(struct sb_zk_job *job);  /* the leader was read, and mine where needed */
bool sb_zk_turn_has_come(const struct sb_zk_job *job);
void sb_zk_turn_take(struct sb_zk_job *job);

/* acquire.c, guard.c, release.c, parents.c */
void sb_zk_job_acquire(struct sb_zk_job *job);
void sb_zk_job_create(struct sb_zk_job *job);
void sb_zk_job_guard(struct sb_zk_job *job);
void sb_zk_job_release(struct sb_zk_job *job);
void sb_zk_job_drop(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job));

/* Whether it is about the leader's very node, which is not this client's: one zxid creates one node. */
bool sb_zk_job_is_forced(const struct sb_zk_job *job, const char *owner, uint64_t czxid);
void sb_zk_job_take_away(struct sb_zk_job *job);
void sb_zk_job_make_parents(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job));

#endif
