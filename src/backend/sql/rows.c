/*
 * rows.c - what a batch does on a store that locks single rows. Owns the order of its parts; must
 * not know their statements.
 */
#include "backend/sql/batch.h"
#include "base/check.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Change, read, create, change, read, change, read, enter, read, change, read: no job takes a
 * longer way. */
#define ROUNDS 5

/* So many of a queue are told of a release. */
#define TOLD 2

/* How often a contender that has entered the queue comes back for a change that is not
 * committed. */
#define CHANGING_MAX 10

/* Into how many parts statements that fail together are split. Some servers take a second to say
 * that a row is locked, so that few steps count for more than few parts. */
#define SPLIT 16

struct run {
    struct sb_sql_batch *batch;
    struct sb_sql_repository *repository;
    enum sb_sql_part part;
};

/* ---- What a part makes of a job -------------------------------------------------------------- */

static bool concerns(enum sb_sql_part part, const struct sb_sql_job *job)
{
    return job->state == SB_SQL_JOB_WAITING && !job->blocked && job->part == part;
}

/* Whether it is in the queue, and comes back for a change that was not committed. */
static bool comes_back(const struct sb_sql_batch *batch, const struct sb_sql_repository *r,
                       const struct sb_sql_job *job)
{
    struct sb_sql_places *places = sb_sql_batch_places(batch, r);

    return places != NULL && job->attempts > 0 && job->request->op == SIMBA_OP_ACQUIRE &&
           sb_sql_places_has(places, job->request->mutex, job->request->id);
}

static void prepare_change(const struct run *run, struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_claim claim = sb_sql_claim_of(run->batch, run->repository, request);
    struct sb_sql_item *item = &job->item;

    item->values = sb_sql_claim_values(&claim);
    item->values.version = request->revision;
    item->values.thorough = job->thorough;
    item->statement = request->op == SIMBA_OP_ACQUIRE ? SB_SQL_ACQUIRE
                      : request->op == SIMBA_OP_GUARD ? SB_SQL_GUARD
                      : sb_sql_leaves(request)        ? SB_SQL_LEAVE
                                                      : SB_SQL_RELEASE;
    if (claim.client == NULL || claim.queued || sb_sql_leaves(request))
        return;
    item->values.joins = sb_sql_places_is_crowded(run->batch->places, request->mutex) &&
                         (request->op == SIMBA_OP_RELEASE ||
                          sb_sql_places_enter(run->batch->places, request->mutex, request->id));
}

static void prepare_job(const struct run *run, struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    struct sb_sql_places *places = sb_sql_batch_places(run->batch, run->repository);
    struct sb_sql_item *item = &job->item;

    memset(item, 0, sizeof *item);
    item->values.mutex = request->mutex;
    switch (run->part) {
    case SB_SQL_CHANGE:
        prepare_change(run, job);
        break;
    case SB_SQL_READ:
        item->values.id = request->id;
        item->statement =
            places != NULL && request->op == SIMBA_OP_ACQUIRE ? SB_SQL_SELECT_PLACE : SB_SQL_SELECT;
        break;
    case SB_SQL_CREATE:
        item->statement = SB_SQL_INSERT_IF_MISSING;
        break;
    case SB_SQL_ENTER:
        item->values.id = request->id;
        item->values.client = sb_sql_places_client(run->batch->places);
        item->statement = SB_SQL_JOIN;
        break;
    }
}

/* Whether the change that did not hit would hit now: then it met a lock, or the mutex was released
 * meanwhile. */
static bool could_change(const struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_record *record = &job->item.record;
    bool mine = request->id != NULL && strcmp(record->owner_id, request->id) == 0;
    bool reserved = request->reserve_ms > 0 && record->reserved_until_ms > record->current_db_at_ms;

    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        return mine || (!sb_sql_record_is_owned(record) && !reserved);
    case SIMBA_OP_GUARD:
        return mine && record->transition_at_ms > record->current_db_at_ms;
    case SIMBA_OP_RELEASE:
        return mine && record->version == request->revision;
    default:
        return false;
    }
}

/* A free row, as if it was reserved: a driver may have looked at no more than that. */
static bool is_marked(const struct sb_sql_record *record)
{
    return !sb_sql_record_is_owned(record) && record->acquired_at_ms > record->current_db_at_ms;
}

/* What an ACQUIRE does that finds the mutex owned or reserved. It enters the queue, and reads once
 * more when that is committed. A release takes its row before it looks for waiters. So if a release
 * has not seen the new row in the queue, it has taken its own row before, and the second read finds
 * the mutex free, or the row in the middle of a change: then the contender comes back. Another
 * client may keep the row locked for long, so it comes back a few times only, in about 250 ms. A
 * release that others in the queue will see need not see this one.
 *
 * One that was reserved for is out of the queue. If another contender has overtaken it, it enters
 * the queue again, as often as that happens: the next release would pass over it. */
static void wait_in_line(const struct run *run, struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    struct sb_sql_places *places = sb_sql_batch_places(run->batch, run->repository);
    const struct sb_sql_record *record = &job->item.record;

    if (places != NULL && record->place == 0 &&
        sb_sql_places_enter(places, request->mutex, request->id))
        job->part = SB_SQL_ENTER;
    else if (record->changing && job->joined && record->place <= TOLD &&
             job->attempts < CHANGING_MAX)
        job->blocked = true;
    else
        job->state = SB_SQL_JOB_DONE;
}

