/*
 * exchange.h - one round trip: statements are sent together, and their results taken in order.
 *
 * All of an exchange is one transaction, which the server ends when it comes to the end of it: none stays open
 * for want of a client.
 */
#ifndef SB_BACKEND_POSTGRES_EXCHANGE_H
#define SB_BACKEND_POSTGRES_EXCHANGE_H

#include "backend/postgres/statement.h"

struct sb_postgres_connection;

struct sb_postgres_exchange {
    struct sb_postgres_connection *connection;
    bool writes; /* something that was sent may change something */
    bool broken; /* something could not be sent */
    /* Receives each result that is no error, with the number of its statement. An answer other than
     * SIMBA_OK becomes that of the exchange. May be NULL. */
    int (*take)(void *user, size_t index, const PGresult *result);
    void *user;
    size_t receive_max; /* bytes */

    /* What has come back: */
    size_t received; /* bytes */
    size_t index;    /* of the next result */
    bool synced;     /* all of it */
    bool failed;
    int code;
};

/* Begins. A connection that was closed meanwhile is found here, before anything is sent. */
int sb_postgres_exchange_begin(struct sb_postgres_exchange *exchange,
                               struct sb_postgres_connection *connection,
                               struct sb_sql_failure *failure);

void sb_postgres_exchange_send(struct sb_postgres_exchange *exchange, int statement,
                               const struct sb_sql_values *values);
void sb_postgres_exchange_send_text(struct sb_postgres_exchange *exchange, const char *text);
void sb_postgres_exchange_send_value(struct sb_postgres_exchange *exchange, const char *text,
                                     const char *value);
/* For what may wait for locks longer than a request: as long as there is time. */
void sb_postgres_exchange_limit(struct sb_postgres_exchange *exchange);
void sb_postgres_exchange_prepare(struct sb_postgres_exchange *exchange, int statement);

/* Waits for all results. On failure the transaction has been rolled back, or the code is
 * SIMBA_EUNKNOWN. */
int sb_postgres_exchange_end(struct sb_postgres_exchange *exchange, struct sb_sql_failure *failure);

/* The same for a thread that must not wait. After the end is sent it proceeds, and again whenever the socket
 * is ready for what it wants, events of poll(). Nothing wanted: it is over, and the code tells how. */
int sb_postgres_exchange_sync(struct sb_postgres_exchange *exchange,
                              struct sb_sql_failure *failure);
int sb_postgres_exchange_proceed(struct sb_postgres_exchange *exchange, short *ret_wants,
                                 struct sb_sql_failure *failure);
int sb_postgres_exchange_ready(struct sb_postgres_exchange *exchange, short *ret_wants,
                               struct sb_sql_failure *failure);

/* It is not waited for any longer: tells what that means. The connection is of no more use. */
int sb_postgres_exchange_late(struct sb_postgres_exchange *exchange,
                              struct sb_sql_failure *failure);

/* What a server may send in answer to a request, before it is left: libpq takes in all that comes. A list of all mutexes
 * may be longer. */
#define SB_POSTGRES_RECEIVED_MAX ((size_t)16 << 20)
#define SB_POSTGRES_LIST_MAX ((size_t)256 << 20)

/* Adds what the socket has to *received; false: that is more than `max`. */
bool sb_postgres_count(const PGconn *pg, size_t *received, size_t max);

/* Takes in what the socket has. False: the connection is lost, or *received more than `max`. */
bool sb_postgres_consume(PGconn *pg, size_t *received, size_t max);

/* Waits until the socket is ready for `events` of poll(); false when the deadline has come. */
bool sb_postgres_wait(const PGconn *pg, short events, int64_t deadline_ms);

#endif
