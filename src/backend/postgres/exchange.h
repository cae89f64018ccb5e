/*
 * exchange.h - one round trip: statements are sent together, and their results taken in order.
 *
 * All of an exchange is one transaction, which the server ends when it comes to the end of it: none
 * stays open for want of a client.
 */
#ifndef SB_POSTGRES_EXCHANGE_H
#define SB_POSTGRES_EXCHANGE_H

#include "backend/postgres/statement.h"

struct sb_postgres_connection;

/* How many rows a statement yields. */
enum sb_postgres_rows { SB_POSTGRES_ROW_OR_NONE, SB_POSTGRES_ROW, SB_POSTGRES_ROWS };

/* What a server has to answer to a statement. */
struct sb_postgres_shape {
    unsigned char columns; /* at least; 0: it yields no rows */
    unsigned char rows;    /* one of enum sb_postgres_rows */
};

/* Statements in an exchange: a batch or a look, or all that are prepared, and what comes before
 * them. */
#define SB_POSTGRES_RESULTS_MAX 260

struct sb_postgres_exchange {
    struct sb_postgres_connection *connection;
    bool writes; /* something that was sent may change something */
    bool broken; /* something could not be sent */
    /* Receives each result that is no error and has the shape that its statement asked for, with
     * the number of the statement. The rows of a statement that yields many come one by one, each
     * in a result of its own, and behind them a result without any. An answer other than SIMBA_OK
     * becomes that of the exchange. May be NULL. */
    int (*take)(void *user, size_t index, const PGresult *result);
    void *user;
    struct sb_postgres_shape shapes[SB_POSTGRES_RESULTS_MAX];
    size_t sent; /* statements */

    /* What has come back: */
    size_t received;   /* bytes, since the last of many rows */
    size_t rows;       /* of those that come one by one */
    size_t index;      /* of the next result */
    bool synced;       /* all of it */
    const char *wrong; /* why the server is left; NULL: it is not */
    bool failed;
    int code;
};

/* Begins. A connection that was closed meanwhile is found here, before anything is sent. */
int sb_postgres_exchange_begin(struct sb_postgres_exchange *exchange,
                               struct sb_postgres_connection *connection,
                               struct sb_sql_failure *failure);

void sb_postgres_exchange_send(struct sb_postgres_exchange *exchange, int statement,
                               const struct sb_sql_values *values);
/* `value` is its parameter; NULL: it has none. */
void sb_postgres_exchange_send_text(struct sb_postgres_exchange *exchange, const char *text,
                                    const char *value, struct sb_postgres_shape shape);
/* For what may wait for locks longer than a request: as long as there is time. */
void sb_postgres_exchange_limit(struct sb_postgres_exchange *exchange);
void sb_postgres_exchange_prepare(struct sb_postgres_exchange *exchange, int statement);

/* Waits for all results. On failure the transaction has been rolled back, or the code is
 * SIMBA_EUNKNOWN. */
int sb_postgres_exchange_end(struct sb_postgres_exchange *exchange, struct sb_sql_failure *failure);

/* What a server may send in answer to a request, or for one row of the list of all mutexes, before
 * it is left: libpq takes in all that comes. */
#define SB_POSTGRES_RECEIVED_MAX ((size_t)16 << 20)
#define SB_POSTGRES_ROWS_MAX 1000000 /* in the list */

/* Adds what the socket has to *received; false: that is more than SB_POSTGRES_RECEIVED_MAX. */
bool sb_postgres_count(const PGconn *pg, size_t *received);

/* Takes in what the socket has. False: the connection is lost, or *received too much. */
bool sb_postgres_consume(PGconn *pg, size_t *received);

/* Waits until the socket is ready for `events` of poll(); false when the deadline has come. */
bool sb_postgres_wait(const PGconn *pg, short events, int64_t deadline_ms);

#endif
