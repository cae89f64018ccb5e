/*
 * rights.c - whether the nodes above a latch protect it, where acl=creator promises that.
 *
 * Anybody may have made them before, with rights for all: who may create or delete below a mutex takes it away. So their
 * ACLs are compared with that of the latch, which the server made for the client's own user: nobody else may create,
 * delete or administer. While the latch is there they have children and cannot be exchanged, and only that user may
 * change their rights: once for each latch is enough. What lies above them does not matter: who has rights there can at
 * most remove them while they are empty.
 */
#include "backend/zookeeper/job.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

enum { OWN, MUTEX, BASE, COUNT };

bool sb_zk_job_must_check_rights(const struct sb_zk_job *job)
{
    return job->op == SIMBA_OP_ACQUIRE && job->store->options.acl != SB_ZK_ACL_OPEN &&
           !job->latch->checked;
}

static bool has_name(const struct sb_zk_call *call, const char *name)
{
    for (size_t i = 0; i < call->count; i++)
        if (strcmp(call->names[i], name) == 0)
            return true;
    return false;
}

/* Who may change what is below a node and is not the client's user; NULL: nobody. */
static const char *find_stranger(const struct sb_zk_job *job, const struct sb_zk_call *parent)
{
    for (size_t i = 0; i < parent->count; i++)
        if (!has_name(&job->calls[OWN], parent->names[i]))
            return parent->names[i];
    return NULL;
}

static void refuse(struct sb_zk_job *job, const char *path, const char *stranger)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_EDENIED,
                 "acl=creator: the ACL of the node %s lets %s create, delete or administer; give "
                 "these rights to the user of the URL alone, or delete the node",
                 path, stranger);
    job->latch->leaving = true;
    sb_zk_job_fail_with(job, &error);
}

static int find_failure(const struct sb_zk_job *job)
{
    for (size_t i = 0; i < COUNT; i++)
        if (job->calls[i].code != ZOK)
            return job->calls[i].code;
    return ZOK;
}

static void judge(struct sb_zk_job *job)
{
    const char *in_mutex = find_stranger(job, &job->calls[MUTEX]);
    const char *in_base = find_stranger(job, &job->calls[BASE]);
    char path[SB_ZK_PATH_SIZE];

    sb_zk_mutex_path(path, job->store->options.base, job->place->mutex);
    if (in_base != NULL) {
        refuse(job, job->store->options.base, in_base);
    } else if (in_mutex != NULL) {
        refuse(job, path, in_mutex);
    } else {
        job->latch->checked = true;
        sb_zk_job_judge(job);
    }
}

/* The job may be gone when it has been judged. */
static void on_rights(struct sb_zk_job *job)
{
    struct sb_zk_call calls[COUNT];
    int code = find_failure(job);

    memcpy(calls, job->calls, sizeof calls);
    if (code != ZOK)
        sb_zk_job_fail(job, code);
    else
        judge(job);
    for (size_t i = 0; i < COUNT; i++)
        sb_zk_free_names(calls[i].names, calls[i].count);
}

void sb_zk_job_check_rights(struct sb_zk_job *job)
{
    const char *base = job->store->options.base;
    char path[SB_ZK_PATH_SIZE];

    job->step = on_rights;
    sb_zk_node_path(path, base, job->place->mutex, job->latch->name);
    sb_zk_name_masters(sb_zk_job_call(job, OWN), path);
    sb_zk_mutex_path(path, base, job->place->mutex);
    sb_zk_name_masters(sb_zk_job_call(job, MUTEX), path);
    sb_zk_name_masters(sb_zk_job_call(job, BASE), base);
}
