/*
 * release.c - takes a node away, for a RELEASE, for a new term, or because nobody is heard of.
 *
 * Until the server has confirmed the deletion the node is "leaving". If the connection breaks, the
 * node is deleted when there is a connection again, or with the session.
 */
#include "backend/zookeeper/ops/ops.h"
#include "base/text.h"

#include <string.h>

/* Trying again at once would not help: rights may change some day, or the session ends it. One that
 * was only found by its uuid has not been read: a contender that wants it for a term has to learn
 * its token first. */
static void keep_node(simba_backend *store, struct sb_zk_latch *latch, int code)
{
    const struct simba_backend_host *host = store->host;

    if (latch->czxid == 0)
        latch->node = SB_ZK_NODE_UNSURE;
    latch->leaving = false;
    latch->abandoned = false;
    latch->withdraw_ms = simba_now_ms() + store->session.timeout_ms;
    if (!latch->stuck)
        host->log(host, SIMBA_LOG_WARN, "zookeeper: the node of '%s' cannot be deleted: %s",
                  latch->mutex->name, zerror(code));
    latch->stuck = true;
}

/* The term that was meant is given back, or none was meant. The answer need not name the next
 * owner, and a list would only delay that one. */
static bool is_released(const struct sb_zk_job *job)
{
    return job->revision == 0 || (job->latch != NULL && job->latch->czxid == job->revision);
}

/* It is not known which came first: the end of the session or the release of its node. */
static void on_dropped(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    int code = job->calls[0].code;

    if (code == ZOK || code == ZNONODE || code == ZSESSIONEXPIRED) {
        job->missed = job->missed && (code == ZNONODE || !is_released(job));
        sb_zk_unwatch_before(job->store, latch);
        sb_zk_latch_forget_node(latch);
        if (job->missed)
            sb_zk_find(job); /* another may own by now */
        else
            job->then(job);
        return;
    }
    if (!sb_zk_is_lost(code))
        keep_node(job->store, latch, code);
    sb_zk_job_fail(job, code);
}

static void delete_node(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    sb_zk_node_path(path, job->store->options.base, job->mutex->name, job->latch->name);
    job->wrote = true;
    job->step = on_dropped;
    sb_zk_delete(sb_zk_job_call(job, 0), path);
}

/* The list tells whether the node was created: requests of an older connection are not carried out
 * later. */
static void on_searched(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE) {
        sb_zk_job_fail(job, code);
    } else if (!sb_zk_job_is_proved(job)) {
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    } else if (job->ranks.found) {
        latch->node = SB_ZK_NODE_THERE;
        sb_text_copy(latch->name, sizeof latch->name, job->ranks.mine);
        delete_node(job);
    } else {
        sb_zk_latch_forget_node(latch);
        job->then(job);
    }
}

static void search(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    if (!sb_zk_job_prove(job))
        return;
    sb_zk_mutex_path(path, job->store->options.base, job->mutex->name);
    job->step = on_searched;
    sb_zk_rank_children(sb_zk_job_call(job, 0), path, false);
}

void sb_zk_drop_node(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job))
{
    job->then = then;
    job->latch->leaving = true;
    if (job->latch->node == SB_ZK_NODE_THERE)
        delete_node(job);
    else if (job->latch->node == SB_ZK_NODE_UNSURE)
        search(job);
    else
        then(job);
}

/* ---- By force -------------------------------------------------------------------------------- */

static void on_taken(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    job->missed = code == ZNONODE;
    if (code == ZOK || code == ZNONODE)
        sb_zk_job_answer_nobody(job);
    else
        sb_zk_job_fail(job, code);
}

/* It is about the leader's very node, which is not this client's: one zxid creates one node. */
static bool take_away(struct sb_zk_job *job, const char *owner, uint64_t czxid)
{
    char path[SB_ZK_PATH_SIZE];

    if (job->revision == 0 || job->revision != czxid || job->request == NULL ||
        strcmp(job->request->id, owner) != 0)
        return false;
    sb_zk_node_path(path, job->store->options.base, job->mutex->name, job->ranks.leader);
    job->wrote = true;
    job->step = on_taken;
    sb_zk_delete(sb_zk_job_call(job, 0), path);
    return true;
}

/* ---- By its owner ---------------------------------------------------------------------------- */

/* A place in the queue is left in any case, a term only when it is the one that is meant. */
void sb_zk_release(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    job->led = take_away;
    job->missed = job->revision != 0;
    if (latch != NULL && latch->node != SB_ZK_NODE_NONE &&
        (!latch->granted || latch->leaving || latch->czxid == job->revision))
        sb_zk_drop_node(job, is_released(job) ? sb_zk_job_answer_nobody : sb_zk_find);
    else if (job->revision == 0)
        sb_zk_job_answer_nobody(job);
    else
        sb_zk_find(job);
}
