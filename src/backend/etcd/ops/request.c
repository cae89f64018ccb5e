/*
 * request.c - from a request to its job, which operation it begins with, GUARD, and what happens
 * when its time is over.
 */
#include "backend/etcd/ops/ops.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#define GUARD_FRESH_PART 16 /* of the ttl: a keep-alive serves all guards in so short a time */

/* ---- Guard -----------------------------------------------------------------------------------
 *
 * A keep-alive, which one serves for all mutexes of the client, and then a transaction that
 * confirms it and compares the keys of many mutexes. Where one of them has gone the transaction
 * does not tell which: then each looks for itself. */

struct guards {
    struct sb_etcd_call call;
    simba_backend *store;
    struct sb_etcd_job *jobs; /* linked by `queued` */
    uint64_t sequence;
};

static void look_alone(struct sb_etcd_job *job)
{
    job->then = NULL;
    sb_etcd_look(job);
}

static void on_own_key(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);
    const struct sb_etcd_latch *latch = job->latch;
    bool mine;

    if (answer == NULL)
        return;
    mine = latch->key == SB_ETCD_KEY_THERE && answer->n_kvs > 0 &&
           answer->kvs[0]->create_revision == latch->created;
    sb_etcd_free_message(answer);
    if (mine)
        sb_etcd_job_answer_mine(job);
    else
        look_alone(job);
}

/* By a read: while the space alarm is on, some servers (3.5.1) refuse all transactions. */
static void read_own_key(struct sb_etcd_job *job)
{
    struct sb_etcd_range range;
    char key[SB_ETCD_KEY_SIZE];

    sb_etcd_latch_key(key, job->latch);
    sb_etcd_range_key(&range, key);
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_own_key);
}

static bool owns(const struct sb_etcd_job *job)
{
    const struct sb_etcd_latch *latch = job->latch;

    return latch != NULL && latch->key == SB_ETCD_KEY_THERE && latch->granted && !latch->leaving &&
           latch->lease->id != 0;
}

static void on_compared(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct guards *guards = call->user;
    struct sb_etcd_job *job = guards->jobs;
    Etcd__TxnAnswer *answer = NULL;

    (void)maybe; /* it changes nothing */
    if (error->code == SIMBA_OK)
        answer = sb_etcd_call_unpack(call, &etcd__txn_answer__descriptor);
    if (answer != NULL)
        sb_etcd_leases_confirm(&guards->store->leases, answer->header, guards->sequence);
    while (job != NULL) {
        struct sb_etcd_job *next = job->queued;

        job->queued = NULL;
        job->calling = false;
        if (error->code == SIMBA_ESTORE && owns(job))
            read_own_key(job);
        else if (error->code != SIMBA_OK)
            sb_etcd_job_fail(job, error, false);
        else if (answer != NULL && answer->succeeded && job->latch->key == SB_ETCD_KEY_THERE)
            sb_etcd_job_answer_mine(job);
        else
            look_alone(job);
        job = next;
    }
    sb_etcd_free_message(answer);
    sb_etcd_call_clear(call);
    sb_free(guards);
}

/* The range makes the read a linearizable one: of a transaction without operations the server
 * compares what it has at hand. */
static void put_together(simba_backend *store, struct guards *guards)
{
    struct sb_etcd_txn *txn = store->txn;
    char key[SB_ETCD_KEY_SIZE] = "";

    sb_etcd_txn_begin(txn);
    while (store->guards != NULL && txn->message.n_compare < SB_ETCD_TXN_IFS) {
        struct sb_etcd_job *job = store->guards;

        store->guards = job->queued;
        job->queued = guards->jobs;
        guards->jobs = job;
        guards->call.deadline_ms = sb_max(guards->call.deadline_ms, job->deadline_ms);
        sb_etcd_latch_key(key, job->latch);
        sb_etcd_txn_if(txn, key, job->latch->created);
    }
    sb_etcd_range_key(sb_etcd_branch_range(&txn->then), key);
    txn->then.ranges[0].message.count_only = true;
    sb_etcd_range_key(sb_etcd_branch_range(&txn->other), key);
    txn->other.ranges[0].message.count_only = true;
}

static void refuse_all(simba_backend *store)
{
    struct simba_error error;

    sb_error_plain(&error, SIMBA_ENOMEM);
    while (store->guards != NULL) {
        struct sb_etcd_job *job = store->guards;

        store->guards = job->queued;
        job->queued = NULL;
        job->calling = false;
        sb_etcd_job_fail(job, &error, false);
    }
}

