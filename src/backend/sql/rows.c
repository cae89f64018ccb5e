/*
 * rows.c - what a batch does on a store that locks single rows. Owns the order of its parts; must
 * not know their statements.
 */
#include "backend/sql/batch.h"
#include "base/check.h"
#include "base/container.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 2 /* the second for rows that had to be created */

/* Into how many parts statements that fail together are split. Some servers take a second to say
 * that a row is locked, so that few steps count for more than few parts. */
#define SPLIT 16

/* One part of a run: which jobs it concerns and what it makes of them. */
struct part {
    bool (*concerns)(const struct sb_sql_job *job);
    void (*prepare)(struct sb_sql_job *job);
    void (*take)(struct sb_sql_batch *batch, struct sb_sql_repository *r, struct sb_sql_job *job);
    bool reads_next; /* so that who has met a lock learns next whether it matters */
};

struct run {
    struct sb_sql_batch *batch;
    struct sb_sql_repository *repository;
    const struct part *part;
};

/* ---- Running a part -------------------------------------------------------------------------- */

static bool concerns(const struct part *part, const struct sb_sql_job *job)
{
    return job->state == SB_SQL_JOB_WAITING && !job->blocked && part->concerns(job);
}

/* By name: clients that lock rows in the same order cannot deadlock. Those of one mutex stay
 * as they came. */
static int compare_items(const void *left, const void *right)
{
    const struct sb_sql_item *a = *(struct sb_sql_item *const *)left;
    const struct sb_sql_item *b = *(struct sb_sql_item *const *)right;
    int order = strcmp(a->values.mutex, b->values.mutex);

    return order != 0 ? order : (a > b) - (a < b);
}

static struct sb_sql_item *prepare_job(struct sb_sql_job *job, const struct part *part)
{
    memset(&job->item, 0, sizeof job->item);
    job->item.values.mutex = job->request->mutex;
    part->prepare(job);
    return &job->item;
}

static size_t prepare(struct sb_sql_batch *batch, const struct part *part)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (concerns(part, job))
            batch->items[count++] = prepare_job(job, part);
    }
    qsort(batch->items, count, sizeof batch->items[0], compare_items);
    return count;
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
            run->part->take(run->batch, run->repository, job_of(items[i]));
        else
            items[left++] = items[i];
    }
    *count = left;
    return sb_sql_batch_settle(run->batch, run->repository, failure);
}

static int run_items(const struct run *run, struct sb_sql_item **items, size_t count,
                     struct sb_sql_failure *failure);

static int run_split(const struct run *run, struct sb_sql_item **items, size_t count,
                     struct sb_sql_failure *failure)
{
    size_t step = (count + SPLIT - 1) / SPLIT;
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i += step)
        code = run_items(run, items + i, count - i < step ? count - i : step, failure);
    return code;
}

/* One of them cannot be carried out, or somebody is in the way of one: it is found by splitting up,
 * so that the others are not concerned. */
static int take_failure(const struct run *run, struct sb_sql_item **items, size_t count,
                        struct sb_sql_failure *failure)
{
    bool own = failure->remedy == SB_SQL_GIVE_UP || failure->remedy == SB_SQL_RETRY;

    if (failure->error.code == SIMBA_EUNKNOWN) {
        for (size_t i = 0; i < count; i++)
            sb_sql_batch_refuse(run->batch, job_of(items[i]), &failure->error);
        return own ? SIMBA_OK : SIMBA_EUNKNOWN;
    }
    if (!own)
        return failure->error.code;
    if (count > 1)
        return run_split(run, items, count, failure);
    if (failure->remedy == SB_SQL_GIVE_UP)
        sb_sql_batch_refuse(run->batch, job_of(items[0]), &failure->error);
    else
        job_of(items[0])->blocked = !run->part->reads_next;
    return SIMBA_OK;
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

static int run_part(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                    const struct part *part, struct sb_sql_failure *failure)
{
    const struct run run = {batch, r, part};

    return run_items(&run, batch->items, prepare(batch, part), failure);
}

/* ---- Change ---------------------------------------------------------------------------------- */

static bool writes(const struct sb_sql_job *job)
{
    return job->request->op != SIMBA_OP_READ;
}

static void prepare_change(struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = {request->mutex, request->id, request->ttl_ms,
                                       request->transition_ms, request->fence};

    job->item.values = sb_sql_claim_values(&claim);
    job->item.values.version = request->revision;
    job->item.statement = request->op == SIMBA_OP_ACQUIRE ? SB_SQL_ACQUIRE
                          : request->op == SIMBA_OP_GUARD ? SB_SQL_GUARD
                                                          : SB_SQL_RELEASE_EXACT;
}

static void take_change(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                        struct sb_sql_job *job)
{
    (void)batch;
    (void)r;
    if (!job->item.hit)
        return;
    job->found = true;
    job->changed = job->request->op != SIMBA_OP_GUARD;
    job->state = SB_SQL_JOB_DONE;
}

static const struct part change = {writes, prepare_change, take_change, true};

/* ---- Read ------------------------------------------------------------------------------------ */

static bool any(const struct sb_sql_job *job)
{
    (void)job;
    return true;
}

static void prepare_read(struct sb_sql_job *job)
{
    job->item.statement = SB_SQL_SELECT;
}

/* Whether the change that did not hit would hit now: then somebody has been in its way. */
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
static void take_read(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_job *job)
{
    struct sb_sql_failure failure;

    job->found = job->item.hit;
    job->changed = false;
    if (!job->found && job->request->op == SIMBA_OP_ACQUIRE)
        return;
    if (!job->found || !could_change(job)) {
        job->state = SB_SQL_JOB_DONE;
    } else if (job->request->op != SIMBA_OP_RELEASE &&
               sb_sql_repository_check_version(r, &job->item.record, &failure) != SIMBA_OK) {
        sb_sql_batch_refuse(batch, job, &failure.error);
    } else {
        job->blocked = true;
    }
}

static const struct part read_rows = {any, prepare_read, take_read, false};

/* ---- Create ---------------------------------------------------------------------------------- */

static bool is_missing(const struct sb_sql_job *job)
{
    return !job->found;
}

static void prepare_create(struct sb_sql_job *job)
{
    job->item.statement = SB_SQL_INSERT_IF_MISSING;
}

/* Whether it was ours or another's to create does not matter. */
static void take_create(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                        struct sb_sql_job *job)
{
    (void)batch;
    (void)r;
    (void)job;
}

static const struct part create = {is_missing, prepare_create, take_create, false};

/* ---- The whole ------------------------------------------------------------------------------- */

/* What the columns cannot hold must not be sent: a server that cuts it would make a stranger the
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

static bool is_over(const struct sb_sql_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_WAITING && !batch->jobs[i].blocked)
            return false;
    return true;
}

int sb_sql_rows_write(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < batch->count; i++)
        batch->jobs[i].blocked = false;
    refuse_unfit(batch, r);
    for (int round = 0; round < ROUNDS && code == SIMBA_OK && !is_over(batch); round++) {
        code = run_part(batch, r, &change, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, &read_rows, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, &create, failure);
    }
    for (size_t i = 0; i < batch->count; i++)
        SB_CHECK(batch->jobs[i].state != SB_SQL_JOB_DONE, "what is done is answered");
    return code;
}
