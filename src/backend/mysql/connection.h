/*
 * connection.h - the MySQL and MariaDB driver: one connection to a server.
 *
 * libmariadb is used in its non-blocking way, so that every wait has an end to the millisecond.
 */
#ifndef SB_MYSQL_CONNECTION_H
#define SB_MYSQL_CONNECTION_H

#include "backend/mysql/statement.h"
#include "backend/sql/address.h"
#include "backend/sql/driver.h"

#include <stdatomic.h>

/* What is known of the client's sleeping connection: see listener.h. */
enum sb_mysql_listener_state {
    SB_MYSQL_DEAF,     /* there is none, or it is not woken */
    SB_MYSQL_ON_TRIAL, /* it waits for a wake-up by its own client */
    SB_MYSQL_HEARS
};

/* Behind the client's name: the lock that its worker holds, and its second connection waits for. */
#define SB_MYSQL_HELD "_held"

/* What all connections of one client have in common. */
struct sb_mysql_settings {
    struct sb_sql_address address;         /* first: see SB_SQL_ADDRESS_OPTIONS */
    const struct simba_backend_host *host; /* NULL: nobody is told */
    char client[SB_SQL_CLIENT_MAX + 1];    /* by which its waiters are woken; empty: they are not */
    atomic_int listener;                   /* enum sb_mysql_listener_state */
    atomic_bool called;                    /* a waiter was told that it is its turn */
    atomic_bool warned_of_queue;           /* that contenders do not wait in a queue */
};

/* What the URLs take behind the '?'. */
extern const struct sb_url_option sb_mysql_options[];

struct sb_mysql_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_mysql_settings *settings;
    MYSQL *mysql;
    MYSQL_STMT *statements[SB_MYSQL_STATEMENTS]; /* prepared at their first use */
    int64_t deadline_ms;                         /* for answers */
    unsigned wait_max_s; /* of one wait in a blocking call, as simba bench has them; 0: no limit */
    bool timed_out;      /* it came */
    bool lacks_tls;      /* the server does, by its greeting */
    bool greets_wrong;   /* the server does, so that it is not listened to */
    bool distrusted;     /* what is in the table's place is none: nothing is sent any more */
    bool in_transaction;
    bool mariadb;
    bool read_only; /* the server was, when it was asked last: it grants nothing to any user */
    char condition[SB_MYSQL_CONDITION_MAX]; /* that it is not; behind every UPDATE */
    char server_id[SB_MYSQL_ANSWER_MAX]; /* where it sends statements to its replicas; else empty */
    char text[SB_MYSQL_TEXT_MAX];        /* of the statement that was prepared last */
    bool exact_names;                    /* names that differ in any byte are different rows */
    struct sb_mysql_parameters parameters;  /* of the statement that was sent last */
    bool holds_lock;                        /* that the client's second connection waits for */
    unsigned handed_on;                     /* how often a mutex was */
    char called_mutex[SIMBA_MUTEX_MAX + 1]; /* see sb_mysql_call */
    char called_id[SIMBA_ID_MAX + 1];
    bool has_terms;      /* the table simba_mutex has SB_SQL_TERM_COLUMNS */
    bool has_properties; /* the table of properties is there, and is one */
    bool ends_idling;    /* the server was told to end a transaction that nobody goes on with */
};

extern const struct sb_sql_driver sb_mysql_driver;

/* ---- call.c: the calls of libmariadb that wait for the server -------------------------------- */

/* They return what their namesakes do. When the connection's deadline has come the call fails, and
 * the connection is of no more use. */

/* Where to connect to, and as which user. NULL and 0 leave it to the library. */
struct sb_mysql_target {
    const char *host;
    unsigned port;
    const char *socket;
    bool is_tcp;   /* also where the host is localhost */
    bool is_local; /* a socket of this host */
    const char *user;
    const char *password;
    const char *database;
    bool needs_tls; /* a server whose greeting does not offer it is told nothing */
};

bool sb_mysql_call_connect(struct sb_mysql_connection *connection,
                           const struct sb_mysql_target *target);

/* What a server that has greeted offers. */
enum sb_mysql_greeting {
    SB_MYSQL_GREETING_PART, /* more of it has to come */
    SB_MYSQL_GREETING_TLS,
    SB_MYSQL_GREETING_NO_TLS, /* also where it is no greeting that the library could read */
    SB_MYSQL_GREETING_NONE,   /* the server refuses instead */
    SB_MYSQL_GREETING_WRONG   /* what the library must not read */
};

#define SB_MYSQL_GREETING_MAX 512 /* bytes that are looked at */

/* Reads what has come so far, at most SB_MYSQL_GREETING_MAX bytes. What follows changes no answer
 * but SB_MYSQL_GREETING_PART, and as many bytes as are looked at get another one. */
enum sb_mysql_greeting sb_mysql_read_greeting(const unsigned char *bytes, size_t count);

