/*
 * batch.c - the jobs of a batch and their answers. Must not know how they are carried out.
 */
#include "backend/sql/batch.h"

#include "base/check.h"
#include "base/time.h"

#include <string.h>

void sb_sql_batch_init(struct sb_sql_batch *batch, const struct simba_backend_host *host,
                       struct sb_sql_waiters *waiters)
{
    batch->host = host;
    batch->waiters = waiters;
    batch->count = 0;
}

struct sb_sql_job *sb_sql_batch_add(struct sb_sql_batch *batch, struct simba_request *request,
                                    int64_t deadline_ms)
{
    struct sb_sql_job *job = &batch->jobs[batch->count++];

    SB_CHECK(batch->count <= SB_SQL_BATCH_MAX, "a batch takes no more jobs than it has room for");
    *job = (struct sb_sql_job){
        .request = request, .deadline_ms = deadline_ms, .state = SB_SQL_JOB_WAITING};
    return job;
}

size_t sb_sql_batch_waiting(const struct sb_sql_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_WAITING)
            count++;
    return count;
}

/* ---- Answers --------------------------------------------------------------------------------- */

void sb_sql_batch_answer(struct sb_sql_batch *batch, struct sb_sql_job *job,
                         const struct simba_reply *reply)
{
    job->state = SB_SQL_JOB_ANSWERED;
    batch->host->reply(batch->host, job->request, reply);
    job->request = NULL;
}

void sb_sql_batch_refuse(struct sb_sql_batch *batch, struct sb_sql_job *job,
                         const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    reply.error = error;
    sb_sql_batch_answer(batch, job, &reply);
}

/* The owner believes in no more than it has asked for. */
static void limit_to_request(struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = {request->mutex, request->id, request->ttl_ms,
                                       request->transition_ms, request->fence};

    if ((request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD) &&
        strcmp(job->item.record.owner_id, request->id) == 0)
        sb_sql_record_limit(&job->item.record, &claim);
}

static void answer_record(struct sb_sql_batch *batch, struct sb_sql_job *job)
{
    const struct sb_sql_record *record = &job->item.record;
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.missed =
        job->request->op == SIMBA_OP_RELEASE && job->request->revision > 0 && !job->changed;
    if (job->found)
        reply.revision = record->version;
    if (job->found && sb_sql_record_is_owned(record)) {
        limit_to_request(job);
        reply.owner = record->owner_id;
        reply.fence = record->fence;
        reply.revision_counts = true;
        reply.ttl_left_ms = sb_max(0, record->ttl_at_ms) - record->current_db_at_ms;
        reply.transition_left_ms = record->transition_at_ms - record->current_db_at_ms;
    }
    sb_sql_batch_answer(batch, job, &reply);
}

/* ---- Settling -------------------------------------------------------------------------------- */

/* Half of the way to the end is years for a mutex that is renewed now and then, and days for a busy
 * one. */
static void warn_of_version(const struct sb_sql_batch *batch, struct sb_sql_connection *connection,
                            const struct sb_sql_job *job)
{
    const struct sb_sql_record *record = &job->item.record;

    if (connection->widen_version == NULL || connection->warned_of_version || !job->found ||
        record->version <= connection->version_max / 2)
        return;
    connection->warned_of_version = true;
    batch->host->log(batch->host, SIMBA_LOG_WARN,
                     "the version of the mutex \"%s\" is %llu, and at %llu nobody can own it any "
                     "more; run: %s",
                     job->request->mutex, (unsigned long long)record->version,
                     (unsigned long long)connection->version_max, connection->widen_version);
}

static void announce(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                     const struct sb_sql_job *job)
{
    const struct sb_sql_driver *driver = r->connection->driver;
    const struct simba_request *request = job->request;

    if (request->op == SIMBA_OP_ACQUIRE && batch->waiters != NULL)
        sb_sql_waiters_note(batch->waiters, request->mutex, !job->changed);
    if (request->op == SIMBA_OP_ACQUIRE)
        r->connection->won = job->changed;
    if (job->changed || request->op == SIMBA_OP_GUARD)
        r->connection->has_written = true;
    if (!job->changed && request->op == SIMBA_OP_ACQUIRE && driver->contended != NULL)
        driver->contended(r->connection);
    if (job->changed && driver->announce != NULL)
        driver->announce(r->connection,
                         request->op == SIMBA_OP_RELEASE ? SIMBA_NOTICE_RELEASED
                                                         : SIMBA_NOTICE_CHANGED,
                         request->mutex);
}

/* Whether somebody might believe what is not so on the store that others see. Who has given back
 * believes in nothing any more, but others may wait for it: it is enough that it was done where
 * they look. */
static bool needs_check(const struct sb_sql_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_DONE &&
            !(job->request->op == SIMBA_OP_RELEASE && job->changed))
            return true;
    }
    return false;
}

static int check_done(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      bool *ret_moved, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    if (needs_check(batch))
        return sb_sql_repository_check(r, ret_moved, failure);
    return driver->check_name != NULL ? driver->check_name(r->connection, ret_moved, failure)
                                      : SIMBA_OK;
}

/* What was done on a store that others may not see. A change that they may see after all must not
 * be answered as one that was not applied, nor be made a second time. */
static void take_back(struct sb_sql_batch *batch, struct sb_sql_job *job, bool moved,
                      const struct simba_error *error)
{
    struct simba_error unknown = *error;

    unknown.code = SIMBA_EUNKNOWN;
    if (!moved && (job->changed || job->request->op == SIMBA_OP_GUARD))
        sb_sql_batch_refuse(batch, job, &unknown);
    else
        job->state = SB_SQL_JOB_WAITING;
}

/* The others are told before we answer: they have been waiting. */
int sb_sql_batch_settle(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                        struct sb_sql_failure *failure)
{
    bool moved = false;
    int code = check_done(batch, r, &moved, failure);

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_DONE && code != SIMBA_OK)
            take_back(batch, job, moved, &failure->error);
        else if (job->state == SB_SQL_JOB_DONE)
            announce(batch, r, job);
        if (job->state == SB_SQL_JOB_DONE)
            warn_of_version(batch, r->connection, job);
    }
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_DONE)
            answer_record(batch, &batch->jobs[i]);
    return code;
}

/* ---- What is still waiting ------------------------------------------------------------------- */

bool sb_sql_batch_is_over(const struct sb_sql_batch *batch)
{
    return sb_sql_batch_waiting(batch) == 0;
}

int64_t sb_sql_batch_deadline_ms(const struct sb_sql_batch *batch)
{
    int64_t deadline_ms = SIMBA_INFINITE;

    for (size_t i = 0; i < batch->count; i++) {
        const struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_WAITING && job->deadline_ms < deadline_ms)
            deadline_ms = job->deadline_ms;
    }
    return deadline_ms;
}

void sb_sql_batch_expire(struct sb_sql_batch *batch, int64_t now_ms,
                         const struct simba_error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_WAITING && job->deadline_ms <= now_ms)
            sb_sql_batch_refuse(batch, job, error);
    }
}

void sb_sql_batch_fail(struct sb_sql_batch *batch, const struct simba_error *error)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_WAITING)
            sb_sql_batch_refuse(batch, &batch->jobs[i], error);
}
