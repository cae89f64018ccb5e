/*
 * ops.h - a request on its way through its calls, and its answer.
 *
 * The stages of a job:
 *  1. Start (request.c): a request becomes a job. A node that must go gets a job of its own, a
 *     withdrawal.
 *  2. Turn (job.c): one job at a time works on a latch; the others wait in its queue.
 *  3. Begin (request.c): the operation decides what is called first.
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
 *  5. Answer (job.c): the host is told. If the time of the request is over first, it is
 *     answered, and the job goes on without it: what it leaves on the store has to be known.
 *  6. End (job.c): the next job of the latch begins.
 *
 * Each file calls only those before it in this order: rights.c, job.c, find.c, release.c,
 * acquire.c, request.c, list.c, property.c, inspect.c, events.c. What a lower file needs of a
 * higher one is a function pointer here or in the store.
 */
#ifndef SB_ZK_OPS_H
#define SB_ZK_OPS_H

#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/latch/latch.h"

/* The leader of the ensemble has answered a sync, which jobs that begin together share. */
struct sb_zk_proof {
    struct sb_zk_call call; /* first */
    unsigned holders;
    bool ended;
    int64_t counts_ms; /* from here; see session.h */
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

/* ---- rights.c -------------------------------------------------------------------------------- */

#define SB_ZK_MASTERS "create, delete or administer"
#define SB_ZK_WRITERS "write, delete or administer"

/* An identity of `node`, whose masters were named, that is not known to be the client's user, whose
 * identities `own` has; NULL: there is none. */
const char *sb_zk_rights_stranger(const struct sb_zk_call *own, const struct sb_zk_call *node);

/* The error for such a one, with the rights that it may have. */
void sb_zk_rights_refuse(struct simba_error *error, const simba_backend *store, const char *path,
                         const char *rights, const struct sb_zk_call *own, const char *stranger);

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

/* ---- Finding --------------------------------------------------------------------------------- */

/* find.c: which node is the first, which contender leads, and what an operation does with that.
 *
 * For a job with a latch that the list does not show sb_zk_find_decide calls job->missing; for one
 * that it shows job->found, which goes on with sb_zk_find_place; and when the leader is known
 * job->led, which returns whether it has taken the job over. */

void sb_zk_find(struct sb_zk_job *job);        /* sync and list, then decide */
void sb_zk_find_decide(struct sb_zk_job *job); /* the list is known */
void sb_zk_find_place(struct sb_zk_job *job);  /* mine is in the list: first, or behind others */

/* Whether the latch is known to be the first without a list; then it is answered so. */
bool sb_zk_succession_is_due(const struct sb_zk_job *job);
void sb_zk_succession_take(struct sb_zk_job *job);

/* ---- Operations ------------------------------------------------------------------------------ */

/* acquire.c, release.c */
void sb_zk_acquire(struct sb_zk_job *job);
void sb_zk_release(struct sb_zk_job *job);

/* Deletes the latch's node, then goes on. */
void sb_zk_drop_node(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job));

/* request.c */
void sb_zk_request_start(simba_backend *store, struct simba_request *request,
                         void (*take)(struct sb_zk_job *job, const struct simba_reply *reply),
                         void *user);
void sb_zk_request_begin(struct sb_zk_job *job);  /* store->begin */
void sb_zk_request_expire(struct sb_zk_job *job); /* its time is over */

/* A LIST or QUEUE, with its time limit. When that is over it is answered, and its calls go on
 * without it until the servers have answered or the connection is gone. */
struct sb_zk_listing {
    struct sb_zk_listing *next; /* of the store */
    struct sb_zk_listing **link;
    simba_backend *store;
    struct simba_request *request; /* NULL: answered */
    int64_t deadline_ms;
};

/* list.c */
void sb_zk_listing_begin(struct sb_zk_listing *listing, simba_backend *store,
                         struct simba_request *request);

/* Answers those whose time is over, and names the next instant to be called at. */
void sb_zk_listings_expire(simba_backend *store, int64_t now_ms);

/* Ends it with another reply. */
void sb_zk_listing_reply(struct sb_zk_listing *listing, const struct simba_reply *reply);

/* A request that nothing could be begun for: no memory. */
void sb_zk_listing_refuse(simba_backend *store, struct simba_request *request);

void sb_zk_list_start(simba_backend *store, struct simba_request *request);
void sb_zk_queue_start(simba_backend *store, struct simba_request *request);

/* property.c */
void sb_zk_property_start(simba_backend *store, struct simba_request *request);

/* inspect.c: answers an INSPECT at once */
void sb_zk_inspect(simba_backend *store, struct simba_request *request);

/* events.c: what the timer, the session and its watches tell */
void sb_zk_on_timer(uv_timer_t *timer); /* store->due */
void sb_zk_on_session(void *store, enum sb_zk_session_event event);
void sb_zk_on_watch(void *store, const char *path, bool deleted);

#endif
