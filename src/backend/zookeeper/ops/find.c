/*
 * find.c - which node is the first, and which contender leads. Reads only, but for the watches that
 * it leaves.
 *
 * The list of children tells the leader's node, mine, and the one before mine. Any of them may have
 * vanished when it is read: then the list is read again. Watches are set by reading a node, never
 * by asking whether it exists: on a node that is gone that would leave a watch behind that never
 * fires.
 */
#include "backend/zookeeper/ops/ops.h"

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* ---- Succession ------------------------------------------------------------------------------ */

/* The watches that a job sets, and how the second in the queue leads without a new list.
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
 * the list is read. */

/* In the queue, for an ACQUIRE. */
static bool is_waiting(const struct sb_zk_job *job)
{
    return job->op == SIMBA_OP_ACQUIRE && job->latch->node == SB_ZK_NODE_THERE;
}

/* Whether the leader is the one before mine. */
static bool is_second(const struct sb_zk_job *job)
{
    return strcmp(job->ranks.leader, job->ranks.before) == 0;
}

static bool watches_before(const struct sb_zk_job *job)
{
    return strcmp(job->latch->watched, job->ranks.before) == 0;
}

/* Every list decides anew which node is the second: a node that was created by hand may have a
 * smaller number. Watches are noted before the reading that sets them: another job that takes a
 * watch on the same node back must know of it. Only the second watches its own node: a contender
 * further back needs the list anyway. */
static void begin_watching(struct sb_zk_job *job)
{
    struct sb_zk_mutex *mutex = job->mutex;
    struct sb_zk_latch *latch = job->latch;
    bool waiting = is_waiting(job);

    SB_CHECK(!waiting || job->ranks.before[0] != '\0', "only a job behind another watches");
    if (waiting) {
        latch->first = false;
        if (!is_second(job) || !watches_before(job))
            latch->second = false;
    }
    job->notes_leader = mutex->observers > 0 && strcmp(mutex->watched, job->ranks.leader) != 0;
    job->notes_before = waiting && !watches_before(job);
    job->notes_self = waiting && is_second(job) && !latch->watches_self;
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
static void fail_watching(struct sb_zk_job *job)
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

/* The node before mine may have gone between the two readings: then its watch has fired, and waits
 * no more. */
static void note_watches(struct sb_zk_job *job)
{
    int64_t session_id = job->store->session.id.client_id;
    const struct Stat *leader = &job->calls[0].stat;
    const struct Stat *mine = &job->calls[1].stat;
    struct sb_zk_latch *latch = job->latch;

    SB_CHECK(is_waiting(job), "only a job that waits can be the next");
    if (job->notes_self &&
        (mine->ephemeralOwner != session_id || (uint64_t)mine->czxid != latch->czxid))
        latch->watches_self = false;
    latch->second = is_second(job) && latch->watches_self && watches_before(job) &&
                    leader->ephemeralOwner != session_id;
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

/* ---- The leader ------------------------------------------------------------------------------ */

/* Whether a second node is read with the leader's: the one before mine, where its watch is not set
 * yet; mine, where the one before is the leader's. */
static bool reads_another(const struct sb_zk_job *job)
{
    return is_second(job) ? job->notes_self : job->notes_before;
}

static void on_leader(struct sb_zk_job *job)
{
    const char *owner = job->calls[0].text;
    uint64_t czxid = (uint64_t)job->calls[0].stat.czxid;
    int code = job->calls[0].code;
    int other = reads_another(job) ? job->calls[1].code : ZOK;

    if (code == ZOK || (code == ZNONODE && other != ZOK))
        code = other;
    if (code != ZOK)
        fail_watching(job);
    if (code == ZNONODE) {
        if (sb_zk_job_again(job))
            sb_zk_find(job);
    } else if (code != ZOK) {
        sb_zk_job_fail(job, code);
    } else if (job->led == NULL || !job->led(job, owner, czxid)) {
        if (is_waiting(job))
            note_watches(job);
        sb_zk_job_answer_other(job, owner, czxid);
    }
}

static bool make_path(const struct sb_zk_job *job, char path[SB_ZK_PATH_SIZE], const char *node)
{
    return sb_zk_node_path(path, job->store->options.base, job->mutex->name, node);
}

static void refuse_names(struct sb_zk_job *job)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_ESTORE, "the node of a participant of '%s' has too long a name",
                 job->mutex->name);
    sb_zk_job_fail_with(job, &error);
}

