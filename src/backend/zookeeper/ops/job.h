/*
 * job.h - a request on its way through its calls, and its answer.
 *
 * The stages of a job:
 *  1. Start (request.c): a request becomes a job. A node that must go gets a job of its own, a
 *     withdrawal.
 *  2. Turn (job.c): one job at a time works on a latch; the others wait in its queue.
 *  3. Begin (request.c): the operation's file decides what is called first.
 *  4. Calls (job.c): a step makes one to three calls. When all have ended the next step follows:
 *
 *         ACQUIRE   [delete] -> create + list ------> decide
 *                          \-> sync + list ---------> decide
 *                          \-> its turn was told: mine
 *         GUARD     sync + exists: mine, or find
 *         RELEASE   delete: nobody, or find if nothing was deleted
 *         READ      find
 *         find      sync + list -> decide
 *         decide    the first: mine; otherwise read the leader's node, watch the one before: other
 *
 *  5. Answer (answer.c): the host is told. If the time of the request is over first, it is
 *     answered, and the job goes on without it: what it leaves on the store has to be known.
 *  6. End (job.c): the next job of the latch begins.
 *
 * Each file calls only those above it in this order: job.c, answer.c, succession.c, find.c, then
 * the operations, then request.c. What a lower file needs of a higher one is a function pointer
 * here or in the store.
 */
#ifndef SB_ZK_JOB_H
#define SB_ZK_JOB_H

#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/latch/store.h"

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
    struct simba_request *request; /* NULL: answered, or a withdrawal */
    void (*take)(struct sb_zk_job *job, const struct simba_reply *reply); /* NULL: the host */
    void *user;
    enum simba_op op; /* SIMBA_OP_NONE: a withdrawal */
    uint64_t revision;
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t deadline_ms;
    struct sb_zk_mutex *mutex;
    struct sb_zk_latch *latch;           /* NULL: none is needed */
    void (*step)(struct sb_zk_job *job); /* when all calls have ended */
    void (*then)(struct sb_zk_job *job); /* when a part of the way has been gone */
    /* What an operation does that is not the same for all, see find.h; NULL: as all do. */
    void (*missing)(struct sb_zk_job *job);
    void (*found)(struct sb_zk_job *job);
    bool (*led)(struct sb_zk_job *job, const char *owner, uint64_t czxid);
    unsigned under_way; /* calls */
    unsigned rounds;    /* because something vanished while it was looked at */
    bool wrote;         /* something may be on the store that was not */
    bool notes_leader;  /* it has noted that the leader's node is watched */
    bool notes_before;  /* the same for the one before mine */
    bool notes_self;    /* and for mine */
    bool delayed;       /* the answer is known and held back */
    bool missed;        /* RELEASE: the node that it names was not found, or not yet */
    struct sb_zk_proof *proof;
    int64_t proved_ms; /* that its proof counts from; 0: none */
    size_t reach;      /* of the path, when parents are made */
    struct sb_zk_ranks ranks;
    struct sb_zk_call calls[3];
};

/* ---- job.c ----------------------------------------------------------------------------------- */

/* Makes sure that store->due runs at that time. */
void sb_zk_wake_at(simba_backend *store, int64_t at_ms);

/* The latch may be NULL. Returns NULL when memory is short. */
struct sb_zk_job *sb_zk_job_create(simba_backend *store, struct sb_zk_mutex *mutex,
                                   struct sb_zk_latch *latch);

/* Begins it, or lets it wait for its turn; and takes one that waits out of the queue. */
void sb_zk_job_queue(struct sb_zk_job *job);
void sb_zk_job_leave_queue(struct sb_zk_job *job);

/* Starts a job that deletes the node of a latch. */
void sb_zk_job_withdraw(simba_backend *store, struct sb_zk_latch *latch);

void sb_zk_job_end(struct sb_zk_job *job);

/* One of the calls of a step; each is prepared by this and then made. */
struct sb_zk_call *sb_zk_job_call(struct sb_zk_job *job, size_t index);

/* Whether the proof of the job came; it counts for the job from then on. */
bool sb_zk_job_is_proved(struct sb_zk_job *job);

/* It is held by its call and by its caller. NULL: no memory. */
struct sb_zk_proof *sb_zk_proof_send(simba_backend *store);
void sb_zk_proof_drop(struct sb_zk_proof *proof); /* NULL does nothing */

/* ---- answer.c: each answer ends the job ------------------------------------------------------ */

void sb_zk_job_answer_mine(struct sb_zk_job *job);
void sb_zk_job_answer_other(struct sb_zk_job *job, const char *owner, uint64_t czxid);
void sb_zk_job_answer_nobody(struct sb_zk_job *job);
void sb_zk_job_fail(struct sb_zk_job *job, int zk_code);
void sb_zk_job_fail_with(struct sb_zk_job *job, const struct simba_error *error);
void sb_zk_job_reply(struct sb_zk_job *job, const struct simba_reply *reply); /* does not end it */

/* One more round; false when there were too many: then the job has failed. */
bool sb_zk_job_again(struct sb_zk_job *job);

/* Asks for a proof, before the calls that it is to prove. False when memory is short: then it has
 * failed. */
bool sb_zk_job_prove(struct sb_zk_job *job);

#endif
