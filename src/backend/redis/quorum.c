/*
 * quorum.c - WAIT, and what becomes of leases that too few replicas have.
 *
 * An acquire is given back and has failed. A guard stays, but the owner must not believe in it: a replica
 * that takes over may know the older end of the lease only. So its outcome is unknown.
 */
#include "backend/redis/quorum.h"

#include "base/alloc.h"
#include "base/error.h"

#include <hiredis/hiredis.h>

enum verdict { OPEN, ENOUGH, TOO_FEW, LOST };

struct sb_quorum {
    struct sb_command command; /* first: WAIT */
    simba_backend *store;
    unsigned references; /* of the node or the WAIT, and of each job */
    enum verdict verdict;
    long long replicas;  /* that have acknowledged */
    struct sb_job *held; /* leases that wait for the verdict */
};

static void release(struct sb_quorum *quorum)
{
    if (--quorum->references == 0)
        sb_free(quorum);
}

/* ---- Verdict -------------------------------------------------------------------------------- */

static void settle(struct sb_quorum *quorum, struct sb_job *job)
{
    struct simba_error error;

    if (quorum->verdict == ENOUGH) {
        sb_job_succeed(job, &job->record);
        return;
    }
    if (quorum->verdict == TOO_FEW && job->op == SIMBA_OP_ACQUIRE) {
        sb_job_give_back(job, quorum->replicas);
        return;
    }
    sb_error_set(&error, SIMBA_EUNKNOWN, "%lld of %lld replicas have acknowledged the lease",
                 quorum->replicas, (long long)quorum->store->options.wait_replicas);
    sb_job_lose(job, &error);
}

static void decide(struct sb_quorum *quorum, enum verdict verdict)
{
    quorum->verdict = verdict;
    while (quorum->held != NULL) {
        struct sb_job *job = quorum->held;

        quorum->held = job->next;
        settle(quorum, job);
    }
}

static void on_answered(struct sb_command *command, const struct sb_answer *answer)
{
    struct sb_quorum *quorum = (struct sb_quorum *)command;
    const redisReply *reply = answer->reply;

    if (reply == NULL) {
        decide(quorum, LOST);
    } else if (reply->type != REDIS_REPLY_INTEGER) {
        decide(quorum, TOO_FEW);
    } else {
        quorum->replicas = reply->integer;
        decide(quorum, reply->integer >= quorum->store->options.wait_replicas ? ENOUGH : TOO_FEW);
    }
    release(quorum);
}

void sb_quorum_hold(struct sb_job *job, const struct sb_record *record)
{
    struct sb_quorum *quorum = job->quorum;

    job->record = *record;
    if (quorum->verdict != OPEN) {
        settle(quorum, job);
        return;
    }
    job->next = quorum->held;
    quorum->held = job;
}

/* ---- Asking --------------------------------------------------------------------------------- */

static bool is_concerned(const struct sb_job *job)
{
    return job->store->options.wait_replicas > 0 &&
           (job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_GUARD);
}

bool sb_quorum_prepare(struct sb_job *job)
{
    struct sb_quorum *quorum;

    if (!is_concerned(job) || job->node->quorum != NULL)
        return true;
    quorum = sb_alloc_zero(sizeof *quorum);
    if (quorum == NULL)
        return false;
    quorum->store = job->store;
    quorum->references = 1;
    quorum->command.answered = on_answered;
    quorum->command.deadline_ms = job->command.deadline_ms;
    job->node->quorum = quorum;
    return true;
}

void sb_quorum_join(struct sb_job *job)
{
    struct sb_quorum *quorum = job->node->quorum;

    if (!is_concerned(job))
        return;
    quorum->references++;
    if (job->command.deadline_ms < quorum->command.deadline_ms)
        quorum->command.deadline_ms = job->command.deadline_ms;
    job->quorum = quorum;
}

void sb_quorum_leave(struct sb_job *job)
{
    if (job->quorum != NULL)
        release(job->quorum);
    job->quorum = NULL;
}

void sb_quorum_ask(struct sb_node *node)
{
    struct sb_quorum *quorum = node->quorum;
    struct sb_digits replicas;
    struct sb_digits timeout;
    struct sb_argument arguments[3] = {{"WAIT", 4}};
    struct simba_error error;

    if (quorum == NULL)
        return;
    node->quorum = NULL;
    arguments[1] = sb_argument_number(quorum->store->options.wait_replicas, &replicas);
    arguments[2] = sb_argument_number(quorum->store->options.wait_timeout_ms, &timeout);
    if (quorum->references > 1 &&
        sb_link_send(node->commands, &quorum->command, arguments, 3, &error) == SIMBA_OK)
        return;
    decide(quorum, LOST);
    release(quorum);
}
