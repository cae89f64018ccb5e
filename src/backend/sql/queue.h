/*
 * queue.h - the requests that wait for the worker: when each is due, and which of them go together.
 *
 * Knows nothing of threads: a caller with several threads has a lock.
 */
#ifndef SB_SQL_QUEUE_H
#define SB_SQL_QUEUE_H

#include "backend/sql/batch.h"

struct sb_sql_queue_entry {
    struct simba_request *request;
    int64_t deadline_ms;
    int64_t due_ms;    /* not before */
    unsigned attempts; /* that somebody was in the way of */
};

/* Begins as zeros. */
struct sb_sql_queue {
    struct sb_sql_queue_entry *entries;
    size_t count;
    size_t room;
};

void sb_sql_queue_clear(struct sb_sql_queue *queue);

/* False when memory is short. */
bool sb_sql_queue_add(struct sb_sql_queue *queue, const struct sb_sql_queue_entry *entry);

/* Adds the jobs that are waiting again, because somebody was in their way. The last attempt took
 * `took_ms`. False when memory is short: those that are still waiting were not added. */
bool sb_sql_queue_add_blocked(struct sb_sql_queue *queue, struct sb_sql_batch *batch,
                              int64_t took_ms);

/* When the first is due; a full batch is due at once. SIMBA_INFINITE: there is none. */
int64_t sb_sql_queue_due_ms(const struct sb_sql_queue *queue);

/* Moves what goes together with the one that is due first into the batch. Those that were blocked
 * go by themselves, so that neither their locks nor their deadlines concern the others, and when
 * they are due: a full batch does not wait for them. `all`: whether it is due or not. */
void sb_sql_queue_take(struct sb_sql_queue *queue, struct sb_sql_batch *batch, bool all);

#endif
