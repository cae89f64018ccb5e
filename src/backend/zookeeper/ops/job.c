/*
 * job.c - the life of a job: its turn on a latch, its calls, its proof, its answer, its end. Must
 * not know operations.
 */
#include "backend/zookeeper/ops/ops.h"

#include "backend/zookeeper/handle/call.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <string.h>

/* Earlier than needed does no harm: store->due looks what is. */
void sb_zk_wake_at(simba_backend *store, int64_t at_ms)
{
    if (at_ms >= store->timer_ms)
        return;
    store->timer_ms = at_ms;
    uv_update_time(store->host->loop);
    uv_timer_start(&store->timer, store->due, (uint64_t)sb_time_left(at_ms, simba_now_ms()), 0);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* If the session ends between two answers, the first answer no longer holds, because its nodes are
 * forgotten. So a step sees answers of the present session only, or none. */
static void expire_answers(struct sb_zk_job *job)
{
    for (size_t i = 0; i < sizeof job->calls / sizeof job->calls[0]; i++)
        if (job->calls[i].number != job->store->session.number)
            job->calls[i].code = ZSESSIONEXPIRED;
}

static void on_done(struct sb_zk_call *call)
{
    struct sb_zk_job *job = call->user;

    SB_CHECK(job->under_way > 0, "a call that ends was under way");
    if (--job->under_way > 0)
        return;
    expire_answers(job);
    job->step(job);
}

struct sb_zk_call *sb_zk_job_call(struct sb_zk_job *job, size_t index)
{
    struct sb_zk_call *call = &job->calls[index];

    SB_CHECK(index < sizeof job->calls / sizeof job->calls[0], "a job has three calls");
    SB_CHECK(job->step != NULL, "a step follows a call");
    memset(call, 0, sizeof *call);
    call->done = on_done;
    call->user = job;
    call->session = &job->store->session;
    call->ranks = &job->ranks;
    if (job->latch != NULL)
        memcpy(call->uuid, job->latch->uuid, sizeof call->uuid);
    job->under_way++;
    return call;
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

void sb_zk_proof_drop(struct sb_zk_proof *proof)
{
    SB_CHECK(proof == NULL || proof->holders > 0, "a proof is dropped by its holders");
    if (proof != NULL && --proof->holders == 0)
        sb_free(proof);
}

static void on_proved(struct sb_zk_call *call)
{
    struct sb_zk_proof *proof = (struct sb_zk_proof *)call;

    proof->ended = true;
    if (call->code == ZOK && call->session->asked_ms != 0 &&
        call->sent_ms >= call->session->asked_ms)
        call->session->confirm_ms = SIMBA_INFINITE;
    if (call->code == ZOK) {
        call->session->failures = 0; /* a handle that comes up may be refused right behind that */
        call->session->useful = true;
    }
    if (call->code == ZOK && proof->counts_ms > call->session->proved_ms)
        call->session->proved_ms = proof->counts_ms;
    sb_zk_proof_drop(proof);
}

struct sb_zk_proof *sb_zk_proof_send(simba_backend *store)
{
    struct sb_zk_proof *proof = sb_alloc_zero(sizeof *proof);
    struct sb_zk_session *session = &store->session;

    session->synced_ms = simba_now_ms();
    if (proof == NULL)
        return NULL;
    proof->holders = 2;
    proof->counts_ms = sb_zk_liveness_proof_ms(&session->liveness, session->synced_ms);
    proof->call.done = on_proved;
    proof->call.session = session;
    sb_zk_sync(&proof->call);
    return proof;
}

bool sb_zk_job_is_proved(struct sb_zk_job *job)
{
    if (!job->proof->ended || job->proof->call.code != ZOK)
        return false;
    if (job->proved_ms == 0)
        job->proved_ms = job->proof->counts_ms;
    return true;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void sb_zk_job_queue(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    struct sb_zk_job **link;

    if (latch == NULL || latch->active == NULL) {
        if (latch != NULL)
            latch->active = job;
        job->store->begin(job);
        return;
    }
    SB_CHECK(latch->active != job && job->queued == NULL, "a job waits for one turn");
    for (link = &latch->queue; *link != NULL; link = &(*link)->queued)
        continue;
    *link = job;
}

/* Deletes what the contender left when it stopped, unless that was granted: a granted lease expires
 * by itself. */
static void pass_turn(simba_backend *store, struct sb_zk_latch *latch)
{
    struct sb_zk_job *next = latch->queue;
    bool must_go =
        latch->node != SB_ZK_NODE_NONE && (latch->leaving || (latch->abandoned && !latch->granted));

    latch->active = NULL;
    if (next != NULL) {
        latch->queue = next->queued;
        next->queued = NULL;
        sb_zk_job_queue(next);
    } else if (must_go && store->session.up) {
        sb_zk_job_withdraw(store, latch);
    } else {
        if (latch->withdraw_ms != SIMBA_INFINITE)
            sb_zk_wake_at(store, latch->withdraw_ms);
        sb_zk_latch_drop(latch);
    }
}

void sb_zk_job_leave_queue(struct sb_zk_job *job)
{
    struct sb_zk_job **link = &job->latch->queue;

    SB_CHECK(job->latch->active != job, "a job that has begun does not wait");
    while (*link != NULL && *link != job)
        link = &(*link)->queued;
    SB_CHECK(*link == job, "a job that waits is in the queue");
    *link = job->queued;
    job->latch = NULL; /* it never had its turn */
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

struct sb_zk_job *sb_zk_job_create(simba_backend *store, struct sb_zk_mutex *mutex,
                                   struct sb_zk_latch *latch)
{
    struct sb_zk_job *job = sb_alloc_zero(sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->mutex = mutex;
    job->latch = latch;
    job->deadline_ms = SIMBA_INFINITE;
    mutex->users++;
    job->next = store->jobs;
    job->link = &store->jobs;
    if (job->next != NULL)
        job->next->link = &job->next;
    store->jobs = job;
    return job;
}

void sb_zk_job_end(struct sb_zk_job *job)
{
    simba_backend *store = job->store;
    struct sb_zk_mutex *mutex = job->mutex;
    struct sb_zk_latch *latch = job->latch;

    SB_CHECK(job->under_way == 0, "no call outlives its job");
    SB_CHECK(latch == NULL || latch->active == job, "a job ends while it has its turn");
    *job->link = job->next;
    if (job->next != NULL)
        job->next->link = job->link;
    sb_zk_proof_drop(job->proof);
    sb_free(job);
    if (latch != NULL)
        pass_turn(store, latch);
    SB_CHECK(mutex->users > 0, "a mutex counts its jobs");
    mutex->users--;
    sb_zk_mutex_drop(&store->mutexes, mutex);
}

/* If memory is short, the next sweep does it. */
void sb_zk_job_withdraw(simba_backend *store, struct sb_zk_latch *latch)
{
    struct sb_zk_job *job = sb_zk_job_create(store, latch->mutex, latch);

    SB_CHECK(latch->active == NULL, "a withdrawal takes a free latch");
    latch->leaving = true;
    if (job == NULL) {
        latch->withdraw_ms = simba_now_ms() + 1000;
        sb_zk_wake_at(store, latch->withdraw_ms);
        return;
    }
    sb_zk_job_queue(job);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* How a session is told as a lease:
 *
 *     proved_ms                    ttl                belief ends      the session can end
 *        |--------------------------|----------------------|--- margin ---|
 *
 * The library takes a margin off the lease that it is told, which follows from the lease that was
 * asked for. So the margin is added to what the owner may believe: the shorter one of the lease and
 * the session. */

#define DELAY_MS 500
#define ROUNDS_MAX 100
#define TTL_LEAST_PART 8 /* of the belief */

struct lease {
    int64_t belief_ms;
    int64_t ttl_ms;
    int64_t all_ms;
};

/* A session that is too short takes from the ttl first: owners plan with the time for renewals
 * behind it. */
static struct lease lease_of(const struct sb_zk_job *job)
{
    int64_t asked_ms = job->ttl_ms + job->transition_ms;
    int64_t margin_ms = simba_drift_margin_ms(asked_ms);
    int64_t belief_ms =
        sb_earlier(asked_ms - margin_ms, sb_zk_session_lease_ms(&job->store->session));
    int64_t left_ms = belief_ms - (job->transition_ms - margin_ms);
    int64_t ttl_ms = sb_earlier(job->ttl_ms, sb_max(left_ms, belief_ms / TTL_LEAST_PART));

    return (struct lease){belief_ms, ttl_ms, belief_ms + margin_ms};
}

void sb_zk_job_reply(struct sb_zk_job *job, const struct simba_reply *reply)
{
    const struct simba_backend_host *host = job->store->host;
    struct simba_request *request = job->request;

    if (request == NULL)
        return;
    job->request = NULL;
    job->deadline_ms = SIMBA_INFINITE;
    if (job->take != NULL)
        job->take(job, reply);
    else
        host->reply(host, request, reply);
}

static struct simba_reply reply_of(const struct sb_zk_job *job)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.waiters = job->ranks.count > 0 ? (int64_t)job->ranks.count - 1 : 0;
    reply.missed = job->missed;
    return reply;
}

/* The entry goes when its contender is not heard of for a lease. A proof that is over: the process
 * stood still, and its requests have not been answered for long enough since. */
void sb_zk_job_answer_mine(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    struct simba_reply reply = reply_of(job);
    struct lease lease = lease_of(job);
    struct simba_error error;
    bool asked = job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_GUARD;

    SB_CHECK(latch->node == SB_ZK_NODE_THERE, "an owner has a node");
    SB_CHECK(job->proved_ms != 0, "an owner's session is proved");
    if (asked && job->request != NULL && simba_now_ms() >= job->proved_ms + lease.belief_ms) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE,
                     "ZooKeeper has not yet proved that the session is alive");
        sb_zk_job_fail_with(job, &error);
        return;
    }
    reply.owner = latch->id;
    reply.ttl_left_ms = lease.ttl_ms;
    reply.transition_left_ms = lease.all_ms;
    reply.revision = latch->czxid;
    reply.fence = latch->czxid;
    reply.as_of_ms = job->proved_ms;
    if (job->request == NULL)
        latch->withdraw_ms = simba_now_ms() + job->store->session.timeout_ms;
    else if (asked)
        latch->withdraw_ms = job->proved_ms + lease.all_ms;
    if (job->request != NULL && job->op == SIMBA_OP_ACQUIRE)
        latch->granted = true;
    sb_zk_job_reply(job, &reply);
    sb_zk_job_end(job);
}

/* A contender that listens may wait without a limit; one that does not listen may never come
 * back. */
static void keep_waiting(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    if (job->op != SIMBA_OP_ACQUIRE || latch->node == SB_ZK_NODE_NONE)
        return;
    sb_zk_wake_at(job->store,
                  simba_now_ms() + sb_zk_session_proof_interval_ms(&job->store->session));
    latch->withdraw_ms =
        latch->listening ? SIMBA_INFINITE : simba_now_ms() + job->store->session.timeout_ms;
}

/* The node has this contender's id, but belongs to a session that is ending. The reply would look
 * like a lease of its own, so it says, after a delay, that nobody owns: the contender then asks
 * again soon. */
static void delay(struct sb_zk_job *job)
{
    int64_t now_ms = simba_now_ms();
    int64_t until_ms = now_ms + sb_earlier(DELAY_MS, (job->deadline_ms - now_ms) / 2);

    job->ranks.count = 0;
    if (job->op != SIMBA_OP_ACQUIRE || job->request == NULL) {
        sb_zk_job_answer_nobody(job);
        return;
    }
    job->delayed = true;
    job->deadline_ms = until_ms;
    sb_zk_wake_at(job->store, until_ms);
}

/* A contender is told the session's length, so that it asks again when every wake-up is lost. An
 * observer is told no end: there is none. */
void sb_zk_job_answer_other(struct sb_zk_job *job, const char *owner, uint64_t czxid)
{
    struct simba_reply reply = reply_of(job);
    int64_t timeout_ms = job->store->session.timeout_ms;

    if (job->latch != NULL)
        keep_waiting(job);
    if (job->request != NULL && job->request->id != NULL && strcmp(job->request->id, owner) == 0) {
        delay(job);
        return;
    }
    reply.owner = owner;
    reply.place = job->op == SIMBA_OP_ACQUIRE ? (int64_t)job->ranks.ahead : 0;
    reply.revision = czxid;
    reply.fence = czxid;
    reply.ttl_left_ms = job->op == SIMBA_OP_READ ? SIMBA_INFINITE : timeout_ms / 2;
    reply.transition_left_ms = job->op == SIMBA_OP_READ ? SIMBA_INFINITE : timeout_ms;
    sb_zk_job_reply(job, &reply);
    sb_zk_job_end(job);
}

void sb_zk_job_answer_nobody(struct sb_zk_job *job)
{
    struct simba_reply reply = reply_of(job);

    sb_zk_job_reply(job, &reply);
    sb_zk_job_end(job);
}

/* A contender that does not listen may never come back, so its node is deleted after a while. */
static void limit_stay(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    if (latch == NULL || latch->node == SB_ZK_NODE_NONE || latch->listening ||
        latch->withdraw_ms != SIMBA_INFINITE)
        return;
    latch->withdraw_ms = simba_now_ms() + job->store->session.timeout_ms;
    sb_zk_wake_at(job->store, latch->withdraw_ms);
}

void sb_zk_job_fail_with(struct sb_zk_job *job, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    limit_stay(job);
    reply.code = error->code;
    reply.error = error;
    sb_zk_job_reply(job, &reply);
    sb_zk_job_end(job);
}

void sb_zk_job_fail(struct sb_zk_job *job, int zk_code)
{
    struct simba_error error;

    sb_zk_fail(&error, zk_code);
    if (zk_code == ZNOAUTH)
        sb_error_set_backend(&error, SIMBA_EDENIED, zk_code,
                             "ZooKeeper does not permit this: the ACL of %s/%s, or of a node above "
                             "or below it, forbids it",
                             job->store->options.base, job->mutex->name);
    if (job->wrote && sb_zk_is_lost(zk_code))
        error.code = SIMBA_EUNKNOWN;
    sb_zk_job_fail_with(job, &error);
}

/* ---- What may fail --------------------------------------------------------------------------- */

bool sb_zk_job_again(struct sb_zk_job *job)
{
    if (++job->rounds <= ROUNDS_MAX && job->store->session.up)
        return true;
    sb_zk_job_fail(job, job->store->session.up ? ZNONODE : ZCONNECTIONLOSS);
    return false;
}

bool sb_zk_job_prove(struct sb_zk_job *job)
{
    struct sb_zk_proof *shared = job->store->proof;
    struct simba_error error;

    sb_zk_proof_drop(job->proof);
    if (shared != NULL && shared->call.handle == job->store->session.handle) {
        shared->holders++;
        job->proof = shared;
        return true;
    }
    job->proof = sb_zk_proof_send(job->store);
    if (job->proof == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_zk_job_fail_with(job, &error);
        return false;
    }
    if (shared == NULL && job->store->taking) {
        job->proof->holders++;
        job->store->proof = job->proof;
    }
    return true;
}
