/*
 * ops.h - a request on its way through its calls, and its answer.
 *
 *  1. Start (request.c): a request becomes a job. A key that must go gets a job of its own, a
 *     withdrawal.
 *  2. Turn (job.c): one job at a time works on a latch; the others wait in its queue.
 *  3. Begin (request.c): the operation decides what is called first. One call at a time:
 *
 *         ACQUIRE   [delete] -> [lease or keep-alive] -> create -> mine, or [look] other
 *                                                    \-> look, when its key is there
 *         GUARD     keep-alive -> compare, for many mutexes at once: mine, or look
 *         RELEASE   delete: nobody, or look if nothing was deleted
 *         READ      look
 *         look      the first key, and the one before mine, which is watched
 *
 *  4. Answer (job.c): the host is told. If the time of the request is over first, it is answered,
 *     and the job goes on without it: what it leaves on the store has to be known.
 *  5. End (job.c): the next job of the latch begins.
 *
 * Each file calls only those before it in this order: job.c, look.c, release.c, acquire.c,
 * request.c, list.c, property.c, inspect.c, events.c.
 */
#ifndef SB_ETCD_OPS_H
#define SB_ETCD_OPS_H

#include "backend/etcd/store/latch.h"

struct sb_etcd_job {
    struct sb_etcd_job *next; /* of the store */
    struct sb_etcd_job **back;
    struct sb_etcd_job *queued; /* the next in the latch's queue, of a guard's transaction, or of
                                 * those that wait for a permit */
    simba_backend *store;
    struct simba_request *request; /* NULL: answered, or a withdrawal */
    enum simba_op op;              /* SIMBA_OP_NONE: a withdrawal */
    uint64_t revision;
    int64_t ttl_ms;
    int64_t transition_ms;
    int64_t deadline_ms;
    struct sb_etcd_mutex *mutex;           /* NULL: it is about all, or about the server */
    struct sb_etcd_latch *latch;           /* NULL: none is needed */
    struct sb_etcd_lease *awaits;          /* its next event; `step` follows */
    void (*step)(struct sb_etcd_job *job); /* when the call has been answered */
    void (*then)(struct sb_etcd_job *job); /* when a part of the way has been gone */
    /* RELEASE: the first key is another's. Returns whether it has taken the job over. */
    bool (*other)(struct sb_etcd_job *job, const Etcd__KeyValue *first);
    struct sb_etcd_call *call; /* NULL: it has made none yet */
    uint64_t sequence;         /* of the call, see leases.h */
    unsigned rounds;           /* because something vanished while it was looked at */
    bool creates;              /* the call may leave a key behind */
    bool writes;               /* the call changes something */
    bool delayed;              /* the answer is known and held back */
    bool missed;               /* RELEASE: the key that it names was not found, or not yet */
    bool has_permit;           /* see sb_etcd_job_take_permit */
    bool wants_permit;
    bool calling;
    bool goes_on;    /* what it awaits has come */
    int64_t waiters; /* -1: not known */
    int64_t place;   /* in the queue, the owner not counted; 0: not known */
    void *more;      /* behind the job, all zeros at first: of list.c and property.c */
    void (*free_more)(void *more); /* what it has; NULL: nothing */
};

/* ---- job.c ----------------------------------------------------------------------------------- */

/* Makes sure that store->due runs at that time. */
void sb_etcd_wake_at(simba_backend *store, int64_t at_ms);
void sb_etcd_sweep_at(simba_backend *store, int64_t at_ms);

/* With room for `more`. Mutex and latch may be NULL. Returns NULL when memory is short. */
struct sb_etcd_job *sb_etcd_job_create(simba_backend *store, struct sb_etcd_mutex *mutex,
                                       struct sb_etcd_latch *latch, size_t more_size);

/* The same for a request. Without memory it is answered so, and NULL is returned. */
struct sb_etcd_job *sb_etcd_job_for(simba_backend *store, struct simba_request *request,
                                    struct sb_etcd_mutex *mutex, struct sb_etcd_latch *latch,
                                    size_t more_size);

/* Begins it, or lets it wait for its turn; and takes one that waits out of the queue. */
void sb_etcd_job_queue(struct sb_etcd_job *job);
void sb_etcd_job_leave_queue(struct sb_etcd_job *job);

/* Starts a job that deletes the key of a latch. */
void sb_etcd_job_withdraw(simba_backend *store, struct sb_etcd_latch *latch);
void sb_etcd_job_end(struct sb_etcd_job *job);

/* Sends the message; `step` follows when it has been answered, and then frees the answer. If it
 * fails the job fails. */
