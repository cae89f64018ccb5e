/*
 * connection.h - the PostgreSQL driver: one connection to a server.
 *
 * libpq is used in its non-blocking way, so that every wait has an end, and always in pipeline
 * mode: what is sent between two synchronisation points is one transaction and one round trip.
 */
#ifndef SB_POSTGRES_CONNECTION_H
#define SB_POSTGRES_CONNECTION_H

#include "backend/postgres/settings.h"
#include "backend/postgres/statement.h"
#include "backend/sql/driver.h"

struct sb_postgres_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_postgres_settings *settings;
    PGconn *pg;
    int64_t deadline_ms;      /* for answers */
    int64_t careful_until_ms; /* rows that are locked are passed over until then */
    unsigned handed_on;       /* how often, in a crowd */
    size_t asked;             /* bytes of all results so far, see sb_postgres_unasked */
    bool prepared;
    bool given_up; /* answers may be on their way that nobody waits for: nothing is sent any more */
    bool limited;  /* the session waits for no lock without an end: no request has to say so */

    char *search_path; /* the user's own, on which the table is looked for; NULL: not known yet */
    char table[SB_POSTGRES_TABLE_MAX]; /* with its schema; empty: not known yet */
    bool has_terms;                    /* it has SB_SQL_TERM_COLUMNS */
    char names[SB_POSTGRES_STATEMENTS][SB_POSTGRES_NAME_MAX]; /* of what is prepared */
    bool has_properties; /* the table of properties is there and can be used */
    bool distrusted;     /* the table turned out to be a stranger's: nothing is sent any more */
};

extern const struct sb_sql_driver sb_postgres_driver;

/* ---- exchange.c: one round trip -------------------------------------------------------------- */

/* Statements are sent together, and their results taken in order. All of an exchange is one
 * transaction, which the server ends when it comes to the end of it: none stays open for want of a
 * client. */

/* How many rows a statement yields. */
enum sb_postgres_rows { SB_POSTGRES_ROW_OR_NONE, SB_POSTGRES_ROW, SB_POSTGRES_ROWS };

/* What a server has to answer to a statement. */
struct sb_postgres_shape {
    unsigned char columns; /* at least; 0: it yields no rows */
    unsigned char rows;    /* one of enum sb_postgres_rows */
};

/* Statements in an exchange: a batch or a look, or all that are prepared, and what comes before
 * them. None is more than four of them. */
#define SB_POSTGRES_RESULTS_MAX 1040

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
/* A statement that is not prepared, with `count` parameters. */
void sb_postgres_exchange_send_values(struct sb_postgres_exchange *exchange, const char *text,
                                      const char *const *values, int count, bool writes,
                                      struct sb_postgres_shape shape);
/* The same for one that changes nothing. `value` is its parameter; NULL: it has none. */
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

/* What libpq has taken in since it connected, without the `asked` bytes that came for a reason. It
 * may keep all of the rest, such as settings of ever new names, until the connection ends: one with
 * more than SB_POSTGRES_UNASKED_MAX is replaced, and a server that sends SB_POSTGRES_RECEIVED_MAX
 * is left at once. 0 on a socket of the host: nobody counts what comes there. */
size_t sb_postgres_unasked(const PGconn *pg, size_t asked);
#define SB_POSTGRES_UNASKED_MAX ((size_t)1 << 20)
#define SB_POSTGRES_TOO_MUCH "the server sends data that the client did not ask for"

/* ---- login.c: connecting, without telling a server the password ------------------------------ */

enum sb_postgres_login {
    SB_POSTGRES_LOGIN_READING, /* wait until the socket can be read */
    SB_POSTGRES_LOGIN_WRITING,
    SB_POSTGRES_LOGIN_DONE,
    SB_POSTGRES_LOGIN_FAILED,
    SB_POSTGRES_LOGIN_TELLING, /* the server asks for the password itself, without TLS: leave it */
    SB_POSTGRES_LOGIN_COSTLY,  /* its proof takes longer than anybody waits: leave it */
    SB_POSTGRES_LOGIN_PLAIN,   /* it is connected without the TLS that the URL asks for */
    SB_POSTGRES_LOGIN_FLOOD,   /* it sends more than SB_POSTGRES_RECEIVED_MAX */
    SB_POSTGRES_LOGIN_SHORT    /* the process is short of descriptors */
};

/* In the place of PQconnectPoll: does what can be done without waiting. *received counts what the
 * server has sent, from 0 on. */
enum sb_postgres_login sb_postgres_login_poll(const struct sb_postgres_settings *settings,
                                              PGconn *pg, size_t *received);

/* Connects by the settings of `connection`, whose `pg` is NULL, until its deadline. After a failure
 * `pg` may be there: the caller finishes it in any case. */
int sb_postgres_log_in(struct sb_postgres_connection *connection, struct sb_sql_failure *failure);

/* ---- failure.c: what PostgreSQL's states mean ------------------------------------------------ */

/* A result that is an error; returns the code. */
int sb_postgres_fail_result(struct sb_postgres_connection *connection, const PGresult *result,
                            struct sb_sql_failure *failure);

/* The connection broke or kept silent; `sent` tells whether a change was on its way. */
int sb_postgres_fail_lost(const struct sb_postgres_connection *connection, bool sent,
                          const char *what, struct sb_sql_failure *failure);

/* A login that has ended in another way than SB_POSTGRES_LOGIN_DONE. `unread` tells why the
 * password may be an old one; its code is SIMBA_OK where it is not. */
int sb_postgres_fail_login(const struct sb_postgres_connection *connection,
                           enum sb_postgres_login login, const struct simba_error *unread,
                           struct sb_sql_failure *failure);

int sb_postgres_fail_memory(struct sb_sql_failure *failure);

/* ---- inspect.c: settings of the server ------------------------------------------------------- */

/* `inspect` of struct sb_sql_driver. */
int sb_postgres_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                        struct sb_findings *findings, struct sb_sql_failure *failure);

/* ---- schema.c: the table on the server ------------------------------------------------------- */

/* The statements that create the tables. */
extern const char sb_postgres_schema[];

/* Looks at the tables, and creates them where they are missing and the user may: all but that of
 * the properties. Refuses one of a stranger; does without that of the waiters. Takes note of their
 * schema and of the width of the columns. */
int sb_postgres_init_schema(struct sb_postgres_connection *connection,
                            struct sb_sql_failure *failure);

/* ---- property.c: the properties of mutexes --------------------------------------------------- */

/* `property` of struct sb_sql_driver. */
int sb_postgres_property(struct sb_sql_connection *connection,
                         const struct sb_sql_property *property,
                         struct simba_property *ret_property, struct sb_sql_failure *failure);

/* Takes note whether the table of properties is there. */
int sb_postgres_find_properties(struct sb_postgres_connection *connection,
                                struct sb_sql_failure *failure);

/* How much of the name of the first table is its schema, in which all others are, with the
 * point. */
int sb_postgres_schema_length(const struct sb_postgres_connection *connection);

/* poll.c: `read_queues` of struct sb_sql_driver. */
int sb_postgres_read_queues(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                            size_t count, struct sb_sql_failure *failure);

/* tend.c: `tend` of struct sb_sql_driver. */
int sb_postgres_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                     bool *ret_done, struct sb_sql_failure *failure);

#endif
