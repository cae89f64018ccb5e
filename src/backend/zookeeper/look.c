/*
 * look.c - who is first, and who is the leader. Reads only, but for the watches that it leaves.
 *
 * The list of children tells the leader's node, mine, and the one before mine. Any of them may have vanished
 * when it is looked at: then the list is read again. Watches are set by reading a node, never by asking
 * whether it exists: on a node that is gone that would leave a watch behind that never fires.
 */
#include "backend/zookeeper/job.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* ---- The leader ----------------------------------------------------------------------------- */

static bool is_waiting(const struct sb_zk_job *job)
{
    return job->op == SIMBA_OP_ACQUIRE && job->latch->node == SB_ZK_NODE_THERE;
}

/* The node before mine is watched from its first reading on, and mine with it while there is none between. */
static bool must_watch_before(const struct sb_zk_job *job)
{
    return is_waiting(job) && strcmp(job->latch->watched, job->ranks.before) != 0;
}

static bool must_watch_leader(const struct sb_zk_job *job)
{
    return job->place->observers > 0 && strcmp(job->place->watched, job->ranks.leader) != 0;
}

static bool is_gone(const struct sb_zk_job *job, size_t calls)
{
    for (size_t i = 0; i < calls; i++)
        if (job->calls[i].code == ZNONODE)
            return true;
    return false;
}

/* Before the reading that sets them: another job that takes a watch on the same node back must know of it. */
static void note_watches(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    job->notes_leader = must_watch_leader(job);
    job->notes_before = must_watch_before(job);
    job->notes_self = sb_zk_turn_needs_watch(job);
    if (job->notes_leader)
        sb_text_copy(job->place->watched, sizeof job->place->watched, job->ranks.leader);
    if (job->notes_before) {
        sb_zk_watch_before(job->store, latch);
        sb_text_copy(latch->watched, sizeof latch->watched, job->ranks.before);
    }
    if (job->notes_self)
        latch->watches_self = true;
}

/* A node that could not be read is not watched. */
static void forget_watches(struct sb_zk_job *job)
{
    if (job->notes_leader && strcmp(job->place->watched, job->ranks.leader) == 0)
        job->place->watched[0] = '\0';
    if (job->notes_before && strcmp(job->latch->watched, job->ranks.before) == 0) {
        job->latch->watched[0] = '\0';
        job->latch->second = false;
    }
    if (job->notes_self)
        sb_zk_latch_forget_turn(job->latch);
}

static void take_leader(struct sb_zk_job *job, size_t calls)
{
    const char *owner = job->calls[0].text;
    uint64_t czxid = (uint64_t)job->calls[0].stat.czxid;

    for (size_t i = 0; i < calls; i++)
        if (job->calls[i].code != ZOK && job->calls[i].code != ZNONODE) {
            forget_watches(job);
            sb_zk_job_fail(job, job->calls[i].code);
            return;
        }
    if (is_gone(job, calls)) {
        forget_watches(job);
        if (sb_zk_job_again(job))
            sb_zk_job_rank(job);
    } else if (sb_zk_job_is_forced(job, owner, czxid)) {
        sb_zk_job_take_away(job);
    } else {
        if (is_waiting(job))
            sb_zk_turn_note(job);
        sb_zk_job_answer_other(job, owner, czxid);
    }
}

static void on_leader(struct sb_zk_job *job)
{
    take_leader(job, 1);
}

static void on_leader_and_another(struct sb_zk_job *job)
{
    take_leader(job, 2);
}

static bool make_path(const struct sb_zk_job *job, char path[SB_ZK_PATH_SIZE], const char *node)
{
    return sb_zk_node_path(path, job->store->options.base, job->place->mutex, node);
}

static void refuse_names(struct sb_zk_job *job)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_ESTORE, "'%s' has a participant whose node has a name too long",
                 job->place->mutex);
    sb_zk_job_fail_with(job, &error);
}

static void look_at_leader(struct sb_zk_job *job)
{
    bool same = strcmp(job->ranks.leader, job->ranks.before) == 0;
    bool another;
    char leader[SB_ZK_PATH_SIZE];
    char path[SB_ZK_PATH_SIZE];

    if (job->ranks.too_long || !make_path(job, leader, job->ranks.leader) ||
        !make_path(job, path, same ? job->ranks.mine : job->ranks.before)) {
        refuse_names(job);
        return;
    }
    if (is_waiting(job))
        sb_zk_turn_doubt(job);
    note_watches(job);
    another = same ? job->notes_self : job->notes_before;
    job->step = another ? on_leader_and_another : on_leader;
    sb_zk_get(sb_zk_job_call(job, 0), leader, (same && job->notes_before) || job->notes_leader);
    if (another)
        sb_zk_get(sb_zk_job_call(job, 1), path, true);
}

