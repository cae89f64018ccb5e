/*
 * batch.h - requests that wait for the worker, and those that it carries out together: reads first,
 * then all writes in one transaction, then the answers.
 *
 * batch.c has the queue, the jobs and their answers, execute.c one attempt at them, rows.c the
 * writes on stores that lock rows. None of them knows threads, connecting or repairing: a caller
 * with several threads has a lock.
 */
#ifndef SB_SQL_BATCH_H
#define SB_SQL_BATCH_H

#include "backend/sql/places.h"
#include "backend/sql/repository.h"
#include "backend/sql/waiters.h"

#define SB_SQL_BATCH_MAX 256 /* requests in one transaction */

enum sb_sql_job_state {
    SB_SQL_JOB_WAITING, /* not carried out */
    SB_SQL_JOB_DONE,    /* carried out, not answered */
    SB_SQL_JOB_ANSWERED /* the request is not ours any more */
};

/* What is done to a job next on a store that locks rows. */
enum sb_sql_part { SB_SQL_CHANGE, SB_SQL_READ, SB_SQL_CREATE, SB_SQL_ENTER };

struct sb_sql_job {
    struct simba_request *request;
    int64_t deadline_ms;
    unsigned attempts; /* that met a lock */
    enum sb_sql_job_state state;
    bool found;              /* the mutex is on the store: item.record is set */
    bool changed;            /* the request had an effect that others may want to know of */
    bool thorough;           /* ACQUIRE: the next change looks at the queue, see is_marked */
    bool blocked;            /* another client has locked the row: not in this run any more */
    bool untried;            /* blocked only by the lock that another job has met before it */
    bool beaten;             /* an ACQUIRE that was found to be unable to win: item.record is set */
    int64_t locked_since_ms; /* such a one has met a lock; 0: it has not */
    bool left;               /* RELEASE: the place that the contender may have had is given up */
    bool joined;             /* it has entered the queue in this run, and not tried again since */
    enum sb_sql_part part;
    struct sb_sql_item item;
};

struct sb_sql_batch {
    const struct simba_backend_host *host;
    struct sb_sql_waiters *waiters; /* NULL: the store tells by other means */
    struct sb_sql_places *places;   /* NULL: its contenders do not wait in a queue */
    size_t count;
    struct sb_sql_job jobs[SB_SQL_BATCH_MAX];
    struct sb_sql_item *items[SB_SQL_BATCH_MAX]; /* of the statements that are run together */
};

/* What a request asks for. */
struct sb_sql_claim sb_sql_claim_of(const struct sb_sql_batch *batch,
                                    const struct sb_sql_repository *repository,
                                    const struct simba_request *request);

/* The queue that contenders wait in; NULL: there is none, or the store has no table for it. */
struct sb_sql_places *sb_sql_batch_places(const struct sb_sql_batch *batch,
                                          const struct sb_sql_repository *repository);

/* Whether it is a RELEASE that only gives up a place. */
bool sb_sql_leaves(const struct simba_request *request);

/* Adds a job that waits. `attempts` were blocked before. */
void sb_sql_batch_add(struct sb_sql_batch *batch, struct simba_request *request,
                      int64_t deadline_ms, unsigned attempts);

/* One attempt at all that is waiting; answers what was carried out and what never can be. Jobs that
 * are still waiting were not carried out: on success they met a lock, on failure failure->remedy
 * says what may help them. */
int sb_sql_batch_run(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                     struct sb_sql_failure *failure);

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

/* Answers what is done. On failure it may have gone to a file that others do not see any more: then
 * it counts for nothing, and the jobs wait again. */
int sb_sql_batch_settle(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                        struct sb_sql_failure *failure);

/* property.c: carries out and answers a request for a property. */
int sb_sql_batch_property(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                          struct sb_sql_job *job, struct sb_sql_failure *failure);

/* tend.c: carries out and answers FORGET and RAISE. */
int sb_sql_batch_tend(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                      struct sb_sql_job *job, struct sb_sql_failure *failure);

/* inspect.c: the same for a request to inspect. */
int sb_sql_batch_inspect(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                         struct sb_sql_job *job, struct sb_sql_failure *failure);

/* The writes of a run on a store that locks single rows, a database server. See sb_sql_batch_run.
 *
 *     change    all conditional updates in one transaction; what hit is answered at once
 *     read      the rows of those that did not hit, and what is only read: mostly they are done
 *     create    the rows that are missing, and once more from the start
 *     enter     the queue, with those that have to wait and are not in it; then they read again
 *
 * No wait is long: a row that another client has locked is left for a later run, so that it delays
 * no other mutex. */
int sb_sql_rows_write(struct sb_sql_batch *batch, struct sb_sql_repository *repository,
                      struct sb_sql_failure *failure);

/* ---- Pending requests ------------------------------------------------------------------------ */

struct sb_sql_pending_entry {
    struct simba_request *request;
    int64_t deadline_ms;
    int64_t due_ms;    /* not before */
    unsigned attempts; /* that met a lock */
};

/* Begins as zeros. */
struct sb_sql_pending {
    struct sb_sql_pending_entry *entries;
    size_t count;
    size_t room;
};

void sb_sql_pending_clear(struct sb_sql_pending *pending);

/* False when memory is short. */
bool sb_sql_pending_add(struct sb_sql_pending *pending, const struct sb_sql_pending_entry *entry);

/* Adds the jobs that still wait, because they met a lock; those that were not tried are due at
 * once. The last attempt took `took_ms`. False when memory is short: those that are still waiting
 * were not added. */
bool sb_sql_pending_add_blocked(struct sb_sql_pending *pending, struct sb_sql_batch *batch,
                                int64_t took_ms);

/* When the first is due; a full batch is due at once. SIMBA_INFINITE: there is none. */
int64_t sb_sql_pending_due_ms(const struct sb_sql_pending *pending);

/* Moves what goes together with the one that is due first into the batch. Blocked requests go by
 * themselves and when they are due, so that neither their locks nor their deadlines concern the
 * others. `all`: whether they are due or not. */
void sb_sql_pending_take(struct sb_sql_pending *pending, struct sb_sql_batch *batch, bool all);

#endif
