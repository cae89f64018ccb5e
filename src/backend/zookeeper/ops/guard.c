/*
 * guard.c - proves that the session lives and that the owner's node is still there.
 *
 * The pings of the client library cannot be seen, and reach no further than the server that it is
 * connected to, which may be cut off from its ensemble. So a proof is a sync, which the ensemble's
 * leader answers.
 */
#include "backend/zookeeper/ops/find.h"
#include "backend/zookeeper/ops/ops.h"

static bool is_still_mine(const struct sb_zk_job *job)
{
    const struct Stat *stat = &job->calls[0].stat;

    return job->calls[0].code == ZOK && (uint64_t)stat->czxid == job->latch->czxid &&
           stat->ephemeralOwner == job->store->session.id.client_id;
}

static void on_guarded(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE) {
        sb_zk_job_fail(job, code);
    } else if (!sb_zk_job_is_proved(job)) {
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    } else if (is_still_mine(job)) {
        sb_zk_job_answer_mine(job);
    } else {
        sb_zk_latch_forget_node(job->latch); /* it was taken away */
        sb_zk_find(job);
    }
}

void sb_zk_guard(struct sb_zk_job *job)
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
