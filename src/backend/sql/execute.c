/*
 * execute.c - one attempt at a batch.
 *
 *     read     READ, LIST, and ACQUIREs that cannot win: no write lock, answered at once
 *     write    the rest, in one transaction if they are several; rows.c on stores that lock rows
 *     settle   is it still the store? then tell the others, then answer
 *
 * When one statement fails for a reason of its own, the transaction is rolled back and every job
 * runs alone, so that only the one that fails is answered with the failure.
 */
#include "backend/sql/batch.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000000 /* in the list of all mutexes */
#define JOIN_MS 200       /* an ACQUIRE that cannot win waits so long for a lock, to get a place */

/* Whether only the job that had it is concerned: it is answered and the others go on. */
static bool is_own_failure(const struct sb_sql_failure *failure)
{
    return failure->remedy == SB_SQL_GIVE_UP;
}

/* What was done and not answered counts for nothing. */
static void undo(struct sb_sql_batch *batch, struct sb_sql_repository *r)
{
    sb_sql_repository_rollback(r);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_DONE)
            batch->jobs[i].state = SB_SQL_JOB_WAITING;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct list {
    struct simba_mutex_status *items;
    size_t count;
    size_t room;
    int64_t now_ms;
};

static int add_item(struct list *list, const struct sb_sql_record *record,
                    struct simba_mutex_status **ret_status)
{
    struct simba_mutex_status *status;

    if (list->count == NAMES_MAX)
        return SIMBA_ESTORE;
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
    *ret_status = status;
    return SIMBA_OK;
}

static int add_waiter(void *user, const struct sb_sql_record *record)
{
    struct list *list = user;
    struct simba_mutex_status *status;
    int code = add_item(list, record, &status);

    if (code != SIMBA_OK)
        return code;
    sb_text_copy(status->owner.id, sizeof status->owner.id, record->owner_id);
    status->owner.acquired_at_ms =
        sb_later(list->now_ms, sb_time_between(record->acquired_at_ms, record->current_db_at_ms));
    return SIMBA_OK;
}

static int add_mutex(void *user, const struct sb_sql_record *record)
{
    struct list *list = user;
    struct simba_mutex_status *status;
    int64_t shift_ms = sb_time_between(list->now_ms, record->current_db_at_ms);
    int code = add_item(list, record, &status);

    if (code != SIMBA_OK)
        return code;
    if (!sb_sql_record_is_owned(record))
        return SIMBA_OK;
    sb_text_copy(status->owner.id, sizeof status->owner.id, record->owner_id);
    status->owner.acquired_at_ms = sb_later(sb_max(0, record->acquired_at_ms), shift_ms);
    status->owner.ttl_at_ms = sb_later(sb_max(0, record->ttl_at_ms), shift_ms);
    status->owner.transition_at_ms = sb_later(record->transition_at_ms, shift_ms);
    status->owner.fence = record->fence;
    if (record->since_ms > 0)
        status->since_ms = sb_later(record->since_ms, shift_ms);
    return SIMBA_OK;
}

static int compare_names(const void *left, const void *right)
{
    const struct simba_mutex_status *a = left;
    const struct simba_mutex_status *b = right;

    return strcmp(a->mutex, b->mutex);
}

/* The order of the names' bytes is not every database's own. */
static int list_all(struct sb_sql_batch *batch, struct sb_sql_repository *r, struct sb_sql_job *job,
                    struct sb_sql_failure *failure)
{
    struct list list = {.now_ms = simba_now_ms()};
    const struct sb_sql_sink sink = {.row = add_mutex, .user = &list};
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool moved;
    int code = sb_sql_repository_list(r, &sink, failure);

    if (code == SIMBA_ESTORE && list.count == NAMES_MAX)
        sb_error_set(&failure->error, code, "the store lists more than %d mutexes", NAMES_MAX);
    if (code == SIMBA_OK)
        code = sb_sql_repository_check(r, &moved, failure);
    if (code == SIMBA_OK) {
        if (list.count > 1)
            qsort(list.items, list.count, sizeof *list.items, compare_names);
        reply.list = list.items;
        reply.list_count = list.count;
        sb_sql_batch_answer(batch, job, &reply);
    }
    sb_free(list.items);
    return code;
}

/* Without a table of waiters nobody is known to wait. */
static int list_waiters(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                        struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    struct list list = {.now_ms = simba_now_ms()};
    const struct sb_sql_sink sink = {.row = add_waiter, .user = &list};
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_error error;
    int code;

    if (!r->connection->has_queue) {
        sb_error_set(&error, SIMBA_EUNSUPPORTED, "the database has no table of waiters");
        sb_sql_batch_refuse(batch, job, &error);
        return SIMBA_OK;
    }
    code = sb_sql_repository_queue(r, job->request->mutex, &sink, failure);
    if (code == SIMBA_OK) {
        reply.list = list.items;
        reply.list_count = list.count;
        sb_sql_batch_answer(batch, job, &reply);
    }
    sb_free(list.items);
    return code;
}

