/*
 * turn.c - a turn that comes without a look: who is the second in the queue leads as soon as it hears that the
 * first has gone.
 *
 *     list: P, mine  -->  get P and mine, with a watch on each  -->  P was deleted: mine is the first
 *
 * Nothing has to be read again, because
 *  - numbers only grow while the mutex's node is there, which it is as long as mine is: nobody has come before it;
 *  - a server tells a connection of deletions in their order: had mine gone before P, that would have been heard
 *    first;
 *  - P is of another session: the nodes of one session go together and in no order;
 *  - that the session lives is proved as for every other answer.
 *
 * After a reconnect watches fire in any order, and where memory is short a firing is dropped. Then the list is
 * read.
 */
#include "backend/zookeeper/job.h"

#include <string.h>

static bool is_second(const struct sb_zk_job *job)
{
    return strcmp(job->ranks.leader, job->ranks.before) == 0;
}

static bool watches_before(const struct sb_zk_job *job)
{
    return strcmp(job->latch->watched, job->ranks.before) == 0;
}

/* Only the second needs it: a contender further back has to look at the queue anyway. */
bool sb_zk_turn_needs_watch(const struct sb_zk_job *job)
{
    return job->op == SIMBA_OP_ACQUIRE && job->latch->node == SB_ZK_NODE_THERE && is_second(job) &&
           !job->latch->watches_self;
}

/* Numbers that only grow are a habit, which a node that was named by hand does not share: every list decides
 * anew. What the last one said holds until the nodes are read where it still fits. */
void sb_zk_turn_doubt(struct sb_zk_job *job)
{
    job->latch->first = false;
    if (!is_second(job) || !watches_before(job))
        job->latch->second = false;
}

static bool is_mine(const struct sb_zk_job *job, const struct sb_zk_call *call)
{
    return call->stat.ephemeralOwner == job->store->session.id.client_id &&
           (uint64_t)call->stat.czxid == job->latch->czxid;
}

/* The node before mine may have gone between the two readings: then its watch has fired, and waits no more. */
void sb_zk_turn_note(struct sb_zk_job *job)
{
    const struct sb_zk_call *leader = &job->calls[0];
    struct sb_zk_latch *latch = job->latch;

    if (job->notes_self && !is_mine(job, &job->calls[1]))
        latch->watches_self = false;
    latch->second = is_second(job) && latch->watches_self && watches_before(job) &&
                    leader->stat.ephemeralOwner != job->store->session.id.client_id;
}

bool sb_zk_turn_has_come(const struct sb_zk_job *job)
{
    const struct sb_zk_session *session = &job->store->session;
    const struct sb_zk_latch *latch = job->latch;

    return latch->first && latch->node == SB_ZK_NODE_THERE && !atomic_load(&session->line->deaf) &&
           sb_zk_session_is_proved(session);
}

void sb_zk_turn_take(struct sb_zk_job *job)
{
    job->proved_ms = job->store->session.proved_ms;
    sb_zk_job_answer_mine(job);
}
