/*
 * acquire.c - joins the queue, and asks whether its node is the first.
 *
 * A contender that was told that it owns and asks again has lost its belief meanwhile, and needs a
 * new term with a new token: its node goes, and another one joins the end of the queue.
 */
#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/ops/ops.h"
#include "base/check.h"
#include "base/error.h"

#include <string.h>

static void create_node(struct sb_zk_job *job);

/* ---- Parents --------------------------------------------------------------------------------
 *
 * The nodes above a latch are missing on a new ensemble, on one that came back empty, and after the
 * servers have removed a container that nobody used. They are made from the bottom up and down
 * again, because the rights may end somewhere above. The mutex and the folder of all mutexes are
 * containers, as Curator makes them; what the chroot names is there to stay. */

static void make_next(struct sb_zk_job *job);

static bool is_container(const struct sb_zk_job *job)
{
    return job->reach >= strlen(job->store->options.base) && !job->store->no_containers;
}

/* One level up; 0 when there is none. */
static size_t up(const char *path, size_t reach)
{
    while (reach > 0 && path[reach - 1] != '/')
        reach--;
    return reach > 0 ? reach - 1 : 0;
}

static void on_made(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];
    int code = job->calls[0].code;

    sb_zk_mutex_path(path, job->store->options.base, job->mutex->name);
    if (code == ZUNIMPLEMENTED && is_container(job)) {
        job->store->no_containers = true;
    } else if (code == ZNONODE && up(path, job->reach) > 0) {
        job->reach = up(path, job->reach);
    } else if (code == ZOK || code == ZNODEEXISTS) {
        if (path[job->reach] == '\0') {
            create_node(job);
            return;
        }
        job->reach += 1 + strcspn(path + job->reach + 1, "/");
    } else {
        sb_zk_job_fail(job, code);
        return;
    }
    if (sb_zk_job_again(job))
        make_next(job);
}

static void make_next(struct sb_zk_job *job)
{
    char path[SB_ZK_PATH_SIZE];

    sb_zk_mutex_path(path, job->store->options.base, job->mutex->name);
    path[job->reach] = '\0';
    job->step = on_made;
    sb_zk_create_parent(sb_zk_job_call(job, 0), path, is_container(job));
}

/* ---- Rights ---------------------------------------------------------------------------------
 *
 * With acl=creator the nodes above a latch must protect it. Anybody may have made them before, with
 * rights for all: another user who may create or delete below a mutex can take it away. So their
 * ACLs are compared with that of the latch, which the server made for the client's own user: nobody
 * else may create, delete or administer. The three are read in this order:
 *
 *     base    is good: from here on no stranger can delete the mutex or change this ACL
 *     mutex   is good: from here on no stranger can delete or exchange the latch
 *     latch   is the one that this session created: it was there all the time
 *
 * While the latch is there its parents have children and cannot be exchanged: once for each latch
 * is enough. What lies above does not matter: with rights there one can at most remove empty
 * nodes. */

enum { BASE, MUTEX, OWN, COUNT };

/* The node must be deleted. If the server refuses that, the node still never counts as a place in
 * the queue. */
static void refuse_node(struct sb_zk_job *job, const struct simba_error *error)
{
    job->latch->leaving = true;
    job->latch->refused = true;
    sb_zk_job_fail_with(job, error);
}

static void refuse_rights(struct sb_zk_job *job, const char *path, const char *stranger)
{
    struct simba_error error;

    sb_zk_rights_refuse(&error, job->store, path, SB_ZK_MASTERS, &job->calls[OWN], stranger);
    refuse_node(job, &error);
}

static void refuse_exchange(struct sb_zk_job *job)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_EDENIED,
                 "another user has replaced the node of this contender in '%s': delete the mutex "
                 "in ZooKeeper",
                 job->mutex->name);
    refuse_node(job, &error);
}

static void compare_rights(struct sb_zk_job *job)
{
    const char *in_mutex = sb_zk_rights_stranger(&job->calls[OWN], &job->calls[MUTEX]);
    const char *in_base = sb_zk_rights_stranger(&job->calls[OWN], &job->calls[BASE]);
    char path[SB_ZK_PATH_SIZE];

    sb_zk_mutex_path(path, job->store->options.base, job->mutex->name);
    if ((uint64_t)job->calls[OWN].stat.czxid != job->latch->czxid) {
        refuse_exchange(job);
    } else if (in_base != NULL) {
        refuse_rights(job, job->store->options.base, in_base);
    } else if (in_mutex != NULL) {
        refuse_rights(job, path, in_mutex);
    } else {
        job->latch->checked = true;
        sb_zk_find_place(job);
    }
}

