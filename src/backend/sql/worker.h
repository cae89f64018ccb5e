/*
 * worker.h - carries out the requests of an SQL client, with one connection and one thread. The
 * loop waits for the database only if that delays nobody but the caller.
 *
 * Requests that arrive while the thread works are taken together; those that meet a lock come back
 * later, without delaying the others. The worker reconnects with a back-off, creates the schema
 * again where it vanished, and answers every request by its deadline.
 */
#ifndef SB_SQL_WORKER_H
#define SB_SQL_WORKER_H

#include "backend/sql/waiters.h"
#include "base/shared.h"

struct sb_sql_worker;

struct sb_sql_worker_config {
    const struct sb_sql_driver *driver;
    void *settings; /* the driver's; it outlives the worker */
    const struct simba_backend_host *host;
    const char *name;   /* of the thread and in logs, at most 15 characters; not copied */
    int64_t wait_ms;    /* how long a request may wait for others at most */
    int64_t connect_ms; /* and a connection for being made */
    int64_t gather_ms;  /* how long renewals may wait for more of them to come */
    struct sb_sql_waiters *waiters; /* what to poll for; NULL: nothing */
    /* By which name waiters of this client are woken, at most SB_SQL_CLIENT_MAX bytes; NULL: they
     * do not wait in a queue. */
    const char *client;
};

/* Connects on the calling thread, so that what is wrong with the store is known at once; then
 * starts the worker's. */
int sb_sql_worker_start(const struct sb_sql_worker_config *config,
                        struct sb_sql_worker **ret_worker, struct simba_error *error)
    SB_SHARED("sql_worker_start");

/* Takes a batch. A single request that delays no other contender is mostly carried out before this
 * returns. */
void sb_sql_worker_submit(struct sb_sql_worker *worker, struct simba_request *batch)
    SB_SHARED("sql_worker_submit");

/* A contender (`id`) or an observer (NULL) of the mutex comes or goes. On the loop thread, as
 * submitting is. */
void sb_sql_worker_listen(struct sb_sql_worker *worker, const char *mutex, const char *id, bool on)
    SB_SHARED("sql_worker_listen");

/* SIMBA_EINVAL where the table did not take the name or the id when it was last connected to. From
 * any thread. */
int sb_sql_worker_check_names(struct sb_sql_worker *worker, const char *mutex, const char *id,
                              struct simba_error *error) SB_SHARED("sql_worker_check_names");

/* The waiters have something new to poll for. From any thread. */
void sb_sql_worker_nudge(struct sb_sql_worker *worker) SB_SHARED("sql_worker_nudge");

/* Destroys. Carries out what was submitted, ends the thread, and then calls stopped(argument) on
 * the loop thread. Does not block. */
void sb_sql_worker_stop(struct sb_sql_worker *worker, void (*stopped)(void *argument),
                        void *argument) SB_SHARED("sql_worker_stop");

#endif
