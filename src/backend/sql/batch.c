/*
 * batch.c - requests that are carried out together.
 *
 *     look     READ, LIST, and ACQUIREs that cannot win: no write lock, answered at once
 *     write    what is left, in one transaction where there are several; rows.h on stores that lock rows
 *     settle   is it still the store? then tell the others, then answer
 *
 * When one statement fails for a reason of its own, the transaction is rolled back and every job runs
 * alone, so that only the one that fails is answered with the failure.
 */
#include "backend/sql/batch.h"

#include "backend/sql/rows.h"
#include "base/alloc.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sb_batch_init(struct sb_batch *batch, const struct simba_backend_host *host,
                   struct sb_waiters *waiters)
{
    batch->host = host;
    batch->waiters = waiters;
    batch->count = 0;
}

struct sb_job *sb_batch_add(struct sb_batch *batch, struct simba_request *request,
                            int64_t deadline_ms)
{
    struct sb_job *job = &batch->jobs[batch->count++];

    assert(batch->count <= SB_BATCH_MAX);
    *job = (struct sb_job){.request = request, .deadline_ms = deadline_ms, .state = SB_JOB_WAITING};
    return job;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void answer(struct sb_batch *batch, struct sb_job *job, const struct simba_reply *reply)
{
    job->state = SB_JOB_ANSWERED;
    batch->host->reply(batch->host, job->request, reply);
    job->request = NULL;
}

void sb_batch_refuse(struct sb_batch *batch, struct sb_job *job, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    reply.error = error;
    answer(batch, job, &reply);
}

/* A time of the row, which anybody can write: none lies before the beginning of the clock. */
static int64_t at_least_zero(int64_t at_ms)
{
    return at_ms > 0 ? at_ms : 0;
}

/* The owner believes in no more than it has asked for. */
static void limit_to_request(struct sb_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = {request->mutex, request->id, request->ttl_ms,
                                       request->transition_ms, request->fence};

    if ((request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD) &&
        strcmp(job->item.record.owner_id, request->id) == 0)
        sb_sql_record_limit(&job->item.record, &claim);
}

static void answer_record(struct sb_batch *batch, struct sb_job *job)
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
        reply.ttl_left_ms = at_least_zero(record->ttl_at_ms) - record->current_db_at_ms;
        reply.transition_left_ms = record->transition_at_ms - record->current_db_at_ms;
    }
    answer(batch, job, &reply);
}

/* Whether only the job that had it is concerned: it is answered and the others go on. */
static bool is_own_failure(const struct sb_sql_failure *failure)
{
    return failure->remedy == SB_SQL_GIVE_UP;
}

/* ---- Settling ------------------------------------------------------------------------------- */

/* Half of the way to the end is years for a mutex that is renewed now and then, and days for a busy one. */
static void warn_of_version(const struct sb_batch *batch, struct sb_sql_connection *connection,
                            const struct sb_job *job)
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

static void announce(struct sb_batch *batch, struct sb_repository *r, const struct sb_job *job)
{
    const struct sb_sql_driver *driver = r->connection->driver;
    const struct simba_request *request = job->request;

    if (request->op == SIMBA_OP_ACQUIRE && batch->waiters != NULL)
        sb_waiters_note(batch->waiters, request->mutex, !job->changed);
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

static int check_store(struct sb_repository *r, bool *ret_moved, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    return driver->check != NULL ? driver->check(r->connection, ret_moved, failure) : SIMBA_OK;
}

/* Whether somebody might believe what is not so on the store that others see. Who has given back believes in nothing
 * any more, but others may wait for it: it is enough that it was done where they look. */
static bool needs_check(const struct sb_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct sb_job *job = &batch->jobs[i];

        if (job->state == SB_JOB_DONE && !(job->request->op == SIMBA_OP_RELEASE && job->changed))
            return true;
    }
    return false;
}

static int check_done(const struct sb_batch *batch, struct sb_repository *r, bool *ret_moved,
                      struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    if (needs_check(batch))
        return check_store(r, ret_moved, failure);
    return driver->check_name != NULL ? driver->check_name(r->connection, ret_moved, failure)
                                      : SIMBA_OK;
}

/* What was done on a store that others may not see. A change that they may see after all must not be answered as one
 * that was not applied, nor be made a second time. */
static void take_back(struct sb_batch *batch, struct sb_job *job, bool moved,
                      const struct simba_error *error)
{
    struct simba_error unknown = *error;

    unknown.code = SIMBA_EUNKNOWN;
    if (!moved && (job->changed || job->request->op == SIMBA_OP_GUARD))
        sb_batch_refuse(batch, job, &unknown);
    else
        job->state = SB_JOB_WAITING;
}

