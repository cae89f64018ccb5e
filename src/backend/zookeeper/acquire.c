/*
 * acquire.c - takes a place in the queue, and asks whether it is the first.
 *
 * A contender that was told that it owns and asks again has lost its belief meanwhile, and needs a new term with a new
 * token: its node goes, and another one joins the end of the queue.
 */
#include "backend/zookeeper/failure.h"
#include "backend/zookeeper/job.h"
#include "base/error.h"
#include "base/text.h"

/* Create and list travel together; the list has the node in it. */
static void on_created(struct sb_zk_job *job)
{
    const struct sb_zk_call *create = &job->calls[0];
    struct sb_zk_latch *latch = job->latch;
    int code = create->code;

    if (code == ZOK) {
        if (job->proved_ms > job->store->session.proved_ms)
            job->store->session.proved_ms = job->proved_ms;
        latch->node = SB_ZK_NODE_THERE;
        latch->czxid = (uint64_t)create->stat.czxid;
        sb_text_copy(latch->name, sizeof latch->name, create->text);
        code = job->calls[1].code;
        if (code == ZOK && create->stat.ephemeralOwner == job->store->session.id.client_id)
            sb_zk_job_judge(job);
        else
            sb_zk_job_fail(job, code != ZOK ? code : ZSESSIONMOVED);
        return;
    }
    if (!sb_zk_is_lost(code))
        sb_zk_latch_forget_node(latch);
    if (code == ZNONODE)
        sb_zk_job_make_parents(job, sb_zk_job_create);
    else
        sb_zk_job_fail(job, code);
}

/* From here on the node may be there, whatever happens. */
void sb_zk_job_create(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    const char *base = job->store->options.base;
    struct simba_error error;
    char node[SB_ZK_PATH_SIZE];
    char path[SB_ZK_PATH_SIZE];

    sb_zk_make_uuid(latch->uuid);
    if (!sb_zk_new_node_path(node, base, job->place->mutex, latch->uuid)) {
        sb_error_set(&error, SIMBA_EINVAL, "the path of '%s' is too long", job->place->mutex);
        sb_zk_job_fail_with(job, &error);
        return;
    }
    sb_zk_mutex_path(path, base, job->place->mutex);
    latch->node = SB_ZK_NODE_UNSURE;
    job->wrote = true;
    job->proved_ms = sb_zk_liveness_proof_ms(&job->store->session.liveness, simba_now_ms());
    job->step = on_created;
    sb_zk_create_latch(sb_zk_job_call(job, 0), node, latch->id);
    sb_zk_rank_children(sb_zk_job_call(job, 1), path, false);
}

/* The session may have ended while an older node was dropped, and the client may be closing: it would be gone before a
 * call that is posted as lost has ended. */
static void contest(struct sb_zk_job *job)
{
    if (!job->store->session.up)
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    else if (job->latch->node == SB_ZK_NODE_NONE)
        sb_zk_job_create(job);
    else if (sb_zk_turn_has_come(job))
        sb_zk_turn_take(job);
    else
        sb_zk_job_rank(job);
}

void sb_zk_job_acquire(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    if (latch->node != SB_ZK_NODE_NONE && (latch->granted || latch->leaving))
        sb_zk_job_drop(job, contest);
    else
        contest(job);
}