/* Whether the request is an ACQUIRE that cannot win. */
static bool is_beaten(const struct simba_request *request, const struct sb_sql_record *record)
{
    if (request->op != SIMBA_OP_ACQUIRE)
        return false;
    if (sb_sql_record_is_owned(record))
        return strcmp(record->owner_id, request->id) != 0;
    return request->reserve_ms > 0 && record->reserved_until_ms > 0;
}

/* Done when it was a READ, or an ACQUIRE that cannot win and has its place in the queue. */
static int read_one(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                    struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    struct sb_sql_record *record = &job->item.record;
    struct sb_sql_places *places =
        request->op == SIMBA_OP_ACQUIRE ? sb_sql_batch_places(batch, r) : NULL;
    int code = places != NULL
                   ? sb_sql_repository_get_place(r, request->mutex, request->id, record, failure)
                   : sb_sql_repository_get_owner(r, request->mutex, record, failure);

    if (code != SIMBA_OK && code != SIMBA_ENOTFOUND)
        return code;
    job->found = code == SIMBA_OK;
    job->changed = false;
    job->beaten = job->found && is_beaten(request, record);
    if (request->op == SIMBA_OP_READ ||
        (job->beaten &&
         (places == NULL ||
          (record->place > 0 && sb_sql_places_has(places, request->mutex, request->id)))))
        job->state = SB_SQL_JOB_DONE;
    return SIMBA_OK;
}

static bool looks_first(struct sb_sql_connection *connection)
{
    const struct sb_sql_driver *driver = connection->driver;

    return driver->reads_first && !connection->won &&
           !(driver->is_called != NULL && driver->is_called(connection));
}

static int read_first(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    switch (job->request->op) {
    case SIMBA_OP_LIST:
        return list_all(batch, r, job, failure);
    case SIMBA_OP_QUEUE:
        return list_waiters(batch, r, job, failure);
    case SIMBA_OP_GET_PROPERTY:
    case SIMBA_OP_SET_PROPERTY:
        return sb_sql_batch_property(batch, r, job, failure);
    case SIMBA_OP_FORGET:
    case SIMBA_OP_RAISE:
        return sb_sql_batch_tend(batch, r, job, failure);
    case SIMBA_OP_INSPECT:
        return sb_sql_batch_inspect(batch, r, job, failure);
    case SIMBA_OP_READ:
        return r->connection->driver->run_all == NULL ? read_one(batch, r, job, failure) : SIMBA_OK;
    case SIMBA_OP_ACQUIRE:
        return looks_first(r->connection) ? read_one(batch, r, job, failure) : SIMBA_OK;
    default:
        return SIMBA_OK;
    }
}

/* Whether another client has locked what only this job is about. On a store with one lock for all
 * it stops the others as well. */
static bool is_own_lock(const struct sb_sql_repository *r, const struct sb_sql_failure *failure)
{
    return failure->remedy == SB_SQL_RETRY && r->connection->driver->run_all != NULL;
}

static bool is_for_rows(enum simba_op op)
{
    return op == SIMBA_OP_READ || op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD ||
           op == SIMBA_OP_RELEASE;
}

/* Waits for one lock at most: the writes come behind it. */
static int read_all(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                    struct sb_sql_failure *failure)
{
    bool any = false;
    bool locked = false;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];
        int code;

        if (job->state != SB_SQL_JOB_WAITING)
            continue;
        job->untried = job->blocked = locked && !is_for_rows(job->request->op);
        if (job->blocked)
            continue;
        code = read_first(batch, r, job, failure);
        if (code != SIMBA_OK && is_own_failure(failure)) {
            sb_sql_batch_refuse(batch, job, &failure->error);
        } else if (code != SIMBA_OK && is_own_lock(r, failure)) {
            job->blocked = locked = true;
        } else if (code != SIMBA_OK) {
            undo(batch, r);
            return code;
        }
        any = any || job->state == SB_SQL_JOB_DONE;
    }
    return any ? sb_sql_batch_settle(batch, r, failure) : SIMBA_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Whatever becomes of an ACQUIRE that has not won, its contender may have a place. */
static int acquire(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                   struct sb_sql_job *job, bool *ret_acquired, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = sb_sql_claim_of(batch, r, request);
    struct sb_sql_places *places = sb_sql_batch_places(batch, r);
    int code = sb_sql_repository_acquire_and_get_owner(r, &claim, ret_acquired, &job->item.record,
                                                       failure);

    if (places != NULL && !*ret_acquired)
        sb_sql_places_enter(places, request->mutex, request->id);
    return code;
}

static int release(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                   struct sb_sql_job *job, bool *ret_released, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = sb_sql_claim_of(batch, r, request);
    struct sb_sql_waiter *next = job->item.next;

    for (size_t i = 0; i < SB_SQL_TOLD; i++)
        next[i].id[0] = '\0';
    job->left = claim.queued || sb_sql_leaves(request);
    if (!sb_sql_leaves(request))
        return sb_sql_repository_hand_on(r, &claim, request->revision, ret_released,
                                         &job->item.record, next, failure);
    return sb_sql_repository_leave(r, &claim, next, failure);
}