/* The job may be gone when it has been judged. */
static void on_rights(struct sb_zk_job *job)
{
    struct sb_zk_call calls[COUNT];
    int code = ZOK;

    memcpy(calls, job->calls, sizeof calls);
    for (size_t i = 0; i < COUNT && code == ZOK; i++)
        code = calls[i].code;
    if (code != ZOK)
        sb_zk_job_fail(job, code);
    else
        compare_rights(job);
    for (size_t i = 0; i < COUNT; i++)
        sb_zk_free_names(calls[i].names, calls[i].count);
}

static void check_rights(struct sb_zk_job *job)
{
    const char *base = job->store->options.base;
    char path[SB_ZK_PATH_SIZE];

    job->step = on_rights;
    sb_zk_name_masters(sb_zk_job_call(job, BASE), base);
    sb_zk_mutex_path(path, base, job->mutex->name);
    sb_zk_name_masters(sb_zk_job_call(job, MUTEX), path);
    sb_zk_node_path(path, base, job->mutex->name, job->latch->name);
    sb_zk_name_masters(sb_zk_job_call(job, OWN), path);
}

/* ---- The node -------------------------------------------------------------------------------- */

/* Create and list travel together; the list has the node in it. */
static void on_created(struct sb_zk_job *job)
{
    const struct sb_zk_call *create = &job->calls[0];
    struct sb_zk_latch *latch = job->latch;
    int code = create->code;

    if (code == ZOK) {
        if (job->proved_ms > job->store->session.proved_ms)
            job->store->session.proved_ms = job->proved_ms;
        sb_zk_latch_set_node(latch, create->text, &create->stat);
        code = job->calls[1].code;
        if (code == ZOK && create->stat.ephemeralOwner == job->store->session.id.client_id)
            sb_zk_find_decide(job);
        else
            sb_zk_job_fail(job, code != ZOK ? code : ZSESSIONMOVED);
        return;
    }
    if (!sb_zk_is_lost(code))
        sb_zk_latch_forget_node(latch);
    if (code != ZNONODE) {
        sb_zk_job_fail(job, code);
    } else if (sb_zk_job_again(job)) {
        job->reach = strlen(job->store->options.base) + 1 + strlen(job->mutex->name);
        make_next(job);
    }
}

/* From here on the node may be there, whatever happens. */
static void create_node(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;
    const char *base = job->store->options.base;
    struct simba_error error;
    char node[SB_ZK_PATH_SIZE];
    char path[SB_ZK_PATH_SIZE];

    sb_zk_make_uuid(latch->uuid);
    if (!sb_zk_new_node_path(node, base, job->mutex->name, latch->uuid)) {
        sb_error_set(&error, SIMBA_EINVAL, "the path of '%s' is too long", job->mutex->name);
        sb_zk_job_fail_with(job, &error);
        return;
    }
    sb_zk_mutex_path(path, base, job->mutex->name);
    latch->node = SB_ZK_NODE_UNSURE;
    job->wrote = true;
    job->proved_ms = sb_zk_liveness_proof_ms(&job->store->session.liveness, simba_now_ms());
    job->step = on_created;
    sb_zk_create_latch(sb_zk_job_call(job, 0), node, latch->id);
    sb_zk_rank_children(sb_zk_job_call(job, 1), path, false);
}

/* A node with a negative number would stand before the owner. */
static void on_found(struct sb_zk_job *job)
{
    struct simba_error error;

    if (sb_zk_is_overflown(job->ranks.mine)) {
        sb_error_set(
            &error, SIMBA_ESTORE,
            "the sequence numbers of '%s' are used up: its node has to be deleted in ZooKeeper",
            job->mutex->name);
        refuse_node(job, &error);
    } else if (job->store->options.acl != SB_ZK_ACL_OPEN && !job->latch->checked) {
        check_rights(job);
    } else {
        sb_zk_find_place(job);
    }
}

/* The session may have ended while an older node was dropped, and the client may be closing: it
 * would be gone before a call that is posted as lost has ended. */
static void contest(struct sb_zk_job *job)
{
    if (!job->store->session.up)
        sb_zk_job_fail(job, ZCONNECTIONLOSS);
    else if (job->latch->node == SB_ZK_NODE_NONE)
        create_node(job);
    else if (sb_zk_succession_is_due(job))
        sb_zk_succession_take(job);
    else
        sb_zk_find(job);
}

void sb_zk_acquire(struct sb_zk_job *job)
{
    struct sb_zk_latch *latch = job->latch;

    job->missing = create_node;
    job->found = on_found;

    if (latch->node != SB_ZK_NODE_NONE && (latch->granted || latch->leaving || latch->refused))
        sb_zk_drop_node(job, contest);
    else
        contest(job);
}
