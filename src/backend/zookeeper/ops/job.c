/*
 * job.c - the life of a job: its turn on a latch, its calls, its proof, its end. Must not know
 * operations.
 */
#include "backend/zookeeper/ops/job.h"

#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

/* Earlier than needed does no harm: store->due looks what is. */
void sb_zk_wake_at(simba_backend *store, int64_t at_ms)
{
    int64_t delay_ms;

    if (at_ms >= store->timer_ms)
        return;
    store->timer_ms = at_ms;
    delay_ms = at_ms - simba_now_ms();
    uv_update_time(store->host->loop);
    uv_timer_start(&store->timer, store->due, (uint64_t)(delay_ms > 0 ? delay_ms : 0), 0);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void on_done(struct sb_zk_call *call)
{
    struct sb_zk_job *job = call->user;

    SB_CHECK(job->under_way > 0, "a call that ends was under way");
    if (--job->under_way == 0)
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
    for (link = &latch->queue; *link != NULL; link = &(*link)->queued)
        continue;
    *link = job;
}

/* What the contender left behind when it stopped goes, unless it was granted: that runs out by
 * itself. */
static bool must_go(const struct sb_zk_latch *latch)
{
    return latch->node != SB_ZK_NODE_NONE &&
           (latch->leaving || (latch->abandoned && !latch->granted));
}

static void pass_turn(simba_backend *store, struct sb_zk_latch *latch)
{
    struct sb_zk_job *next = latch->queue;

    latch->active = NULL;
    if (next != NULL) {
        latch->queue = next->queued;
        next->queued = NULL;
        sb_zk_job_queue(next);
    } else if (must_go(latch) && store->session.up) {
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
    while (*link != job)
        link = &(*link)->queued;
    *link = job->queued;
    job->latch = NULL; /* it never had its turn */
}

/* ---- Life ------------------------------------------------------------------------------------ */

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
    mutex->users--;
    sb_zk_mutex_drop(&store->mutexes, mutex);
}

/* Without memory it stays for the next sweep. */
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