int sb_mysql_call_query(struct sb_mysql_connection *connection, const char *text);
MYSQL_RES *sb_mysql_call_store(struct sb_mysql_connection *connection);
int sb_mysql_call_prepare(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                          const char *text);
int sb_mysql_call_execute(struct sb_mysql_connection *connection, MYSQL_STMT *statement);
int sb_mysql_call_store_rows(struct sb_mysql_connection *connection, MYSQL_STMT *statement);

/* Whether the server has closed the connection while nobody was looking, or the client must not use
 * it any more. */
bool sb_mysql_is_closed(const struct sb_mysql_connection *connection);

/* ---- login.c: connecting and logging in ------------------------------------------------------ */

/* To hosts[host], or to the socket or what the option files name when there is none. Sets
 * connection->mysql, also where it fails. */
int sb_mysql_log_in(struct sb_mysql_connection *connection, size_t host,
                    struct sb_sql_failure *failure);

/* ---- failure.c: what the numbers of MySQL and MariaDB mean ----------------------------------- */

#define SB_MYSQL_INTERRUPTED 1317 /* ER_QUERY_INTERRUPTED */

/* The last call on the connection failed, or its answer is not what was asked for; `sent` tells
 * whether it might have changed something. */
int sb_mysql_fail(const struct sb_mysql_connection *connection, bool sent,
                  struct sb_sql_failure *failure);

/* The same for a COMMIT: only few of its failures tell that nothing was committed. */
int sb_mysql_fail_commit(const struct sb_mysql_connection *connection,
                         struct sb_sql_failure *failure);

/* The same for a call on a statement. */
int sb_mysql_fail_statement(const struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                            bool sent, struct sb_sql_failure *failure);

/* The server has closed the connection before anything was sent. */
int sb_mysql_fail_closed(struct sb_sql_failure *failure);

/* The server is read-only, whatever the user may do there. */
int sb_mysql_fail_read_only(struct sb_sql_failure *failure);

int sb_mysql_fail_memory(struct sb_sql_failure *failure);

/* ---- execute.c: runs statements and takes in their rows -------------------------------------- */

/* Runs a prepared statement with these values. The statement is the connection's; its rows, if it
 * has any, are stored and can be fetched. */
int sb_mysql_execute(struct sb_mysql_connection *connection, size_t which,
                     const struct sb_sql_values *values, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure);

/* Writes the text of one of them, with its condition, to the connection's `text`. */
void sb_mysql_write_text(struct sb_mysql_connection *connection, size_t which);

/* The parts of that, for statements that are made as they are needed. */
int sb_mysql_prepare(struct sb_mysql_connection *connection, const char *text,
                     MYSQL_STMT **ret_statement, struct sb_sql_failure *failure);
int sb_mysql_run_bound(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                       MYSQL_BIND *binds, size_t count, bool writes,
                       struct sb_sql_failure *failure);

/* Where the rows of a statement go to, one after the other. */
struct sb_mysql_row {
    struct sb_sql_record record;
    char read_only[8]; /* what the server says of itself */
    uint64_t place;    /* sb_mysql_select_many: 1 is the first item. SB_SQL_SELECT_PLACE: its */
    unsigned long mutex_length;
    unsigned long owner_id_length;
    unsigned long read_only_length;
};

#define SB_MYSQL_ROW_COLUMNS (SB_SQL_COLUMN_SINCE + 2) /* of SB_MYSQL_COLUMNS */

/* Binds the columns of a result to `row`: SB_MYSQL_ROW_COLUMNS, and one more where there is a
 * place. False when memory is short, or when the server sends another number of them: the library
 * would fill as many as the server says. */
bool sb_mysql_bind_row(MYSQL_STMT *statement, size_t columns, struct sb_mysql_row *row);

/* Fetches the next row into what was bound, NULL as 0 or empty: false when there is none left.
 * Takes note of whether the server is read-only. */
bool sb_mysql_fetch_row(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                        struct sb_mysql_row *row);

/* The same for the rows of SB_MYSQL_SELECT_NEXT. */
struct sb_mysql_next {
    uint64_t place; /* of the item, from 1; 0: it counts for nothing */
    struct sb_sql_waiter waiter;
    int64_t reserved_until_ms; /* 0: it is in the queue */
    unsigned long id_length;
    unsigned long client_length;
};

bool sb_mysql_bind_next(MYSQL_STMT *statement, struct sb_mysql_next *next);
bool sb_mysql_fetch_next(MYSQL_STMT *statement, struct sb_mysql_next *next);

/* Asks for what the condition of UPDATEs depends on: how the server tells its replicas of them. */
int sb_mysql_ask_log_format(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

/* Asks whether the server is read-only; and the same as a failure where it is. */
int sb_mysql_ask_read_only(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);
int sb_mysql_check_writable(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

/* ---- many.c: statements that concern many rows, each a transaction of its own ---------------- */

/* Reads rows: hits those items whose row was found. */
int sb_mysql_select_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Adds free rows, where they are missing. */
int sb_mysql_insert_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Changes rows: ACQUIRE, GUARD or RELEASE, the same for all of them and with one lease, of
 * different mutexes. *ret_count is how many were changed. */
int sb_mysql_update_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, int64_t *ret_count, struct sb_sql_failure *failure);

/* Gives the rows that have the version and the owner of the item's values the next version. */
int sb_mysql_claim_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                        size_t count, int64_t *ret_count, struct sb_sql_failure *failure);