/* The others are told before we answer: they have been waiting. */
int sb_batch_settle(struct sb_batch *batch, struct sb_repository *r, struct sb_sql_failure *failure)
{
    bool moved = false;
    int code = check_done(batch, r, &moved, failure);

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];

        if (job->state == SB_JOB_DONE && code != SIMBA_OK)
            take_back(batch, job, moved, &failure->error);
        else if (job->state == SB_JOB_DONE)
            announce(batch, r, job);
        if (job->state == SB_JOB_DONE)
            warn_of_version(batch, r->connection, job);
    }
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_JOB_DONE)
            answer_record(batch, &batch->jobs[i]);
    return code;
}

/* What was done and not answered counts for nothing, in a transaction or without. */
static void undo(struct sb_batch *batch, struct sb_repository *r)
{
    sb_repository_rollback(r);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_JOB_DONE)
            batch->jobs[i].state = SB_JOB_WAITING;
}

/* ---- Looking -------------------------------------------------------------------------------- */

struct list {
    struct simba_mutex_status *items;
    size_t count;
    size_t room;
    int64_t now_ms;
};

static int add_to_list(void *user, const struct sb_sql_record *record)
{
    struct list *list = user;
    struct simba_mutex_status *status;
    int64_t shift_ms = list->now_ms - record->current_db_at_ms;

    if (list->count == list->room) {
        size_t room = list->room * 2 + 16;
        void *items = sb_realloc(list->items, room * sizeof *list->items);

        if (items == NULL)
            return SIMBA_ENOMEM;
        list->items = items;
        list->room = room;
    }
    status = &list->items[list->count++];
    memset(status, 0, sizeof *status);
    sb_text_copy(status->mutex, sizeof status->mutex, record->mutex);
    status->waiters = -1;
    if (!sb_sql_record_is_owned(record))
        return SIMBA_OK;
    sb_text_copy(status->owner.id, sizeof status->owner.id, record->owner_id);
    status->owner.acquired_at_ms = at_least_zero(record->acquired_at_ms) + shift_ms;
    status->owner.ttl_at_ms = at_least_zero(record->ttl_at_ms) + shift_ms;
    status->owner.transition_at_ms = record->transition_at_ms + shift_ms;
    status->owner.fence = record->fence;
    return SIMBA_OK;
}

static int compare_names(const void *left, const void *right)
{
    const struct simba_mutex_status *a = left;
    const struct simba_mutex_status *b = right;

    return strcmp(a->mutex, b->mutex);
}

/* The order of the names' bytes is not every database's own. */
static int look_at_all(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job,
                       struct sb_sql_failure *failure)
{
    struct list list = {.now_ms = simba_now_ms()};
    const struct sb_sql_sink sink = {add_to_list, &list};
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool moved;
    int code = sb_repository_list(r, &sink, failure);

    if (code == SIMBA_OK)
        code = check_store(r, &moved, failure);
    if (code == SIMBA_OK) {
        if (list.count > 1)
            qsort(list.items, list.count, sizeof *list.items, compare_names);
        reply.list = list.items;
        reply.list_count = list.count;
        answer(batch, job, &reply);
    }
    sb_free(list.items);
    return code;
}

/* Done when it was a READ, or an ACQUIRE that cannot win. */
static int look_at_one(struct sb_repository *r, struct sb_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    int code = sb_repository_get_owner(r, request->mutex, &job->item.record, failure);
    bool others;

    if (code != SIMBA_OK && code != SIMBA_ENOTFOUND)
        return code;
    job->found = code == SIMBA_OK;
    job->changed = false;
    others = job->found && sb_sql_record_is_owned(&job->item.record) &&
             (request->id == NULL || strcmp(job->item.record.owner_id, request->id) != 0);
    if (request->op == SIMBA_OP_READ || others)
        job->state = SB_JOB_DONE;
    return SIMBA_OK;
}

static int look(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job,
                struct sb_sql_failure *failure)
{
    switch (job->request->op) {
    case SIMBA_OP_LIST:
        return look_at_all(batch, r, job, failure);
    case SIMBA_OP_READ:
        return r->connection->driver->run_all == NULL ? look_at_one(r, job, failure) : SIMBA_OK;
    case SIMBA_OP_ACQUIRE:
        return r->connection->driver->looks_first && !r->connection->won
                   ? look_at_one(r, job, failure)
                   : SIMBA_OK;
    default:
        return SIMBA_OK;
    }
}

