/*
 * batch.c - the pending requests, the jobs of a batch and their answers. Must not know how jobs
 * are carried out.
 */
#include "backend/sql/batch.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"

#include <string.h>

/* The pause before a request that met a lock is tried again; it doubles. */
#define BLOCKED_MIN_MS 1
#define BLOCKED_MAX_MS 50

/* An attempt that took so long kept the worker from all others: it rests some times as long. */
#define BLOCKED_LONG_MS 500
#define BLOCKED_REST 4

struct sb_sql_places *sb_sql_batch_places(const struct sb_sql_batch *batch,
                                          const struct sb_sql_repository *r)
{
    return r->connection->has_queue ? batch->places : NULL;
}

bool sb_sql_leaves(const struct simba_request *request)
{
    return request->op == SIMBA_OP_RELEASE && request->revision == 0;
}

struct sb_sql_claim sb_sql_claim_of(const struct sb_sql_batch *batch,
                                    const struct sb_sql_repository *r,
                                    const struct simba_request *request)
{
    struct sb_sql_claim claim = {.mutex = request->mutex,
                                 .id = request->id,
                                 .ttl_ms = request->ttl_ms,
                                 .transition_ms = request->transition_ms,
                                 .fence = request->fence,
                                 .outlives_client = request->outlives_client};
    struct sb_sql_places *places = sb_sql_batch_places(batch, r);

    if (places != NULL && (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RELEASE)) {
        claim.reserve_ms = request->reserve_ms;
        claim.client = sb_sql_places_client(places);
        claim.queued = sb_sql_places_has(places, request->mutex, request->id);
    }
    return claim;
}

void sb_sql_batch_add(struct sb_sql_batch *batch, struct simba_request *request,
                      int64_t deadline_ms, unsigned attempts)
{
    SB_CHECK(request != NULL, "a job has a request");
    SB_CHECK(batch->count < SB_SQL_BATCH_MAX, "a batch takes no more jobs than it has room for");
    batch->jobs[batch->count++] = (struct sb_sql_job){.request = request,
                                                      .deadline_ms = deadline_ms,
                                                      .attempts = attempts,
                                                      .state = SB_SQL_JOB_WAITING};
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
    SB_CHECK(job->state != SB_SQL_JOB_ANSWERED, "a request is answered once");
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
    if (error->code == SIMBA_EUNKNOWN && job->request->op == SIMBA_OP_ACQUIRE &&
        batch->places != NULL)
        sb_sql_places_doubt(batch->places, job->request->mutex, job->request->id);
    sb_sql_batch_answer(batch, job, &reply);
}

/* The owner believes in no more than it has asked for. */
static void answer_record(struct sb_sql_batch *batch, const struct sb_sql_repository *r,
                          struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    struct sb_sql_record *record = &job->item.record;
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.missed = request->op == SIMBA_OP_RELEASE && request->revision > 0 && !job->changed;
    if (job->found)
        reply.revision = record->version;
    if (job->found && sb_sql_record_is_owned(record)) {
        const struct sb_sql_claim claim = sb_sql_claim_of(batch, r, request);

        if ((request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD) &&
            strcmp(record->owner_id, request->id) == 0)
            sb_sql_record_limit(record, &claim);
        reply.owner = record->owner_id;
        reply.fence = record->fence;
        if (record->since_ms > 0)
            reply.held_ms = sb_time_left(record->current_db_at_ms, record->since_ms);
        reply.revision_counts = true;
        reply.ttl_left_ms = sb_time_between(sb_max(0, record->ttl_at_ms), record->current_db_at_ms);
        reply.transition_left_ms =
            sb_time_between(record->transition_at_ms, record->current_db_at_ms);
    } else if (job->found && request->op == SIMBA_OP_ACQUIRE) {
        reply.reserved_left_ms = sb_time_left(record->reserved_until_ms, record->current_db_at_ms);
    }
    if (job->found && request->op == SIMBA_OP_ACQUIRE && !job->changed)
        reply.place = record->place;
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

/* A place is given up by an acquire that wins, and by a release that has left. An acquire of the
 * same batch may have entered the queue behind that. */
static void note_line(struct sb_sql_places *places, const struct sb_sql_job *job)
{
    const struct simba_request *request = job->request;
    bool acquires = request->op == SIMBA_OP_ACQUIRE;
    bool releases = request->op == SIMBA_OP_RELEASE;

    if (acquires && job->changed)
        sb_sql_places_win(places, request->mutex, request->id);
    else if (acquires)
        sb_sql_places_enter(places, request->mutex, request->id);
    else if (releases && job->left)
        sb_sql_places_leave(places, request->mutex, request->id);
    if ((acquires && !job->changed) || releases)
        sb_sql_places_set_crowded(places, request->mutex, acquires || job->item.crowded);
}

static void wake(struct sb_sql_connection *connection, const struct sb_sql_job *job)
{
    static const enum simba_notice notices[SB_SQL_TOLD] = {
        SIMBA_NOTICE_RELEASED, SIMBA_NOTICE_RESERVED, SIMBA_NOTICE_STANDBY};
    const struct sb_sql_waiter *next = job->item.next;

    for (size_t i = 0; i < SB_SQL_TOLD; i++)
        if (next[i].id[0] != '\0')
            connection->driver->announce(connection, notices[i], job->request->mutex, &next[i]);
}

static void announce(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                     const struct sb_sql_job *job)
{
    const struct sb_sql_driver *driver = r->connection->driver;
    const struct simba_request *request = job->request;
    struct sb_sql_places *places = sb_sql_batch_places(batch, r);
    bool wakes_all = request->op == SIMBA_OP_RELEASE && places == NULL;

    if (request->op == SIMBA_OP_ACQUIRE && batch->waiters != NULL)
        sb_sql_waiters_note(batch->waiters, request->mutex, !job->changed);
    if (request->op == SIMBA_OP_ACQUIRE)
        r->connection->won = job->changed;
    if (job->changed || request->op == SIMBA_OP_GUARD)
        r->connection->has_written = true;
    if (!job->changed && request->op == SIMBA_OP_ACQUIRE && driver->contended != NULL)
        driver->contended(r->connection);
    if (places != NULL)
        note_line(places, job);
    if (request->op == SIMBA_OP_RELEASE && driver->announce != NULL)
        wake(r->connection, job); /* before observers: nobody owns until it comes */
    if (job->changed && driver->announce != NULL)
        driver->announce(r->connection, wakes_all ? SIMBA_NOTICE_RELEASED : SIMBA_NOTICE_CHANGED,
                         request->mutex, NULL);
}

/* Makes sure that what was done went to the store that others see. A client that has released
 * believes nothing any more, but others wait for its release: a look at the name is enough. */
static int check_done(const struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      bool *ret_moved, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    for (size_t i = 0; i < batch->count; i++) {
        const struct sb_sql_job *job = &batch->jobs[i];

        if (job->state == SB_SQL_JOB_DONE &&
            !(job->request->op == SIMBA_OP_RELEASE && job->changed))
            return sb_sql_repository_check(r, ret_moved, failure);
    }
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

/* Waiters are told before the requests are answered. */
int sb_sql_batch_settle(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                        struct sb_sql_failure *failure)
{
    bool moved = false;
    int code = check_done(batch, r, &moved, failure);

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];

        if (job->state != SB_SQL_JOB_DONE)
            continue;
        if (code != SIMBA_OK) {
            take_back(batch, job, moved, &failure->error);
        } else {
            announce(batch, r, job);
            warn_of_version(batch, r->connection, job);
        }
    }
    for (size_t i = 0; i < batch->count; i++)
        if (batch->jobs[i].state == SB_SQL_JOB_DONE)
            answer_record(batch, r, &batch->jobs[i]);
    return code;
}

