/*
 * batch.h - requests that are carried out together: reads first, then all writes in one transaction,
 * then the answers.
 *
 * Owns the order and who gets which answer; knows nothing of threads, connecting or healing.
 */
#ifndef SB_BACKEND_SQL_BATCH_H
#define SB_BACKEND_SQL_BATCH_H

#include "backend/sql/repository.h"

#define SB_BATCH_MAX 256 /* requests in one transaction */

enum sb_job_state {
    SB_JOB_WAITING, /* not carried out */
    SB_JOB_DONE,    /* carried out, not answered */
    SB_JOB_ANSWERED /* the request is not ours any more */
};

struct sb_job {
    struct simba_request *request;
    int64_t deadline_ms;
    enum sb_job_state state;
    bool found;   /* the mutex is on the store: `record` is set */
    bool changed; /* the request had an effect that others may want to know of */
    struct sb_sql_record record;
};

struct sb_batch {
    const struct simba_backend_host *host;
    size_t count;
    struct sb_job jobs[SB_BATCH_MAX];
};

void sb_batch_add(struct sb_batch *batch, struct simba_request *request, int64_t deadline_ms);

/* One attempt at all that is waiting, answering what was carried out and what never can be. On failure
 * the jobs that are still waiting were not carried out, and failure->remedy says what may help them. */
int sb_batch_run(struct sb_batch *batch, struct sb_repository *repository,
                 struct sb_sql_failure *failure);

/* Whether no job is waiting. */
bool sb_batch_is_over(const struct sb_batch *batch);

/* The earliest deadline of those waiting; SIMBA_INFINITE when none is. */
int64_t sb_batch_deadline_ms(const struct sb_batch *batch);

/* Answers those waiting whose time has run out. */
void sb_batch_expire(struct sb_batch *batch, int64_t now_ms, const struct simba_error *error);

/* Answers all that are waiting. */
void sb_batch_fail(struct sb_batch *batch, const struct simba_error *error);

#endif