static int look_for_all(struct sb_batch *batch, struct sb_repository *r,
                        struct sb_sql_failure *failure)
{
    bool any = false;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];
        int code;

        if (job->state != SB_JOB_WAITING)
            continue;
        code = look(batch, r, job, failure);
        if (code != SIMBA_OK && is_own_failure(failure)) {
            sb_batch_refuse(batch, job, &failure->error);
        } else if (code != SIMBA_OK) {
            undo(batch, r);
            return code;
        }
        any = any || job->state == SB_JOB_DONE;
    }
    return any ? sb_batch_settle(batch, r, failure) : SIMBA_OK;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static int write_one(struct sb_repository *r, struct sb_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = {request->mutex, request->id, request->ttl_ms,
                                       request->transition_ms, request->fence};
    bool effect = false;
    int code;

    if (request->op == SIMBA_OP_ACQUIRE)
        code = sb_repository_acquire_and_get_owner(r, &claim, &effect, &job->item.record, failure);
    else if (request->op == SIMBA_OP_GUARD)
        code = sb_repository_guard(r, &claim, &effect, &job->item.record, failure);
    else
        code = sb_repository_release(r, request->mutex, request->id, request->revision, &effect,
                                     &job->item.record, failure);
    if (code != SIMBA_OK && code != SIMBA_ENOTFOUND)
        return code;
    job->found = code == SIMBA_OK;
    job->changed = effect && request->op != SIMBA_OP_GUARD;
    job->state = SB_JOB_DONE;
    return SIMBA_OK;
}

/* Each in a transaction of its own. */
static int write_apart(struct sb_batch *batch, struct sb_repository *r,
                       struct sb_sql_failure *failure)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];
        int code;

        if (job->state != SB_JOB_WAITING)
            continue;
        code = write_one(r, job, failure);
        if (code == SIMBA_OK)
            code = sb_batch_settle(batch, r, failure);
        else if (is_own_failure(failure) || code == SIMBA_EUNKNOWN)
            sb_batch_refuse(batch, job, &failure->error);
        if (code != SIMBA_OK && !is_own_failure(failure))
            return code;
    }
    return SIMBA_OK;
}

static int write_in_transaction(struct sb_batch *batch, struct sb_repository *r,
                                struct sb_sql_failure *failure)
{
    int code = sb_repository_begin(r, failure);

    for (size_t i = 0; i < batch->count && code == SIMBA_OK; i++)
        if (batch->jobs[i].state == SB_JOB_WAITING)
            code = write_one(r, &batch->jobs[i], failure);
    if (code == SIMBA_OK)
        code = sb_repository_commit(r, failure);
    if (code != SIMBA_OK)
        undo(batch, r);
    return code;
}

static int write_together(struct sb_batch *batch, struct sb_repository *r,
                          struct sb_sql_failure *failure)
{
    int code = write_in_transaction(batch, r, failure);

    if (code == SIMBA_OK)
        return sb_batch_settle(batch, r, failure);
    if (code == SIMBA_EUNKNOWN)
        sb_batch_fail(batch, &failure->error);
    return is_own_failure(failure) ? write_apart(batch, r, failure) : code;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static size_t count_waiting(const struct sb_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_JOB_WAITING)
            count++;
    return count;
}

static int write_all(struct sb_batch *batch, struct sb_repository *r,
                     struct sb_sql_failure *failure)
{
    if (r->connection->driver->run_all != NULL)
        return sb_rows_write(batch, r, failure);
    if (count_waiting(batch) > 1)
        return write_together(batch, r, failure);
    return write_apart(batch, r, failure);
}

int sb_batch_run(struct sb_batch *batch, struct sb_repository *repository,
                 struct sb_sql_failure *failure)
{
    int code = look_for_all(batch, repository, failure);

    if (code == SIMBA_OK)
        code = write_all(batch, repository, failure);
    if (code != SIMBA_OK)
        repository->connection->won = false;
    return code;
}

bool sb_batch_is_over(const struct sb_batch *batch)
{
    return count_waiting(batch) == 0;
}

int64_t sb_batch_deadline_ms(const struct sb_batch *batch)
{
    int64_t deadline_ms = SIMBA_INFINITE;

    for (size_t i = 0; i < batch->count; i++) {
        const struct sb_job *job = &batch->jobs[i];

        if (job->state == SB_JOB_WAITING && job->deadline_ms < deadline_ms)
            deadline_ms = job->deadline_ms;
    }
    return deadline_ms;
}

void sb_batch_expire(struct sb_batch *batch, int64_t now_ms, const struct simba_error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];

        if (job->state == SB_JOB_WAITING && job->deadline_ms <= now_ms)
            sb_batch_refuse(batch, job, error);
    }
}

void sb_batch_fail(struct sb_batch *batch, const struct simba_error *error)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_JOB_WAITING)
            sb_batch_refuse(batch, &batch->jobs[i], error);
}
