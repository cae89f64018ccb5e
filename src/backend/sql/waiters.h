/*
 * waiters.h - the mutexes that contenders of one client wait for, and when to poll for them next.
 *
 * For stores that cannot push a release to its waiters: one poll of all of them serves the whole
 * client, however many contenders it has. The interval is short after something has happened, and
 * grows while nothing does.
 *
 * Where contenders wait in a queue the poll reads who is next. A store may tell a client only that
 * something has happened (sb_sql_waiters_wake): then the poll reads what. Besides:
 *
 *     the first in it is this client's,      polls as above: a release of another library, or
 *     or it has observers of the mutex       of a user without wake-ups, is found so
 *     it is not                              polls rarely: the ones before may all be dead
 *     wake-ups do not arrive                 the first polls more often than a reservation
 *                                            ends, the others as they do without a queue
 *
 * Threads: contenders come and go on the loop thread; the user of the worker's connection, its
 * thread or the loop's, notes which of them have to wait.
 */
#ifndef SB_SQL_WAITERS_H
#define SB_SQL_WAITERS_H

#include "backend/sql/driver.h"
#include "base/shared.h"

#define SB_SQL_WAITERS_POLL_MAX 256 /* mutexes in one statement */

struct sb_sql_waiters;

struct sb_sql_waiters_config {
    const struct simba_backend_host *host;
    int64_t poll_max_ms;       /* the longest interval */
    const char *client;        /* whose waiters are in the queues; NULL: the polls read no queues */
    bool trusts_push;          /* with queues: no polls either while releases are pushed */
    void (*first)(void *user); /* may be NULL. By the worker: the first contender waits */
    void *user;
};

int sb_sql_waiters_create(const struct sb_sql_waiters_config *config,
                          struct sb_sql_waiters **ret_waiters, struct simba_error *error)
    SB_SHARED("sql_waiters_create");
void sb_sql_waiters_destroy(struct sb_sql_waiters *waiters)
    SB_SHARED("sql_waiters_destroy"); /* takes NULL */

/* Loop thread: a contender or an observer of the mutex comes or goes. There are no polls for
 * observers alone. */
void sb_sql_waiters_listen(struct sb_sql_waiters *waiters, const char *mutex, bool observer,
                           bool on) SB_SHARED("sql_waiters_listen");

/* From any thread: while releases are pushed, there are no polls; or, with queues, fewer. */
void sb_sql_waiters_set_push(struct sb_sql_waiters *waiters, bool on)
    SB_SHARED("sql_waiters_set_push");

/* From any thread: something has happened in one of the queues. True: the one contender that it can
 * concern was told. Otherwise a poll is due, and the caller nudges the worker. */
bool sb_sql_waiters_wake(struct sb_sql_waiters *waiters) SB_SHARED("sql_waiters_wake");

/* Worker: an acquire has found another owner, or has won. */
void sb_sql_waiters_note(struct sb_sql_waiters *waiters, const char *mutex, bool waits);

/* Worker: when the next poll is due; SIMBA_INFINITE: never. */
int64_t sb_sql_waiters_due_ms(struct sb_sql_waiters *waiters);

/* Worker: polls: reads all that is waited for, and gives notice of what is free and, where there
 * are observers, of what has another owner. */
int sb_sql_waiters_poll(struct sb_sql_waiters *waiters, struct sb_sql_connection *connection,
                        struct sb_sql_failure *failure);

/* Worker: skips the poll that is due, because there is no connection. */
void sb_sql_waiters_skip(struct sb_sql_waiters *waiters);

#endif