/* ---- Nobody --------------------------------------------------------------------------------- */

/* A watch is on now: what came before it is in the list, what comes later it tells. */
static void on_watched_nobody(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code == ZNONODE) {
        job->place->watches_children = false;
        if (sb_zk_job_again(job))
            sb_zk_job_rank(job);
    } else if (code != ZOK) {
        sb_zk_job_fail(job, code);
    } else {
        sb_zk_job_judge(job);
    }
}

static void on_watched_parent(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code == ZOK && sb_zk_job_again(job))
        sb_zk_job_rank(job);
    else if (code == ZNONODE)
        sb_zk_job_answer_nobody(job);
    else if (code != ZOK)
        sb_zk_job_fail(job, code);
}

/* Observers hear of the first participant, and before that of the mutex itself. */
static void answer_nobody(struct sb_zk_job *job, bool has_parent)
{
    struct sb_zk_place *place = job->place;
    bool watched = has_parent ? place->watches_children : place->watches_parent;
    char path[SB_ZK_PATH_SIZE];

    if (place->observers == 0 || watched) {
        sb_zk_job_answer_nobody(job);
        return;
    }
    sb_zk_mutex_path(path, job->store->options.base, place->mutex);
    job->step = has_parent ? on_watched_nobody : on_watched_parent;
    if (has_parent) {
        place->watches_children = true;
        sb_zk_rank_children(sb_zk_job_call(job, 0), path, true);
    } else {
        place->watches_parent = true;
        sb_zk_exists(sb_zk_job_call(job, 0), path, true);
    }
}

void sb_zk_job_look(struct sb_zk_job *job)
{
    if (job->ranks.count == 0)
        answer_nobody(job, job->calls[0].code != ZNONODE);
    else
        look_at_leader(job);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

/* A node that was found by its uuid: is it the session's? It is, unless the session changed meanwhile. */
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
        latch->node = SB_ZK_NODE_THERE;
        latch->czxid = (uint64_t)stat->czxid;
        sb_text_copy(latch->name, sizeof latch->name, job->ranks.mine);
    } else {
        sb_zk_latch_forget_node(latch);
    }
    if (sb_zk_job_again(job))
        sb_zk_job_rank(job);
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
    if (job->op != SIMBA_OP_ACQUIRE)
        sb_zk_job_look(job);
    else if (sb_zk_job_again(job))
        sb_zk_job_create(job);
}

/* It would stand before who owns now. */
static void refuse_sequence(struct sb_zk_job *job)
{
    struct simba_error error;

    job->latch->leaving = true;
    sb_error_set(
        &error, SIMBA_ESTORE,
        "the sequence numbers of '%s' are used up: its node has to be deleted in ZooKeeper",
        job->place->mutex);
    sb_zk_job_fail_with(job, &error);
}

void sb_zk_job_judge(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    if (latch == NULL)
        sb_zk_job_look(job);
    else if (!job->ranks.found)
        on_missing(job);
    else if (latch->node == SB_ZK_NODE_UNSURE)
        adopt(job);
    else if (job->op == SIMBA_OP_ACQUIRE && sb_zk_is_overflown(job->ranks.mine))
        refuse_sequence(job);
    else if (sb_zk_job_must_check_rights(job))
        sb_zk_job_check_rights(job);
    else if (job->ranks.before[0] == '\0')
        sb_zk_job_answer_mine(job);
    else
        sb_zk_job_look(job);
}

static void on_ranked(struct sb_zk_job *job)
{
    int code = job->calls[0].code;

    if (code != ZOK && code != ZNONODE)
        sb_zk_job_fail(job, code);
    else if (job->proved_ms == 0 && !sb_zk_job_is_proved(job))
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    else
        sb_zk_job_judge(job);
}

void sb_zk_job_rank(struct sb_zk_job *job)
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
    sb_zk_mutex_path(path, job->store->options.base, job->place->mutex);
    job->step = on_ranked;
    sb_zk_rank_children(sb_zk_job_call(job, 0), path, false);
}
