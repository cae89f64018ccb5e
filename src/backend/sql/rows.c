/*
 * rows.c - what a batch does on a store that locks single rows. Owns the order of its parts; must
 * not know their statements.
 */
#include "backend/sql/batch.h"
#include "base/check.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 2 /* the second for rows that had to be created */

/* Into how many parts statements that fail together are split. Some servers take a second to say
 * that a row is locked, so that few steps count for more than few parts. */
#define SPLIT 16

enum part { CHANGE, READ, CREATE };

struct run {
    struct sb_sql_batch *batch;
    struct sb_sql_repository *repository;
    enum part part;
};

/* ---- What a part makes of a job -------------------------------------------------------------- */

static bool concerns(enum part part, const struct sb_sql_job *job)
{
    if (job->state != SB_SQL_JOB_WAITING || job->blocked)
        return false;
    return part == CHANGE ? job->request->op != SIMBA_OP_READ : part == READ || !job->found;
}

static void prepare_job(enum part part, struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = sb_sql_claim_of(request);
    struct sb_sql_item *item = &job->item;

    memset(item, 0, sizeof *item);
    item->values.mutex = request->mutex;
    if (part != CHANGE) {
        item->statement = part == READ ? SB_SQL_SELECT : SB_SQL_INSERT_IF_MISSING;
        return;
    }
    item->values = sb_sql_claim_values(&claim);
    item->values.version = request->revision;
    item->statement = request->op == SIMBA_OP_ACQUIRE ? SB_SQL_ACQUIRE
                      : request->op == SIMBA_OP_GUARD ? SB_SQL_GUARD
                                                      : SB_SQL_RELEASE;
}

/* Whether the change that did not hit would hit now: then it met a lock. */
static bool could_change(const struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_record *record = &job->item.record;
    bool mine = request->id != NULL && strcmp(record->owner_id, request->id) == 0;

    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        return mine || !sb_sql_record_is_owned(record);
    case SIMBA_OP_GUARD:
        return mine && record->transition_at_ms > record->current_db_at_ms;
    case SIMBA_OP_RELEASE:
        return mine && record->version == request->revision;
    default:
        return false;
    }
}

/* A missing row ends all but an acquire, which goes on to create it. */
static void take_read(const struct run *run, struct sb_sql_job *job)
{
    struct sb_sql_failure failure;

    job->found = job->item.hit;
    job->changed = false;
    if (!job->found && job->request->op == SIMBA_OP_ACQUIRE)
        return;
    if (!job->found || !could_change(job)) {
        job->state = SB_SQL_JOB_DONE;
    } else if (job->request->op != SIMBA_OP_RELEASE &&
               sb_sql_repository_check_version(run->repository, &job->item.record, &failure) !=
                   SIMBA_OK) {
        sb_sql_batch_refuse(run->batch, job, &failure.error);
    } else {
        job->blocked = true;
    }
}

/* It does not matter which client has created a row. */
static void take_job(const struct run *run, struct sb_sql_job *job)
{
    SB_CHECK(job->state == SB_SQL_JOB_WAITING, "a job is done once");
    if (run->part == READ) {
        take_read(run, job);
    } else if (run->part == CHANGE && job->item.hit) {
        job->found = true;
        job->changed = job->request->op != SIMBA_OP_GUARD;
        job->state = SB_SQL_JOB_DONE;
    }
}

/* ---- Running a part -------------------------------------------------------------------------- */

/* By name: clients that lock rows in the same order cannot deadlock. Those of one mutex stay
 * as they came. */
static int compare_items(const void *left, const void *right)
{
    const struct sb_sql_item *a = *(struct sb_sql_item *const *)left;
    const struct sb_sql_item *b = *(struct sb_sql_item *const *)right;
    int order = strcmp(a->values.mutex, b->values.mutex);

    return order != 0 ? order : (a > b) - (a < b);
}

static struct sb_sql_job *job_of(struct sb_sql_item *item)
{
    return SB_CONTAINER(struct sb_sql_job, item, item);
}

/* Answers what is done, and moves the others to the front; *count is how many they are. */
static int take_done(const struct run *run, struct sb_sql_item **items, size_t *count,
                     struct sb_sql_failure *failure)
{
    size_t left = 0;

