/*
 * queue.c - the requests that wait for the worker. Owns their order; must not know what they ask.
 */
#include "backend/sql/queue.h"

#include "base/alloc.h"

/* The pause before a request that somebody was in the way of is tried again; it doubles. */
#define BLOCKED_MIN_MS 1
#define BLOCKED_MAX_MS 50

/* An attempt that took so long kept the worker from all others: it rests some times as long. */
#define BLOCKED_LONG_MS 500
#define BLOCKED_REST 4

void sb_sql_queue_clear(struct sb_sql_queue *q)
{
    sb_free(q->entries);
    *q = (struct sb_sql_queue){NULL, 0, 0};
}

bool sb_sql_queue_add(struct sb_sql_queue *q, const struct sb_sql_queue_entry *entry)
{
    if (q->count == q->room) {
        size_t room = q->room * 2 + 64;
        struct sb_sql_queue_entry *entries = sb_realloc(q->entries, room * sizeof *entries);

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

bool sb_sql_queue_add_blocked(struct sb_sql_queue *q, struct sb_sql_batch *batch, int64_t took_ms)
{
    int64_t now_ms = simba_now_ms();

    for (size_t i = 0; i < batch->count; i++) {
        struct sb_sql_job *job = &batch->jobs[i];
        struct sb_sql_queue_entry entry = {job->request, job->deadline_ms, now_ms,
                                           job->attempts + 1};

        if (job->state != SB_SQL_JOB_WAITING)
            continue;
        entry.due_ms += blocked_ms(entry.attempts, took_ms);
        if (entry.due_ms > entry.deadline_ms)
            entry.due_ms = entry.deadline_ms;
        if (!sb_sql_queue_add(q, &entry))
            return false;
        job->state = SB_SQL_JOB_ANSWERED;
    }
    return true;
}

static const struct sb_sql_queue_entry *first_due(const struct sb_sql_queue *q)
{
    const struct sb_sql_queue_entry *first = NULL;

    for (size_t i = 0; i < q->count; i++)
        if (first == NULL || q->entries[i].due_ms < first->due_ms)
            first = &q->entries[i];
    return first;
}

int64_t sb_sql_queue_due_ms(const struct sb_sql_queue *q)
{
    const struct sb_sql_queue_entry *first = first_due(q);
    size_t fresh = 0;

    if (first == NULL)
        return SIMBA_INFINITE;
    for (size_t i = 0; i < q->count; i++)
        fresh += q->entries[i].attempts == 0;
    return fresh >= SB_SQL_BATCH_MAX ? 0 : first->due_ms;
}

/* Renewals that are not due yet go along, blocked requests do not. Where none is due, it is a full
 * batch of renewals. */
void sb_sql_queue_take(struct sb_sql_queue *q, struct sb_sql_batch *batch, bool all)
{
    const struct sb_sql_queue_entry *first = first_due(q);
    int64_t now_ms = simba_now_ms();
    bool blocked = first != NULL && first->attempts > 0 && (first->due_ms <= now_ms || all);
    size_t left = 0;

    batch->count = 0;
    for (size_t i = 0; i < q->count; i++) {
        const struct sb_sql_queue_entry *entry = &q->entries[i];
        bool fits = (entry->attempts > 0) == blocked &&
                    (!blocked || entry->due_ms <= now_ms || all) && batch->count < SB_SQL_BATCH_MAX;

        if (fits)
            sb_sql_batch_add(batch, entry->request, entry->deadline_ms)->attempts = entry->attempts;
        else
            q->entries[left++] = *entry;
    }
    q->count = left;
}
