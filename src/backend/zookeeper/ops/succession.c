/*
 * succession.c - the watches that a job sets, and how the second in the queue leads without a new
 * list.
 *
 *     list: P, mine --> read P and mine, with a watch on each --> P was deleted: mine is the first
 *
 * Nothing has to be read again, because
 *  - numbers only grow while the mutex's node is there, which it is as long as mine is: no node has
 *    come before it;
 *  - a server tells a connection of deletions in their order: had mine gone before P, that would
 *    have been heard first;
 *  - P is of another session: the nodes of one session go together and in no order;
 *  - that the session lives is proved as for every other answer.
 *
 * After a reconnect watches fire in any order, and where memory is short an event is dropped. Then
 * the list is read.
 */
#include "backend/zookeeper/ops/find.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

bool sb_zk_job_is_waiting(const struct sb_zk_job *job)
{
    return job->op == SIMBA_OP_ACQUIRE && job->latch->node == SB_ZK_NODE_THERE;
}

bool sb_zk_succession_is_second(const struct sb_zk_job *job)
{
    return strcmp(job->ranks.leader, job->ranks.before) == 0;
}

static bool watches_before(const struct sb_zk_job *job)
{
    return strcmp(job->latch->watched, job->ranks.before) == 0;
}

/* Numbers that only grow are a habit, which a node that was named by hand does not share: every
 * list decides anew. What the last one said holds until the nodes are read where it still fits. */
static void reset(struct sb_zk_job *job)
{
    job->latch->first = false;
    if (!sb_zk_succession_is_second(job) || !watches_before(job))
        job->latch->second = false;
}

/* Watches are noted before the reading that sets them: another job that takes a watch on the same
 * node back must know of it. Only the second watches its own node: a contender further back needs
 * the list anyway. */
void sb_zk_succession_begin(struct sb_zk_job *job)
{
    struct sb_zk_mutex *mutex = job->mutex;
    struct sb_zk_latch *latch = job->latch;
    bool waiting = sb_zk_job_is_waiting(job);

    SB_CHECK(!waiting || job->ranks.before[0] != '\0', "only a job behind another watches");
    if (waiting)
        reset(job);
    job->notes_leader = mutex->observers > 0 && strcmp(mutex->watched, job->ranks.leader) != 0;
    job->notes_before = waiting && !watches_before(job);
    job->notes_self = waiting && sb_zk_succession_is_second(job) && !latch->watches_self;
    if (job->notes_leader)
        sb_text_copy(mutex->watched, sizeof mutex->watched, job->ranks.leader);
    if (job->notes_before) {
        sb_zk_unwatch_before(job->store, latch);
        sb_text_copy(latch->watched, sizeof latch->watched, job->ranks.before);
    }
    if (job->notes_self)
        latch->watches_self = true;
}

/* A node that could not be read is not watched. */
void sb_zk_succession_fail(struct sb_zk_job *job)
{
    if (job->notes_leader && strcmp(job->mutex->watched, job->ranks.leader) == 0)
        job->mutex->watched[0] = '\0';
    if (job->notes_before && watches_before(job)) {
        job->latch->watched[0] = '\0';
        job->latch->second = false;
    }
    if (job->notes_self)
        sb_zk_latch_forget_succession(job->latch);
}

static bool is_mine(const struct sb_zk_job *job, const struct sb_zk_call *call)
{
    return call->stat.ephemeralOwner == job->store->session.id.client_id &&
           (uint64_t)call->stat.czxid == job->latch->czxid;
}

/* The node before mine may have gone between the two readings: then its watch has fired, and waits
 * no more. */
void sb_zk_succession_note(struct sb_zk_job *job)
{
    const struct sb_zk_call *leader = &job->calls[0];
    struct sb_zk_latch *latch = job->latch;

    SB_CHECK(sb_zk_job_is_waiting(job), "only a job that waits can be the next");
    if (job->notes_self && !is_mine(job, &job->calls[1]))
        latch->watches_self = false;
    latch->second = sb_zk_succession_is_second(job) && latch->watches_self && watches_before(job) &&
                    leader->stat.ephemeralOwner != job->store->session.id.client_id;
}

bool sb_zk_succession_is_due(const struct sb_zk_job *job)
{
    const struct sb_zk_session *session = &job->store->session;
    const struct sb_zk_latch *latch = job->latch;

    return latch->first && latch->node == SB_ZK_NODE_THERE &&
           !atomic_load(&session->handle->missed_event) && sb_zk_session_is_proved(session);
}

void sb_zk_succession_take(struct sb_zk_job *job)
{
    job->proved_ms = job->store->session.proved_ms;
    sb_zk_job_answer_mine(job);
}
