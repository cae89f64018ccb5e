/*
 * rows.c - what a batch does on a store that locks single rows. Owns the order of its parts; must not know
 * their statements.
 */
#include "backend/sql/rows.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS 2 /* the second for rows that had to be created */

/* One part of a run: which jobs it concerns and what it makes of them. */
struct part {
    bool (*concerns)(const struct sb_job *job);
    void (*prepare)(struct sb_job *job);
    void (*take)(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job);
};

/* ---- Running a part ------------------------------------------------------------------------- */

static bool concerns(const struct part *part, const struct sb_job *job)
{
    return job->state == SB_JOB_WAITING && !job->blocked && part->concerns(job);
}

/* By name: whoever locks rows in the same order cannot be locked out in a circle. Those of one mutex stay
 * as they came. */
static int compare_items(const void *left, const void *right)
{
    const struct sb_sql_item *a = *(struct sb_sql_item *const *)left;
    const struct sb_sql_item *b = *(struct sb_sql_item *const *)right;
    int order = strcmp(a->values.mutex, b->values.mutex);

    return order != 0 ? order : (a > b) - (a < b);
}

static size_t prepare(struct sb_batch *batch, const struct part *part)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];

        if (!concerns(part, job))
            continue;
        memset(&job->item, 0, sizeof job->item);
        job->item.values.mutex = job->request->mutex;
        part->prepare(job);
        batch->items[count++] = &job->item;
    }
    qsort(batch->items, count, sizeof batch->items[0], compare_items);
    return count;
}

static struct sb_job *job_of(struct sb_sql_item *item)
{
    return (struct sb_job *)((char *)item - offsetof(struct sb_job, item));
}

/* One of them cannot be carried out: each runs alone, and only that one is answered with the failure. */
static int run_apart(struct sb_batch *batch, struct sb_repository *r, const struct part *part,
                     size_t count, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    for (size_t i = 0; i < count; i++) {
        struct sb_job *job = job_of(batch->items[i]);
        int code = driver->run_all(r->connection, &batch->items[i], 1, failure);

        if (code == SIMBA_OK)
            part->take(batch, r, job);
        else if (code == SIMBA_EUNKNOWN || failure->remedy == SB_SQL_GIVE_UP)
            sb_batch_refuse(batch, job, &failure->error);
        if (code != SIMBA_OK && failure->remedy != SB_SQL_GIVE_UP)
            return code;
    }
    return SIMBA_OK;
}

static void refuse_all(struct sb_batch *batch, size_t count, const struct simba_error *error)
{
    for (size_t i = 0; i < count; i++)
        sb_batch_refuse(batch, job_of(batch->items[i]), error);
}

static int run_part(struct sb_batch *batch, struct sb_repository *r, const struct part *part,
                    struct sb_sql_failure *failure)
{
    size_t count = prepare(batch, part);
    int code;

    if (count == 0)
        return SIMBA_OK;
    code = r->connection->driver->run_all(r->connection, batch->items, count, failure);
    if (code == SIMBA_EUNKNOWN)
        refuse_all(batch, count, &failure->error);
    else if (code != SIMBA_OK && failure->remedy == SB_SQL_GIVE_UP)
        code = run_apart(batch, r, part, count, failure);
    else if (code == SIMBA_OK)
        for (size_t i = 0; i < count; i++)
            part->take(batch, r, job_of(batch->items[i]));
    return code == SIMBA_OK ? sb_batch_settle(batch, r, failure) : code;
}

/* ---- Change --------------------------------------------------------------------------------- */

static bool writes(const struct sb_job *job)
{
    return job->request->op != SIMBA_OP_READ;
}

static void prepare_change(struct sb_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = {request->mutex, request->id, request->ttl_ms,
                                       request->transition_ms};

    job->item.values = sb_sql_claim_values(&claim);
    job->item.values.version = request->revision;
    job->item.statement = request->op == SIMBA_OP_ACQUIRE ? SB_SQL_ACQUIRE
                          : request->op == SIMBA_OP_GUARD ? SB_SQL_GUARD
                                                          : SB_SQL_RELEASE_EXACT;
}

static void take_change(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job)
{
    (void)batch;
    (void)r;
    if (!job->item.hit)
        return;
    job->found = true;
    job->changed = job->request->op != SIMBA_OP_GUARD;
    job->state = SB_JOB_DONE;
}

static const struct part change = {writes, prepare_change, take_change};

/* ---- Look ----------------------------------------------------------------------------------- */

static bool any(const struct sb_job *job)
{
    (void)job;
    return true;
}

static void prepare_look(struct sb_job *job)
{
    job->item.statement = SB_SQL_SELECT;
}

/* Whether the change that did not hit would hit now: then somebody has been in its way. */
static bool could_change(const struct sb_job *job)
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
static void take_look(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job)
{
    struct sb_sql_failure failure;

    job->found = job->item.hit;
    job->changed = false;
    if (!job->found && job->request->op == SIMBA_OP_ACQUIRE)
        return;
    if (!job->found || !could_change(job)) {
        job->state = SB_JOB_DONE;
    } else if (job->request->op != SIMBA_OP_RELEASE &&
               sb_repository_check_version(r, &job->item.record, &failure) != SIMBA_OK) {
        sb_batch_refuse(batch, job, &failure.error);
    } else {
        job->blocked = true;
    }
}

static const struct part look = {any, prepare_look, take_look};

/* ---- Create --------------------------------------------------------------------------------- */

static bool is_missing(const struct sb_job *job)
{
    return !job->found;
}

static void prepare_create(struct sb_job *job)
{
    job->item.statement = SB_SQL_INSERT_IF_MISSING;
}

/* Whether it was ours or another's to create does not matter. */
static void take_create(struct sb_batch *batch, struct sb_repository *r, struct sb_job *job)
{
    (void)batch;
    (void)r;
    (void)job;
}

static const struct part create = {is_missing, prepare_create, take_create};

/* ---- The whole ------------------------------------------------------------------------------ */

/* What the column cannot hold must not be sent: a server that cuts it would make a stranger the owner. */
static void refuse_long_ids(struct sb_batch *batch, struct sb_repository *r)
{
    struct sb_sql_failure failure;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_job *job = &batch->jobs[i];

        if (job->state == SB_JOB_WAITING && job->request->op == SIMBA_OP_ACQUIRE &&
            sb_repository_check_id(r, job->request->id, &failure) != SIMBA_OK)
            sb_batch_refuse(batch, job, &failure.error);
    }
}

static bool is_over(const struct sb_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_JOB_WAITING && !batch->jobs[i].blocked)
            return false;
    return true;
}

int sb_rows_write(struct sb_batch *batch, struct sb_repository *r, struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < batch->count; i++)
        batch->jobs[i].blocked = false;
    refuse_long_ids(batch, r);
    for (int round = 0; round < ROUNDS && code == SIMBA_OK && !is_over(batch); round++) {
        code = run_part(batch, r, &change, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, &look, failure);
        if (code == SIMBA_OK)
            code = run_part(batch, r, &create, failure);
    }
    return code;
}
