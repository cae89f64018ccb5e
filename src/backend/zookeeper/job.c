/*
 * job.c - the life of a job: its start, its turn on a latch, its calls, its end.
 */
#include "backend/zookeeper/job.h"

#include "backend/zookeeper/failure.h"
#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define ROUNDS_MAX 100

/* ---- Calls ---------------------------------------------------------------------------------- */

static void on_done(struct sb_zk_call *call)
{
    struct sb_zk_job *job = call->user;

    if (--job->under_way == 0)
        job->step(job);
}

struct sb_zk_call *sb_zk_job_call(struct sb_zk_job *job, size_t index)
{
    struct sb_zk_call *call = &job->calls[index];

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

bool sb_zk_job_again(struct sb_zk_job *job)
{
    if (++job->rounds <= ROUNDS_MAX && job->store->session.up)
        return true;
    sb_zk_job_fail(job, job->store->session.up ? ZNONODE : ZCONNECTIONLOSS);
    return false;
}

/* ---- Proofs --------------------------------------------------------------------------------- */

void sb_zk_proof_drop(struct sb_zk_proof *proof)
{
    if (proof != NULL && --proof->holders == 0)
        sb_free(proof);
}

static void on_proved(struct sb_zk_call *call)
{
    struct sb_zk_proof *proof = (struct sb_zk_proof *)call;

    proof->ended = true;
    if (call->code == ZOK) {
        call->session->failures = 0; /* a line that comes up may be refused right behind that */
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

void sb_zk_store_prove(simba_backend *store)
{
    sb_zk_proof_drop(
        sb_zk_proof_send(store)); /* without memory the next hand-over takes a little longer */
}

bool sb_zk_job_prove(struct sb_zk_job *job)
{
    struct sb_zk_proof *shared = job->store->proof;
    struct simba_error error;

    sb_zk_proof_drop(job->proof);
    if (shared != NULL && shared->call.line == job->store->session.line) {
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

bool sb_zk_job_is_proved(struct sb_zk_job *job)
{
    if (!job->proof->ended || job->proof->call.code != ZOK)
        return false;
    if (job->proved_ms == 0)
        job->proved_ms = job->proof->counts_ms;
    return true;
}

/* ---- Turns ---------------------------------------------------------------------------------- */

static void after_withdrawal(struct sb_zk_job *job)
{
    sb_zk_job_end(job);
}

static void begin(struct sb_zk_job *job)
{
    if (!job->store->session.up) {
        sb_zk_job_fail(job, ZINVALIDSTATE);
        return;
    }
    switch (job->op) {
    case SIMBA_OP_ACQUIRE:
        sb_zk_job_acquire(job);
        break;
    case SIMBA_OP_GUARD:
        sb_zk_job_guard(job);
        break;
    case SIMBA_OP_RELEASE:
        sb_zk_job_release(job);
        break;
    case SIMBA_OP_NONE:
        sb_zk_job_drop(job, after_withdrawal);
        break;
    default:
        sb_zk_job_rank(job);
        break;
    }
}

static void take_turn(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    struct sb_zk_job **link;

    if (latch == NULL || latch->active == NULL) {
        if (latch != NULL)
            latch->active = job;
        begin(job);
        return;
    }
    for (link = &latch->queue; *link != NULL; link = &(*link)->queued)
        continue;
    *link = job;
}

/* What the contender left behind when it stopped goes, unless it was granted: that runs out by itself. */
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
        take_turn(next);
    } else if (must_go(latch) && store->session.up) {
        sb_zk_job_withdraw(store, latch);
    } else {
        if (latch->withdraw_ms != SIMBA_INFINITE)
            sb_zk_store_wake_at(store, latch->withdraw_ms);
        sb_zk_latch_drop(latch);
    }
}

/* ---- Life ----------------------------------------------------------------------------------- */

static struct sb_zk_job *create(simba_backend *store, struct sb_zk_place *place,
                                struct sb_zk_latch *latch)
{
    struct sb_zk_job *job = sb_alloc_zero(sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->place = place;
    job->latch = latch;
    job->deadline_ms = SIMBA_INFINITE;
    place->jobs++;
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
    struct sb_zk_place *place = job->place;
    struct sb_zk_latch *latch = job->latch;

    *job->link = job->next;
    if (job->next != NULL)
        job->next->link = job->link;
    sb_zk_proof_drop(job->proof);
    sb_free(job);
    if (latch != NULL)
        pass_turn(store, latch);
    place->jobs--;
    sb_zk_place_drop(&store->places, place);
}

static void leave_queue(struct sb_zk_job *job)
{
    struct sb_zk_job **link = &job->latch->queue;

    while (*link != job)
        link = &(*link)->queued;
    *link = job->queued;
    job->latch = NULL; /* it never had its turn */
}

/* The calls that are under way stay so, and the job with them; a job that waits for its turn has not begun. */
void sb_zk_job_expire(struct sb_zk_job *job)
{
    struct simba_error error;
    struct simba_reply reply = SIMBA_REPLY_INIT;

    job->deadline_ms = SIMBA_INFINITE;
    if (job->parked) {
        sb_zk_job_answer_nobody(job);
        return;
    }
    sb_zk_fail(&error, ZOPERATIONTIMEOUT);
    if (job->latch != NULL && job->latch->active != job) {
        leave_queue(job);
        sb_zk_job_fail_with(job, &error);
        return;
    }
    if (job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_RELEASE)
        error.code = SIMBA_EUNKNOWN;
    reply.code = error.code;
    reply.error = &error;
    sb_zk_job_reply(job, &reply);
}

/* Nobody answers for a job that could not be made. */
static void refuse(simba_backend *store, struct simba_request *request,
                   void (*take)(struct sb_zk_job *job, const struct simba_reply *reply), void *user,
                   const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct sb_zk_job job = {.store = store, .request = request, .take = take, .user = user};

    reply.code = error->code;
    reply.error = error;
    sb_zk_job_reply(&job, &reply);
}

/* Only an ACQUIRE makes a latch; the others find one, or do without. Who only looks has no id. */
static int find(simba_backend *store, const struct simba_request *request,
                struct sb_zk_place **ret_place, struct sb_zk_latch **ret_latch,
                struct simba_error *error)
{
    int code = sb_zk_check_mutex(request->mutex, error);

    if (code != SIMBA_OK)
        return code;
    *ret_latch = NULL;
    *ret_place = sb_zk_place_ensure(&store->places, request->mutex);
    if (*ret_place == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (request->op == SIMBA_OP_ACQUIRE)
        *ret_latch = sb_zk_latch_ensure(*ret_place, request->id);
    else if (request->id != NULL)
        *ret_latch = sb_zk_latch_find(*ret_place, request->id);
    if (request->op != SIMBA_OP_ACQUIRE || *ret_latch != NULL)
        return SIMBA_OK;
    sb_zk_place_drop(&store->places, *ret_place);
    return sb_error_plain(error, SIMBA_ENOMEM);
}

void sb_zk_job_start(simba_backend *store, struct simba_request *request,
                     void (*take)(struct sb_zk_job *job, const struct simba_reply *reply),
                     void *user)
{
    int64_t now_ms = simba_now_ms();
    struct sb_zk_latch *latch = NULL;
    struct sb_zk_place *place;
    struct simba_error error;
    struct sb_zk_job *job = NULL;

    if (find(store, request, &place, &latch, &error) == SIMBA_OK) {
        job = create(store, place, latch);
        if (job == NULL)
            sb_error_plain(&error, SIMBA_ENOMEM);
    }
    if (job == NULL) {
        refuse(store, request, take, user, &error);
        return;
    }
    job->request = request;
    job->take = take;
    job->user = user;
    job->op = request->op;
    job->revision = request->revision;
    job->ttl_ms = request->ttl_ms;
    job->transition_ms = request->transition_ms;
    if (request->timeout_ms < SIMBA_INFINITE - now_ms)
        job->deadline_ms = now_ms + request->timeout_ms;
    sb_zk_store_wake_at(store, job->deadline_ms);
    if (latch != NULL && job->op == SIMBA_OP_ACQUIRE)
        latch->abandoned = false;
    take_turn(job);
}

/* Without memory it stays for the next sweep. */
void sb_zk_job_withdraw(simba_backend *store, struct sb_zk_latch *latch)
{
    struct sb_zk_job *job = create(store, latch->place, latch);

    latch->leaving = true;
    if (job == NULL) {
        latch->withdraw_ms = simba_now_ms() + 1000;
        sb_zk_store_wake_at(store, latch->withdraw_ms);
        return;
    }
    take_turn(job);
}
