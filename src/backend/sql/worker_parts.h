/*
 * worker_parts.h - what the parts of a worker share. Who uses the connection:
 *
 *     several requests, renewals, looks, healing          the thread: worker.c
 *     a lone request while nobody uses the connection     the loop's thread: worker_lone.c
 *
 * For those two files only.
 */
#ifndef SB_BACKEND_SQL_WORKER_PARTS_H
#define SB_BACKEND_SQL_WORKER_PARTS_H

#include "backend/sql/batch.h"
#include "backend/sql/flight.h"
#include "backend/sql/link.h"
#include "backend/sql/queue.h"
#include "backend/sql/worker.h"

#include <pthread.h>

/* Servers are given at least this long for an answer: a connection that is given up costs more than one
 * request's punctuality. */
#define SB_WORKER_ANSWER_MIN_MS 300

struct sb_worker {
    struct sb_worker_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, `user` included */
    pthread_cond_t arrived;
    struct sb_queue queue;
    bool stopping;
    bool broken;                        /* `failure` has made the connection useless */
    int64_t wakes_at_ms;                /* the thread, unless it is called */
    struct sb_flight *flight;           /* made when there is a lone request */
    struct sb_sql_names names;          /* what the table took when it was last connected to */
    enum { NOBODY, THREAD, LOOP } user; /* of the connection */

    /* The user's own: */
    struct sb_sql_link link;
    struct sb_sql_failure failure;
    int64_t lone_began_ms; /* when the lone request did */

    int64_t thread_only_until_ms; /* the loop's own: no request is carried out there before */

    void (*stopped)(void *argument);
    void *argument;
    struct simba_task last_task;

    /* The user's own, too. At the end: its many jobs take no page before they are used. */
    struct sb_batch batch;
};

/* Until when a request that came now is answered. */
int64_t sb_worker_deadline_ms(const struct sb_worker *worker, const struct simba_request *request,
                              int64_t now_ms);

/* When the waiters are to be looked at next. */
int64_t sb_worker_look_due_ms(const struct sb_worker *worker);

/* Puts the jobs that somebody was in the way of back into the queue; false when memory is short. */
bool sb_worker_take_back(struct sb_worker *worker, int64_t began_ms);

/* On the loop, with a batch that is a lone request and a connection that nobody uses; else false, and nothing
 * has been done. The one sends it to the server, the other carries it out before it returns. */
bool sb_worker_fly(struct sb_worker *worker, struct simba_request *batch);
bool sb_worker_try_now(struct sb_worker *worker, struct simba_request *batch);

#endif