void sb_etcd_job_call(struct sb_etcd_job *job, const char *path, const ProtobufCMessage *message,
                      void (*step)(struct sb_etcd_job *job));
void sb_etcd_job_txn(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job));

/* The answer, which is linearizable and proves what it can; NULL: it is none, and the job has
 * failed. */
Etcd__TxnAnswer *sb_etcd_job_txn_answer(struct sb_etcd_job *job);
Etcd__RangeAnswer *sb_etcd_job_range_answer(struct sb_etcd_job *job);

/* Waits for an event of the latch's lease. */
void sb_etcd_job_await(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job));

/* A job joins a queue with a permit, of which the client has PERMITS: calls of ten thousand mutexes
 * at a time need too much memory, and a server refuses what it cannot apply soon. False: `step`
 * follows when others have ended. */
bool sb_etcd_job_take_permit(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job));
void sb_etcd_job_forgo_permit(struct sb_etcd_job *job); /* it waits for one, and stops that */

/* Each of these ends the job. */
void sb_etcd_job_answer_mine(struct sb_etcd_job *job);
void sb_etcd_job_answer_other(struct sb_etcd_job *job, const char *owner, uint64_t revision);
void sb_etcd_job_answer_nobody(struct sb_etcd_job *job);

/* The key before that of the latch is gone, or may be: its contender looks again. */
void sb_etcd_before_gone(struct sb_etcd_latch *latch);
void sb_etcd_job_answer(struct sb_etcd_job *job, struct simba_reply *reply);
void sb_etcd_job_fail(struct sb_etcd_job *job, const struct simba_error *error, bool maybe);
void sb_etcd_job_fail_nonsense(struct sb_etcd_job *job);

/* Does not end it. */
void sb_etcd_job_reply(struct sb_etcd_job *job, const struct simba_reply *reply);

/* A reply that tells an error, which stays until the reply is given. */
struct simba_reply sb_etcd_failed(const struct simba_error *error);

/* The term of the latch has been given back, or may have been, and its contender was not told so: a
 * RELEASE that it repeats finds that it was not in vain. */
void sb_etcd_job_note_untold(struct sb_etcd_job *job);

/* One more round; false when there were too many: then the job has failed. */
bool sb_etcd_job_again(struct sb_etcd_job *job);

/* ---- look.c ---------------------------------------------------------------------------------- */

/* Who is first, with a look at the key of the latch where there is one. `job->then` goes on where
 * that is gone. */
void sb_etcd_look(struct sb_etcd_job *job);

/* Whether the key before that of the latch is still there; a job without a request. */
void sb_etcd_look_before(struct sb_etcd_job *job);

/* The same as a look when the answer is there: the first key, the one before mine, and how many
 * are before mine (0: not known). */
void sb_etcd_look_decide(struct sb_etcd_job *job, const Etcd__RangeAnswer *first,
                         const Etcd__KeyValue *before, int64_t place, int64_t revision);

/* ---- release.c, acquire.c -------------------------------------------------------------------- */

void sb_etcd_release(struct sb_etcd_job *job);

/* Deletes the latch's key, then goes on. */
void sb_etcd_drop_key(struct sb_etcd_job *job, void (*then)(struct sb_etcd_job *job));

void sb_etcd_acquire(struct sb_etcd_job *job);

/* ---- request.c ------------------------------------------------------------------------------- */

void sb_etcd_request_start(simba_backend *store, struct simba_request *request);
void sb_etcd_request_begin(struct sb_etcd_job *job);  /* store->begin */
void sb_etcd_request_expire(struct sb_etcd_job *job); /* its time is over */

/* Sends the transactions of guards that have come together. */
void sb_etcd_guards_send(simba_backend *store);

/* ---- list.c, property.c, inspect.c ----------------------------------------------------------- */

void sb_etcd_list_start(simba_backend *store, struct simba_request *request);
void sb_etcd_queue_start(simba_backend *store, struct simba_request *request);
void sb_etcd_property_start(simba_backend *store, struct simba_request *request);
void sb_etcd_inspect_start(simba_backend *store, struct simba_request *request);

/* ENVIRONMENT: the key of its owner and its token, as etcdctl lock hands them to its command. */
void sb_etcd_environment_answer(simba_backend *store, struct simba_request *request);

/* ---- events.c -------------------------------------------------------------------------------- */

void sb_etcd_on_timer(uv_timer_t *timer); /* store->due */
void sb_etcd_on_lease(void *store, struct sb_etcd_lease *lease, enum sb_etcd_lease_event event,
                      const struct simba_error *error);
void sb_etcd_on_up(void *store);

#endif