void sb_etcd_guards_send(simba_backend *store)
{
    while (store->guards != NULL) {
        struct guards *guards = sb_alloc_zero(sizeof *guards);

        if (guards == NULL) {
            refuse_all(store);
            return;
        }
        guards->store = store;
        put_together(store, guards);
        guards->sequence = sb_etcd_leases_sequence(&store->leases);
        sb_etcd_link_call(&store->link, &guards->call, "/etcdserverpb.KV/Txn",
                          sb_etcd_txn_end(store->txn), guards->call.deadline_ms, on_compared,
                          guards);
    }
}

/* The others that the same keep-alive serves come along: see sb_etcd_guards_send. */
static void compare(struct sb_etcd_job *job)
{
    if (!owns(job)) {
        look_alone(job);
        return;
    }
    job->calling = true;
    job->queued = job->store->guards;
    job->store->guards = job;
}

static void guard(struct sb_etcd_job *job)
{
    int64_t fresh_ms = job->ttl_ms / GUARD_FRESH_PART;

    job->then = NULL;
    if (!owns(job))
        sb_etcd_look(job);
    else if (simba_now_ms() <= job->latch->lease->answered_ms + fresh_ms)
        compare(job);
    else
        sb_etcd_job_await(job, compare);
}

/* ---- Requests -------------------------------------------------------------------------------- */

void sb_etcd_request_begin(struct sb_etcd_job *job)
{
    switch (job->op) {
    case SIMBA_OP_ACQUIRE:
        sb_etcd_acquire(job);
        break;
    case SIMBA_OP_GUARD:
        guard(job);
        break;
    case SIMBA_OP_RELEASE:
        sb_etcd_release(job);
        break;
    case SIMBA_OP_NONE:
        sb_etcd_drop_key(job, sb_etcd_job_end);
        break;
    default:
        if (job->request != NULL)
            sb_etcd_look(job);
        else
            sb_etcd_look_before(job);
        break;
    }
}

/* The call that is under way stays so, and the job with it; a job that waits for its turn has not
 * begun. */
void sb_etcd_request_expire(struct sb_etcd_job *job)
{
    struct simba_error error;
    struct simba_reply reply;
    char place[SB_WIRE_PLACE_TEXT_MAX];

    job->deadline_ms = SIMBA_INFINITE;
    if (job->delayed) {
        sb_etcd_job_answer_nobody(job);
        return;
    }
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s has not answered in time",
                 sb_etcd_link_place(&job->store->link, place));
    if (job->latch != NULL && job->latch->active != job) {
        sb_etcd_job_leave_queue(job);
        sb_etcd_job_fail(job, &error, false);
        return;
    }
    if (job->calling && job->writes)
        error.code = SIMBA_EUNKNOWN;
    reply = sb_etcd_failed(&error);
    sb_etcd_job_reply(job, &reply);
    if (job->wants_permit)
        sb_etcd_job_forgo_permit(job);
    else if (job->calling || job->awaits == NULL)
        return;
    job->awaits = NULL;
    sb_etcd_job_end(job);
}

/* Only an ACQUIRE makes a latch; the others find one, or do without. An observer has no id. */
static int find(simba_backend *store, const struct simba_request *request,
                struct sb_etcd_mutex **ret_mutex, struct sb_etcd_latch **ret_latch,
                struct simba_error *error)
{
    int code = sb_etcd_check_mutex(request->mutex, error);

    if (code != SIMBA_OK)
        return code;
    *ret_mutex = sb_etcd_mutex_ensure(store, request->mutex);
    if (*ret_mutex == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (request->op == SIMBA_OP_ACQUIRE)
        *ret_latch = sb_etcd_latch_ensure(*ret_mutex, request->id);
    else if (request->id != NULL)
        *ret_latch = sb_etcd_latch_find(*ret_mutex, request->id);
    if (request->op != SIMBA_OP_ACQUIRE || *ret_latch != NULL)
        return SIMBA_OK;
    sb_etcd_mutex_drop(*ret_mutex);
    return sb_error_plain(error, SIMBA_ENOMEM);
}

void sb_etcd_request_start(simba_backend *store, struct simba_request *request)
{
    struct sb_etcd_latch *latch = NULL;
    struct sb_etcd_mutex *mutex = NULL;
    struct simba_error error;
    struct simba_reply reply;
    struct sb_etcd_job *job;

    if (find(store, request, &mutex, &latch, &error) != SIMBA_OK) {
        reply = sb_etcd_failed(&error);
        store->host->reply(store->host, request, &reply);
        return;
    }
    job = sb_etcd_job_for(store, request, mutex, latch, 0);
    if (job == NULL) {
        if (latch != NULL)
            sb_etcd_latch_drop(latch);
        sb_etcd_mutex_drop(mutex);
        return;
    }
    if (latch != NULL && job->op == SIMBA_OP_ACQUIRE)
        latch->abandoned = false;
    sb_etcd_job_queue(job);
}
