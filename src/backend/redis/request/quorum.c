/*
 * quorum.c - WAIT, and what becomes of leases that too few replicas have.
 *
 * An acquire is given back and has failed. A guard stays, but the owner must not believe in it: a replica
 * that takes over may know the older end of the lease only. So its outcome is unknown.
 */
#include "backend/redis/request/quorum.h"

#include "backend/redis/failure.h"
#include "base/alloc.h"
#include "base/error.h"

#include <hiredis/hiredis.h>

#define GIVE_BACK_SHARE 4 /* what part of a request's time is left for giving back */

enum verdict { OPEN, ENOUGH, REFUSED, LOST };

struct sb_redis_quorum {
    struct sb_redis_command command; /* first: WAIT */
    simba_backend *store;
    unsigned references; /* of the node or the WAIT, and of each job */
    enum verdict verdict;
    struct simba_error reason;  /* unless it is ENOUGH */
    struct sb_redis_call *held; /* leases that wait for the verdict */
};

static void release(struct sb_redis_quorum *quorum)
{
    if (--quorum->references == 0)
        sb_free(quorum);
}

/* ---- Verdict -------------------------------------------------------------------------------- */

static void settle(struct sb_redis_quorum *quorum, struct sb_redis_call *job)
{
    if (quorum->verdict == ENOUGH)
        sb_redis_call_succeed(job, job->record);
    else if (quorum->verdict == REFUSED && job->op == SIMBA_OP_ACQUIRE)
        sb_redis_call_give_back(job);
    else
        sb_redis_call_lose(job, &quorum->reason);
}

static void decide(struct sb_redis_quorum *quorum, enum verdict verdict)
{
    quorum->verdict = verdict;
    while (quorum->held != NULL) {
        struct sb_redis_call *job = quorum->held;

        quorum->held = job->next;
        settle(quorum, job);
    }
}

static void lose(struct sb_redis_quorum *quorum)
{
    sb_error_set(&quorum->reason, SIMBA_EUNKNOWN,
                 "nobody knows whether %lld replicas have the lease",
                 (long long)quorum->store->options.wait_replicas);
    decide(quorum, LOST);
}

static void count(struct sb_redis_quorum *quorum, long long replicas)
{
    long long wanted = quorum->store->options.wait_replicas;

    sb_error_set(&quorum->reason, SIMBA_EUNAVAILABLE,
                 "%lld of %lld replicas have acknowledged the lease", replicas, wanted);
    decide(quorum, replicas >= wanted ? ENOUGH : REFUSED);
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_quorum *quorum = (struct sb_redis_quorum *)command;
    const redisReply *reply = answer->reply;

    if (reply == NULL) {
        lose(quorum);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        sb_redis_fail(answer->place, reply->str, &quorum->reason);
        decide(quorum, REFUSED);
    } else {
        count(quorum, reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0);
    }
    release(quorum);
}

const struct simba_error *sb_redis_quorum_reason(const struct sb_redis_quorum *quorum)
{
    return &quorum->reason;
}

void sb_redis_quorum_hold(struct sb_redis_call *job, const struct sb_redis_record *record)
{
    struct sb_redis_quorum *quorum = job->quorum;

    *job->record = *record;
    if (quorum->verdict != OPEN) {
        settle(quorum, job);
        return;
    }
    job->next = quorum->held;
    quorum->held = job;
}

/* ---- Asking --------------------------------------------------------------------------------- */

static bool is_concerned(const struct sb_redis_call *job)
{
    return job->store->options.wait_replicas > 0 &&
           (job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_GUARD);
}

/* When the last moment of a command is, however often its deadline is put off. */
static int64_t end_of(const struct sb_redis_command *command)
{
    return command->until_ms > command->deadline_ms ? command->until_ms : command->deadline_ms;
}

static struct sb_redis_quorum *create(const struct sb_redis_call *job)
{
    struct sb_redis_quorum *quorum = sb_alloc_zero(sizeof *quorum);

    if (quorum == NULL)
        return NULL;
    quorum->store = job->store;
    quorum->references = 1;
    quorum->command.answered = on_answered;
    quorum->command.waits = true;
    quorum->command.deadline_ms = job->command.deadline_ms;
    quorum->command.until_ms = end_of(&job->command);
    return quorum;
}

bool sb_redis_quorum_prepare(struct sb_redis_call *job)
{
    if (!is_concerned(job))
        return true;
    if (job->record == NULL)
        job->record = sb_alloc(sizeof *job->record);
    if (job->node->quorum == NULL)
        job->node->quorum = create(job);
    return job->record != NULL && job->node->quorum != NULL;
}

void sb_redis_quorum_join(struct sb_redis_call *job)
{
    struct sb_redis_quorum *quorum = job->node->quorum;

    if (!is_concerned(job))
        return;
    quorum->references++;
    if (job->command.deadline_ms < quorum->command.deadline_ms)
        quorum->command.deadline_ms = job->command.deadline_ms;
    if (end_of(&job->command) < quorum->command.until_ms)
        quorum->command.until_ms = end_of(&job->command);
    job->quorum = quorum;
}

void sb_redis_quorum_leave(struct sb_redis_call *job)
{
    if (job->quorum != NULL)
        release(job->quorum);
    job->quorum = NULL;
}

void sb_redis_quorum_forget(struct sb_redis_call *job)
{
    if (job->refused_by != NULL)
        release(job->refused_by);
    job->refused_by = NULL;
}

/* No longer than those have who wait for it, with some time to give back what they got. */
static int64_t patience_ms(const struct sb_redis_quorum *quorum)
{
    int64_t left_ms = quorum->command.deadline_ms - simba_now_ms();
    int64_t most_ms = left_ms - left_ms / GIVE_BACK_SHARE;

    if (most_ms > quorum->store->options.wait_timeout_ms)
        return quorum->store->options.wait_timeout_ms;
    return most_ms > 1 ? most_ms : 1; /* 0 would be for ever */
}

void sb_redis_quorum_ask(struct sb_redis_node *node)
{
    struct sb_redis_quorum *quorum = node->quorum;
    struct sb_redis_digits replicas;
    struct sb_redis_digits timeout;
    struct sb_redis_argument arguments[3] = {{"WAIT", 4}};
    struct simba_error error;

    if (quorum == NULL)
        return;
    arguments[1] = sb_redis_argument_number(quorum->store->options.wait_replicas, &replicas);
    arguments[2] = sb_redis_argument_number(patience_ms(quorum), &timeout);
    if (quorum->references > 1 && sb_redis_reconnecting_send(node->commands, &quorum->command,
                                                             arguments, 3, &error) == SIMBA_OK)
        node->quorum = NULL;
    else
        sb_redis_quorum_abandon(node);
}

void sb_redis_quorum_abandon(struct sb_redis_node *node)
{
    struct sb_redis_quorum *quorum = node->quorum;

    if (quorum == NULL)
        return;
    node->quorum = NULL;
    lose(quorum);
    release(quorum);
}