    for (size_t i = 0; i < *count; i++) {
        if (items[i]->done)
            take_job(run, job_of(items[i]));
        else
            items[left++] = items[i];
    }
    *count = left;
    return sb_sql_batch_settle(run->batch, run->repository, failure);
}

static int run_items(const struct run *run, struct sb_sql_item **items, size_t count,
                     struct sb_sql_failure *failure);

/* One of them cannot be carried out, or meets a lock: it is found by splitting up, so that the
 * others are not concerned. What met a lock in a change is read next, to learn whether it
 * matters. */
static int take_failure(const struct run *run, struct sb_sql_item **items, size_t count,
                        struct sb_sql_failure *failure)
{
    bool own = failure->remedy == SB_SQL_GIVE_UP || failure->remedy == SB_SQL_RETRY;
    size_t step = (count + SPLIT - 1) / SPLIT;
    int code = SIMBA_OK;

    if (failure->error.code == SIMBA_EUNKNOWN) {
        for (size_t i = 0; i < count; i++)
            sb_sql_batch_refuse(run->batch, job_of(items[i]), &failure->error);
        return own ? SIMBA_OK : SIMBA_EUNKNOWN;
    }
    if (!own)
        return failure->error.code;
    if (count == 1 && failure->remedy == SB_SQL_GIVE_UP)
        sb_sql_batch_refuse(run->batch, job_of(items[0]), &failure->error);
    else if (count == 1)
        job_of(items[0])->blocked = run->part != CHANGE;
    for (size_t i = 0; count > 1 && i < count && code == SIMBA_OK; i += step)
        code = run_items(run, items + i, count - i < step ? count - i : step, failure);
    return code;
}

static int run_items(const struct run *run, struct sb_sql_item **items, size_t count,
                     struct sb_sql_failure *failure)
{
    struct sb_sql_connection *connection = run->repository->connection;

    while (count > 0) {
        struct sb_sql_failure unsettled;
        int code;
        int settled;

        for (size_t i = 0; i < count; i++)
            items[i]->done = items[i]->hit = false; /* whatever an attempt that failed has left */
        code = connection->driver->run_all(connection, items, count, failure);
        settled = take_done(run, items, &count, &unsettled);

        if (code != SIMBA_OK)
            return take_failure(run, items, count, failure);
        if (settled != SIMBA_OK) {
            *failure = unsettled;
            return settled;
        }
    }
    return SIMBA_OK;
}

static int run_part(struct sb_sql_batch *batch, struct sb_sql_repository *r, enum part part,
                    struct sb_sql_failure *failure)
{
    const struct run run = {batch, r, part};
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (!concerns(part, job))
            continue;
        prepare_job(part, job);
        batch->items[count++] = &job->item;
    }
    qsort(batch->items, count, sizeof batch->items[0], compare_items);
    return run_items(&run, batch->items, count, failure);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* What the columns cannot hold must not be sent: a server that cuts it would make another id the
 * owner. */
static void refuse_unfit(struct sb_sql_batch *batch, struct sb_sql_repository *r)
{
    struct sb_sql_failure failure;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_WAITING &&
            sb_sql_repository_check_names(r, job->request->mutex, job->request->id, &failure) !=
                SIMBA_OK)
            sb_sql_batch_refuse(batch, job, &failure.error);
    }
}

int sb_sql_rows_write(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_failure *failure)
{
    bool waiting = true;
    int code = SIMBA_OK;

    for (size_t i = 0; i < batch->count; i++)
        batch->jobs[i].blocked = false;
    refuse_unfit(batch, r);
    for (int round = 0; round < ROUNDS && code == SIMBA_OK && waiting; round++) {
        code = run_part(batch, r, CHANGE, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, READ, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, CREATE, failure);
        waiting = false;
        for (size_t i = 0; i < batch->count; i++)
            waiting = waiting || concerns(READ, &batch->jobs[i]);
    }
    for (size_t i = 0; i < batch->count; i++)
        SB_CHECK(batch->jobs[i].state != SB_SQL_JOB_DONE, "what is done is answered");
    return code;
}
