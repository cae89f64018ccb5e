/*
 * request.c - from a request to its job, which operation it begins with, GUARD, and what happens
 * when its time is over.
 */
#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/ops/ops.h"
#include "base/error.h"
#include "base/time.h"

/* ---- Guard ----------------------------------------------------------------------------------- */

/* Proves that the session lives and that the owner's node is still there. The pings of the client
 * library cannot be seen, and reach no further than the server that it is connected to, which may
 * be cut off from its ensemble. So a proof is a sync, which the ensemble's leader answers. */

static void on_guarded(struct sb_zk_job *job)
{
    const struct Stat *stat = &job->calls[0].stat;
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE) {
        sb_zk_job_fail(job, code);
    } else if (!sb_zk_job_is_proved(job)) {
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    } else if (code == ZOK && (uint64_t)stat->czxid == job->latch->czxid &&
               stat->ephemeralOwner == job->store->session.id.client_id) {
        sb_zk_job_answer_mine(job);
    } else {
        sb_zk_latch_forget_node(job->latch); /* it was taken away */
        sb_zk_find(job);
    }
}

static void guard(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    char path[SB_ZK_PATH_SIZE];

    if (latch == NULL || latch->node != SB_ZK_NODE_THERE || !latch->granted || latch->leaving) {
        sb_zk_find(job);
        return;
    }
    if (!sb_zk_job_prove(job))
        return;
    sb_zk_node_path(path, job->store->options.base, job->mutex->name, latch->name);
    job->step = on_guarded;
    sb_zk_exists(sb_zk_job_call(job, 0), path, false);
}

/* ---- Requests -------------------------------------------------------------------------------- */

void sb_zk_request_begin(struct sb_zk_job *job)
{
    if (!job->store->session.up) {
        sb_zk_job_fail(job, ZINVALIDSTATE);
        return;
    }
    switch (job->op) {
    case SIMBA_OP_ACQUIRE:
        sb_zk_acquire(job);
        break;
    case SIMBA_OP_GUARD:
        guard(job);
        break;
    case SIMBA_OP_RELEASE:
        sb_zk_release(job);
        break;
    case SIMBA_OP_NONE:
        sb_zk_drop_node(job, sb_zk_job_end);
        break;
    default:
        sb_zk_find(job);
        break;
    }
}

/* The calls that are under way stay so, and the job with them; a job that waits for its turn has
 * not begun. */
void sb_zk_request_expire(struct sb_zk_job *job)
{
    struct simba_error error;
    struct simba_reply reply = SIMBA_REPLY_INIT;

    job->deadline_ms = SIMBA_INFINITE;
    if (job->delayed) {
        sb_zk_job_answer_nobody(job);
        return;
    }
    sb_zk_fail(&error, ZOPERATIONTIMEOUT);
    if (job->latch != NULL && job->latch->active != job) {
        sb_zk_job_leave_queue(job);
        sb_zk_job_fail_with(job, &error);
        return;
    }
    if (job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_RELEASE)
        error.code = SIMBA_EUNKNOWN;
    reply.code = error.code;
    reply.error = &error;
    sb_zk_job_reply(job, &reply);
}

/* A job that could not be created answers nothing, so the request is answered here. */
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

/* Only an ACQUIRE makes a latch; the others find one, or do without. An observer has no id. */
static int find(simba_backend *store, const struct simba_request *request,
                struct sb_zk_mutex **ret_mutex, struct sb_zk_latch **ret_latch,
                struct simba_error *error)
{
    int code = sb_zk_check_mutex(request->mutex, error);

    if (code != SIMBA_OK)
        return code;
    *ret_latch = NULL;
    *ret_mutex = sb_zk_mutex_ensure(&store->mutexes, request->mutex);
    if (*ret_mutex == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (request->op == SIMBA_OP_ACQUIRE)
        *ret_latch = sb_zk_latch_ensure(*ret_mutex, request->id);
    else if (request->id != NULL)
        *ret_latch = sb_zk_latch_find(*ret_mutex, request->id);
    if (request->op != SIMBA_OP_ACQUIRE || *ret_latch != NULL)
        return SIMBA_OK;
    sb_zk_mutex_drop(&store->mutexes, *ret_mutex);
    return sb_error_plain(error, SIMBA_ENOMEM);
}

void sb_zk_request_start(simba_backend *store, struct simba_request *request,
                         void (*take)(struct sb_zk_job *job, const struct simba_reply *reply),
                         void *user)
{
    struct sb_zk_latch *latch = NULL;
    struct sb_zk_mutex *mutex;
    struct simba_error error;
    struct sb_zk_job *job = NULL;

    if (find(store, request, &mutex, &latch, &error) == SIMBA_OK) {
        job = sb_zk_job_create(store, mutex, latch);
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
    job->deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    sb_zk_wake_at(store, job->deadline_ms);
    if (latch != NULL && job->op == SIMBA_OP_ACQUIRE)
        latch->abandoned = false;
    sb_zk_job_queue(job);
}