/* Adds waiters, or lets them be; removes them; sets `next` of the items, at most
 * SB_MYSQL_NEXT_MAX. */
#define SB_MYSQL_NEXT_MAX 16
int sb_mysql_join_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure);
int sb_mysql_leave_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                        size_t count, int64_t *ret_count, struct sb_sql_failure *failure);
int sb_mysql_next_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure);

/* Tells waiters of the client of the items' values that they were called and have not come in time:
 * they are out of the queue, so nobody calls them again. They try now, and enter it anew. At most
 * SB_MYSQL_NEXT_MAX. */
int sb_mysql_tell_passed(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* ---- queue.c: contenders that wait ----------------------------------------------------------- */

/* Wakes a client: ends the sleep of its second connection. Whatever becomes of it. */
void sb_mysql_wake(struct sb_mysql_connection *connection, const char *client);

/* After a release: wakes the waiter that the mutex is reserved for, and the first of the queue.
 * Sets item->next and item->crowded. */
void sb_mysql_wake_next(struct sb_mysql_connection *connection, struct sb_sql_item *item);

/* Sets `next` of the item. */
int sb_mysql_next_one(struct sb_mysql_connection *connection, struct sb_sql_item *item,
                      struct sb_sql_failure *failure);

/* A poll has found whose turn it is; whether it may be the item's, which is forgotten by asking. */
void sb_mysql_call(struct sb_mysql_connection *connection, const char *mutex, const char *id);
bool sb_mysql_is_called(struct sb_mysql_connection *connection, const struct sb_sql_item *item);

/* See struct sb_sql_driver. Tells waiters of this client; those of others were woken. */
void sb_mysql_announce(struct sb_sql_connection *connection, enum simba_notice notice,
                       const char *mutex, const struct sb_sql_waiter *to);

/* Hands a free mutex on to the first of the queue. */
void sb_mysql_hand_on(struct sb_mysql_connection *connection, struct sb_sql_item *item);

/* SB_SQL_JOIN and SB_SQL_LEAVE of run_all. */
int sb_mysql_join(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                  size_t count, struct sb_sql_failure *failure);
int sb_mysql_leave(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_failure *failure);

/* A new name for a client; whether a text is one. */
void sb_mysql_name_client(char ret_client[SB_SQL_CLIENT_MAX + 1]);
bool sb_mysql_is_client(const char *name);

/* ---- property.c: the properties of mutexes --------------------------------------------------- */

/* `property` of struct sb_sql_driver. */
int sb_mysql_property(struct sb_sql_connection *connection, const struct sb_sql_property *property,
                      struct simba_property *ret_property, struct sb_sql_failure *failure);

/* Takes note whether the table of properties is there. */
int sb_mysql_find_properties(struct sb_mysql_connection *connection,
                             struct sb_sql_failure *failure);

/* Runs a statement with texts as its parameters. *ret_hit: it yielded a row, which goes to
 * ret_property, or with `ret_property` NULL changed one. */
int sb_mysql_run_texts(struct sb_mysql_connection *connection, const char *text,
                       const char *const *values, size_t count, bool *ret_hit,
                       struct simba_property *ret_property, struct sb_sql_failure *failure);

/* tend.c: `tend` of struct sb_sql_driver. */
int sb_mysql_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                  bool *ret_done, struct sb_sql_failure *failure);

#define SB_MYSQL_CREATE_PROPERTIES                                                                 \
    "CREATE TABLE IF NOT EXISTS simba_property (mutex varchar(264) NOT NULL, name varchar(32)"     \
    " NOT NULL, value varchar(512) NOT NULL, written_at bigint unsigned NOT NULL,"                 \
    " PRIMARY KEY (mutex, name)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC COLLATE utf8mb4_bin"

/* ---- inspect.c: settings of the server ------------------------------------------------------- */

/* `inspect` of struct sb_sql_driver. */
int sb_mysql_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                     struct sb_findings *findings, struct sb_sql_failure *failure);

/* ---- schema.c: the table on the server ------------------------------------------------------- */

/* The statement that creates the table. */
extern const char sb_mysql_schema[];

/* Looks at the table, and creates it where it is missing and the user may. Takes note of the width
 * and the collation of its columns: the JVM library's table serves as it is. */
int sb_mysql_init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure);

/* ---- rows.c: what is done to single rows ----------------------------------------------------- */

/* See run_all of struct sb_sql_driver. */
int sb_mysql_run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                     size_t count, struct sb_sql_failure *failure);

/* ---- poll.c: looks at what is waited for ----------------------------------------------------- */

/* See struct sb_sql_driver. */
int sb_mysql_read_queues(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

#endif