/* ---- What is still waiting ------------------------------------------------------------------- */

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

/* ---- Pending requests ------------------------------------------------------------------------ */

void sb_sql_pending_clear(struct sb_sql_pending *q)
{
    sb_free(q->entries);
    *q = (struct sb_sql_pending){NULL, 0, 0};
}

bool sb_sql_pending_add(struct sb_sql_pending *q, const struct sb_sql_pending_entry *entry)
{
    SB_CHECK(q->count <= q->room, "a queue has no more entries than room");
    if (q->count == q->room) {
        size_t room = q->room * 2 + 64;
        struct sb_sql_pending_entry *entries = sb_realloc(q->entries, room * sizeof *entries);

        if (entries == NULL)
            return false;
        q->entries = entries;
        q->room = room;
    }
    q->entries[q->count++] = *entry;
    return true;
}

static int64_t blocked_ms(unsigned attempts, int64_t took_ms)
{
    int64_t pause_ms = BLOCKED_MIN_MS;

    if (took_ms >= BLOCKED_LONG_MS)
        return took_ms * BLOCKED_REST;
    for (unsigned i = 1; i < attempts && pause_ms < BLOCKED_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < BLOCKED_MAX_MS ? pause_ms : BLOCKED_MAX_MS;
}

bool sb_sql_pending_add_blocked(struct sb_sql_pending *q, struct sb_sql_batch *batch,
                                int64_t took_ms)
{
    int64_t now_ms = simba_now_ms();

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];
        struct sb_sql_pending_entry entry = {job->request, job->deadline_ms, now_ms, job->attempts};

        if (job->state != SB_SQL_JOB_WAITING)
            continue;
        if (!job->untried)
            entry.due_ms += blocked_ms(++entry.attempts, job->joined ? 0 : took_ms);
        if (entry.due_ms > entry.deadline_ms)
            entry.due_ms = entry.deadline_ms;
        if (!sb_sql_pending_add(q, &entry))
            return false;
        job->state = SB_SQL_JOB_ANSWERED; /* the queue has the request again */
    }
    return true;
}

static const struct sb_sql_pending_entry *first_due(const struct sb_sql_pending *q)
{
    const struct sb_sql_pending_entry *first = NULL;

    for (size_t i = 0; i < q->count; i++)
        if (first == NULL || q->entries[i].due_ms < first->due_ms)
            first = &q->entries[i];
    return first;
}

int64_t sb_sql_pending_due_ms(const struct sb_sql_pending *q)
{
    const struct sb_sql_pending_entry *first = first_due(q);
    size_t fresh = 0;

    if (first == NULL)
        return SIMBA_INFINITE;
    for (size_t i = 0; i < q->count; i++)
        fresh += q->entries[i].attempts == 0;
    return fresh >= SB_SQL_BATCH_MAX ? 0 : first->due_ms;
}

/* Renewals that are not due yet go along, blocked requests do not. Where none is due, it is a full
 * batch of renewals. */
void sb_sql_pending_take(struct sb_sql_pending *q, struct sb_sql_batch *batch, bool all)
{
    const struct sb_sql_pending_entry *first = first_due(q);
    int64_t now_ms = simba_now_ms();
    bool blocked = first != NULL && first->attempts > 0 && (first->due_ms <= now_ms || all);
    size_t left = 0;

    batch->count = 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct sb_sql_pending_entry *entry = &q->entries[i];
        bool fits = (entry->attempts > 0) == blocked &&
                    (!blocked || entry->due_ms <= now_ms || all) && batch->count < SB_SQL_BATCH_MAX;

        if (fits)
            sb_sql_batch_add(batch, entry->request, entry->deadline_ms, entry->attempts);
        else
            q->entries[left++] = *entry;
    }
    q->count = left;
}
