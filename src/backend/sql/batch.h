/*
 * batch.h - requests that are carried out together: reads first, then all writes in one
 * transaction, then the answers.
 *
 * batch.c has the jobs and their answers, execute.c one attempt at them, rows.c the writes on
 * stores that lock rows. They know nothing of threads, connecting or repairing.
 */
#ifndef SB_SQL_BATCH_H
#define SB_SQL_BATCH_H

#include "backend/sql/repository.h"
#include "backend/sql/waiters.h"

#define SB_SQL_BATCH_MAX 256 /* requests in one transaction */

enum sb_sql_job_state {
    SB_SQL_JOB_WAITING, /* not carried out */
    SB_SQL_JOB_DONE,    /* carried out, not answered */
    SB_SQL_JOB_ANSWERED /* the request is not ours any more */
};

struct sb_sql_job {
    struct simba_request *request;
    int64_t deadline_ms;
    unsigned attempts; /* that somebody was in the way of */
    enum sb_sql_job_state state;
    bool found;   /* the mutex is on the store: item.record is set */
    bool changed; /* the request had an effect that others may want to know of */
    bool blocked; /* somebody else has the row: not in this run any more */
    struct sb_sql_item item;
};

struct sb_sql_batch {
    const struct simba_backend_host *host;
    struct sb_sql_waiters *waiters; /* NULL: the store tells by other means */
    size_t count;
    struct sb_sql_job jobs[SB_SQL_BATCH_MAX];
    struct sb_sql_item *items[SB_SQL_BATCH_MAX]; /* of the statements that are run together */
};

/* An empty one. What jobs would take is left alone: it is 88 KiB. */
void sb_sql_batch_init(struct sb_sql_batch *batch, const struct simba_backend_host *host,
                       struct sb_sql_waiters *waiters);

/* Returns the job, for what the caller knows of it. */
struct sb_sql_job *sb_sql_batch_add(struct sb_sql_batch *batch, struct simba_request *request,
                                    int64_t deadline_ms);

/* One attempt at all that is waiting, answering what was carried out and what never can be. Jobs
 * that are still waiting were not carried out: on success somebody was in their way, on failure
 * failure->remedy says what may help them. */
int sb_sql_batch_run(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                     struct sb_sql_failure *failure);

/* Whether no job is waiting. */
bool sb_sql_batch_is_over(const struct sb_sql_batch *batch);

/* The earliest deadline of those waiting; SIMBA_INFINITE when none is. */
int64_t sb_sql_batch_deadline_ms(const struct sb_sql_batch *batch);

/* Answers those waiting whose time has run out. */
void sb_sql_batch_expire(struct sb_sql_batch *batch, int64_t now_ms,
                         const struct simba_error *error);

/* Answers all that are waiting. */
void sb_sql_batch_fail(struct sb_sql_batch *batch, const struct simba_error *error);

/* How many jobs are waiting. */
size_t sb_sql_batch_waiting(const struct sb_sql_batch *batch);

/* For the parts of a run: */

/* Answers one job; with a failure. */
void sb_sql_batch_answer(struct sb_sql_batch *batch, struct sb_sql_job *job,
                         const struct simba_reply *reply);
void sb_sql_batch_refuse(struct sb_sql_batch *batch, struct sb_sql_job *job,
                         const struct simba_error *error);

/* Answers what is done. Where that went to something that is not the store any more it counts for
 * nothing, and the jobs wait again. */
int sb_sql_batch_settle(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                        struct sb_sql_failure *failure);

/* The writes of a run on a store that locks single rows, a database server. See sb_sql_batch_run.
 *
 *     change    all conditional updates in one transaction; what hit is answered at once
 *     read      the rows of those that did not hit, and what is only read: mostly they are done
 *     create    the rows that are missing, and once more from the start
 *
 * Nobody waits for long: a row that somebody else has locked is left for a later run, so that it
 * delays no other mutex. */
int sb_sql_rows_write(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                      struct sb_sql_failure *failure);

#endif