static int write_one(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                     struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = sb_sql_claim_of(batch, r, request);
    bool effect = false;
    int code;

    if (request->op == SIMBA_OP_ACQUIRE)
        code = acquire(batch, r, job, &effect, failure);
    else if (request->op == SIMBA_OP_GUARD)
        code = sb_sql_repository_guard(r, &claim, &effect, &job->item.record, failure);
    else
        code = release(batch, r, job, &effect, failure);
    if (code != SIMBA_OK && code != SIMBA_ENOTFOUND)
        return code;
    job->found = code == SIMBA_OK && !sb_sql_leaves(request);
    job->changed = effect && request->op != SIMBA_OP_GUARD;
    job->state = SB_SQL_JOB_DONE;
    return SIMBA_OK;
}

/* Each in a transaction of its own. */
static int write_apart(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                       struct sb_sql_failure *failure)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];
        int code;

        if (job->state != SB_SQL_JOB_WAITING)
            continue;
        code = write_one(batch, r, job, failure);
        if (code == SIMBA_OK)
            code = sb_sql_batch_settle(batch, r, failure);
        else if (is_own_failure(failure) || code == SIMBA_EUNKNOWN)
            sb_sql_batch_refuse(batch, job, &failure->error);
        if (code != SIMBA_OK && !is_own_failure(failure))
            return code;
    }
    return SIMBA_OK;
}

static int write_in_transaction(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                                struct sb_sql_failure *failure)
{
    int code = sb_sql_repository_begin(r, failure);

    for (size_t i = 0; i < batch->count && code == SIMBA_OK; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_WAITING)
            code = write_one(batch, r, &batch->jobs[i], failure);
    if (code == SIMBA_OK)
        code = sb_sql_repository_commit(r, failure);
    if (code != SIMBA_OK)
        undo(batch, r);
    return code;
}

static int write_together(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                          struct sb_sql_failure *failure)
{
    int code = write_in_transaction(batch, r, failure);

    if (code == SIMBA_OK)
        return sb_sql_batch_settle(batch, r, failure);
    if (code == SIMBA_EUNKNOWN)
        sb_sql_batch_fail(batch, &failure->error);
    return is_own_failure(failure) ? write_apart(batch, r, failure) : code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Where there is no table of waiters, there is no place to give up. */
static void answer_leaves(struct sb_sql_batch *batch)
{
    const struct simba_reply reply = SIMBA_REPLY_INIT;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state != SB_SQL_JOB_WAITING || !sb_sql_leaves(job->request))
            continue;
        if (batch->places != NULL)
            sb_sql_places_leave(batch->places, job->request->mutex, job->request->id);
        sb_sql_batch_answer(batch, job, &reply);
    }
}

/* An ACQUIRE that cannot win and has met a lock for so long is answered without a place. Nobody
 * calls a contender that is not in the queue, so it is told to try again at once. */
static void answer_beaten(struct sb_sql_batch *batch, struct sb_sql_repository *r)
{
    struct sb_sql_failure ignored;
    int64_t now_ms = simba_now_ms();
    bool any = false;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state != SB_SQL_JOB_WAITING || !job->beaten)
            continue;
        if (job->locked_since_ms == 0)
            job->locked_since_ms = now_ms;
        if (now_ms - job->locked_since_ms >= JOIN_MS) {
            job->state = SB_SQL_JOB_DONE;
            any = true;
            if (batch->places != NULL)
                batch->host->notice(batch->host, SIMBA_NOTICE_RELEASED, job->request->mutex,
                                    job->request->id);
        }
    }
    if (any)
        sb_sql_batch_settle(batch, r, &ignored); /* what it takes back waits on */
}

static int write_all(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                     struct sb_sql_failure *failure)
{
    if (r->connection->driver->run_all != NULL)
        return sb_sql_rows_write(batch, r, failure);
    if (sb_sql_batch_waiting(batch) > 1)
        return write_together(batch, r, failure);
    return write_apart(batch, r, failure);
}

int sb_sql_batch_run(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                     struct sb_sql_failure *failure)
{
    int code;

    if (sb_sql_batch_places(batch, repository) == NULL)
        answer_leaves(batch);
    code = read_all(batch, repository, failure);
    SB_CHECK(!repository->in_transaction, "a run begins outside of a transaction");
    if (code == SIMBA_OK)
        code = write_all(batch, repository, failure);
    SB_CHECK(!repository->in_transaction, "a run leaves no transaction open");
    if (code != SIMBA_OK)
        repository->connection->won = false;
    if (code != SIMBA_OK && failure->remedy == SB_SQL_RETRY)
        answer_beaten(batch, repository);
    return code;
}