/* A missing row ends all but an acquire, which goes on to create it. */
static void take_read(const struct run *run, struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    struct sb_sql_failure failure;

    job->found = job->item.hit || job->item.read;
    job->changed = false;
    if (!job->found && request->op == SIMBA_OP_ACQUIRE) {
        job->part = SB_SQL_CREATE;
    } else if (!job->found) {
        job->state = SB_SQL_JOB_DONE;
    } else if (!could_change(job)) {
        if (request->op == SIMBA_OP_ACQUIRE)
            wait_in_line(run, job);
        else
            job->state = SB_SQL_JOB_DONE;
    } else if (request->op != SIMBA_OP_RELEASE &&
               sb_sql_repository_check_version(run->repository, &job->item.record, &failure) !=
                   SIMBA_OK) {
        sb_sql_batch_refuse(run->batch, job, &failure.error);
    } else if (job->joined) {
        job->joined = false;
        job->part = SB_SQL_CHANGE;
    } else if (!job->thorough && is_marked(&job->item.record)) {
        job->thorough = true;
        job->part = SB_SQL_CHANGE;
    } else {
        job->blocked = true;
    }
}

static void take_change(const struct run *run, struct sb_sql_job *job)
{
    struct sb_sql_item *item = &job->item;

    job->left = job->left || item->left || item->statement == SB_SQL_LEAVE;
    if (item->statement == SB_SQL_LEAVE) {
        job->found = false;
        job->changed = false;
        job->state = SB_SQL_JOB_DONE;
    } else if (item->hit) {
        job->found = true;
        job->changed = job->request->op != SIMBA_OP_GUARD;
        job->state = SB_SQL_JOB_DONE;
    } else if (item->read && (!item->joined || item->record.place > TOLD)) {
        take_read(run, job);
    } else {
        job->joined = item->joined;
        job->part = SB_SQL_READ;
    }
}

/* It does not matter which client has created a row. */
static void take_job(const struct run *run, struct sb_sql_job *job)
{
    SB_CHECK(job->state == SB_SQL_JOB_WAITING, "a job is done once");
    switch (run->part) {
    case SB_SQL_CHANGE:
        take_change(run, job);
        break;
    case SB_SQL_READ:
        take_read(run, job);
        break;
    case SB_SQL_CREATE:
        job->part = SB_SQL_CHANGE;
        break;
    case SB_SQL_ENTER:
        job->joined = true;
        job->part = SB_SQL_READ;
        break;
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

/* What met a lock in a change is read next, to learn whether it matters. */
static void skip_locked(const struct run *run, struct sb_sql_job *job)
{
    if (run->part == SB_SQL_CHANGE && !sb_sql_leaves(job->request))
        job->part = SB_SQL_READ;
    else
        job->blocked = true;
}

/* One of them cannot be carried out, or meets a lock: it is found by splitting up, so that the
 * others are not concerned. */
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
        skip_locked(run, job_of(items[0]));
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
            items[i]->done = items[i]->hit = items[i]->read = false; /* of an earlier attempt */
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

static int run_part(struct sb_sql_batch *batch, struct sb_sql_repository *r, enum sb_sql_part part,
                    struct sb_sql_failure *failure)
{
    const struct run run = {batch, r, part};
    size_t count = 0;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (!concerns(part, job))
            continue;
        prepare_job(&run, job);
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

/* Lets the store tell of releases of what is observed here. A failure is not reported: the requests
 * meet it, too. */
static void watch(const struct sb_sql_batch *batch, struct sb_sql_repository *r)
{
    struct sb_sql_places *places = sb_sql_batch_places(batch, r);
    struct sb_sql_failure failure;

    for (size_t i = 0; places != NULL && i < batch->count; i++) {
        const struct sb_sql_job *job = &batch->jobs[i];
        struct sb_sql_values values = {.id = sb_sql_places_watcher(places),
                                       .client = sb_sql_places_client(places),
                                       .lease_ms = SB_SQL_WATCH_MS};

        if (job->state != SB_SQL_JOB_WAITING ||
            (job->request->op != SIMBA_OP_READ && job->request->op != SIMBA_OP_ACQUIRE) ||
            !sb_sql_places_take_watch(places, job->request->mutex, simba_now_ms()))
            continue;
        values.mutex = job->request->mutex;
        if (r->connection->driver->run(r->connection, SB_SQL_WATCH, &values, NULL, NULL,
                                       &failure) != SIMBA_OK)
            return;
    }
}

int sb_sql_rows_write(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_failure *failure)
{
    bool waiting = true;
    int code = SIMBA_OK;

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state != SB_SQL_JOB_WAITING || job->blocked)
            continue;
        job->joined = comes_back(batch, r, job);
        job->part = job->joined || job->request->op == SIMBA_OP_READ ? SB_SQL_READ : SB_SQL_CHANGE;
    }
    refuse_unfit(batch, r);
    watch(batch, r);
    for (int round = 0; round < ROUNDS && code == SIMBA_OK && waiting; round++) {
        for (int part = SB_SQL_CHANGE; part <= SB_SQL_ENTER && code == SIMBA_OK; part++)
            code = run_part(batch, r, (enum sb_sql_part)part, failure);
        waiting = false;
        for (size_t i = 0; i < batch->count; i++)
            waiting =
                waiting || (batch->jobs[i].state == SB_SQL_JOB_WAITING && !batch->jobs[i].blocked);
    }
    for (size_t i = 0; i < batch->count; i++)
        SB_CHECK(batch->jobs[i].state != SB_SQL_JOB_DONE, "what is done is answered");
    return code;
}