static void read_leader(struct sb_zk_job *job)
{
    bool same = is_second(job);
    char leader[SB_ZK_PATH_SIZE];
    char path[SB_ZK_PATH_SIZE];

    if (job->ranks.too_long || !make_path(job, leader, job->ranks.leader) ||
        !make_path(job, path, same ? job->ranks.mine : job->ranks.before)) {
        refuse_names(job);
        return;
    }
    begin_watching(job);
    job->step = on_leader;
    sb_zk_get(sb_zk_job_call(job, 0), leader, (same && job->notes_before) || job->notes_leader);
    if (reads_another(job))
        sb_zk_get(sb_zk_job_call(job, 1), path, true);
}

/* ---- Nobody ---------------------------------------------------------------------------------- */

/* A watch is on now: what came before it is in the list, what comes later it tells. */
static void on_watched_nobody(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code == ZNONODE) {
        job->mutex->watches_children = false;
        if (sb_zk_job_again(job))
            sb_zk_find(job);
    } else if (code != ZOK) {
        sb_zk_job_fail(job, code);
    } else {
        sb_zk_find_decide(job);
    }
}

static void on_watched_parent(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code == ZOK && sb_zk_job_again(job))
        sb_zk_find(job);
    else if (code == ZNONODE)
        sb_zk_job_answer_nobody(job);
    else if (code != ZOK)
        sb_zk_job_fail(job, code);
}

/* Observers hear of the first participant, and before that of the mutex itself. */
static void answer_nobody(struct sb_zk_job *job, bool has_parent)
{
    struct sb_zk_mutex *mutex = job->mutex;
    bool watched = has_parent ? mutex->watches_children : mutex->watches_parent;
    char path[SB_ZK_PATH_SIZE];

    if (mutex->observers == 0 || watched) {
        sb_zk_job_answer_nobody(job);
        return;
    }
    sb_zk_mutex_path(path, job->store->options.base, mutex->name);
    job->step = has_parent ? on_watched_nobody : on_watched_parent;
    if (has_parent) {
        mutex->watches_children = true;
        sb_zk_rank_children(sb_zk_job_call(job, 0), path, true);
    } else {
        mutex->watches_parent = true;
        sb_zk_exists(sb_zk_job_call(job, 0), path, true);
    }
}

static void find_leader(struct sb_zk_job *job)
{
    if (job->ranks.count == 0)
        answer_nobody(job, job->calls[0].code != ZNONODE);
    else
        read_leader(job);
}

/* ---- Mine ------------------------------------------------------------------------------------ */

/* A node that was found by its uuid: is it the session's? It is, unless the session changed
 * meanwhile. */
static void on_adopted(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    const struct Stat *stat = &job->calls[0].stat;
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE) {
        sb_zk_job_fail(job, code);
        return;
    }
    if (code == ZOK && stat->ephemeralOwner == job->store->session.id.client_id) {
        sb_zk_latch_set_node(latch, job->ranks.mine, stat);
    } else {
        sb_zk_latch_forget_node(latch);
    }
    if (sb_zk_job_again(job))
        sb_zk_find(job);
}

static void adopt(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    if (!make_path(job, path, job->ranks.mine)) {
        refuse_names(job);
        return;
    }
    job->step = on_adopted;
    sb_zk_exists(sb_zk_job_call(job, 0), path, false);
}

static void on_missing(struct sb_zk_job *job)
{
    if (job->latch->node != SB_ZK_NODE_NONE)
        sb_zk_latch_forget_node(job->latch);
    if (job->missing == NULL)
        find_leader(job);
    else if (sb_zk_job_again(job))
        job->missing(job);
}

void sb_zk_find_place(struct sb_zk_job *job)
{
    SB_CHECK(job->ranks.found, "the list shows mine");
    if (job->ranks.before[0] == '\0')
        sb_zk_job_answer_mine(job);
    else
        find_leader(job);
}

void sb_zk_find_decide(struct sb_zk_job *job)
{
    if (job->latch == NULL)
        find_leader(job);
    else if (!job->ranks.found)
        on_missing(job);
    else if (job->latch->node == SB_ZK_NODE_UNSURE)
        adopt(job);
    else if (job->found != NULL)
        job->found(job);
    else
        sb_zk_find_place(job);
}

/* ---- The list -------------------------------------------------------------------------------- */

static void on_listed(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE)
        sb_zk_job_fail(job, code);
    else if (job->proved_ms == 0 && !sb_zk_job_is_proved(job))
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    else
        sb_zk_find_decide(job);
}

void sb_zk_find(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    if (!job->store->session.up) {
        sb_zk_job_fail(job, ZCONNECTIONLOSS); /* at once: the client may be closing */
        return;
    }
    if (is_waiting(job) && sb_zk_session_is_proved(&job->store->session))
        job->proved_ms = job->store->session.proved_ms;
    else if (!sb_zk_job_prove(job))
        return;
    sb_zk_mutex_path(path, job->store->options.base, job->mutex->name);
    job->step = on_listed;
    sb_zk_rank_children(sb_zk_job_call(job, 0), path, false);
}
