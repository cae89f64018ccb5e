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

/* What all connections of one client have in common. */
struct sb_mysql_settings {
    struct sb_sql_address address;
};

/* What the URLs take behind the '?'. */
extern const struct sb_url_option sb_mysql_options[];

struct sb_mysql_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_mysql_settings *settings;
    MYSQL *mysql;
    MYSQL_STMT *statements[SB_MYSQL_STATEMENTS]; /* prepared at their first use */
    int64_t deadline_ms;                         /* for answers */
    bool timed_out;                              /* it came */
    bool lacks_tls;                              /* the server does, by its greeting */
    bool greets_wrong; /* the server does, so that it is not listened to */
    bool distrusted;   /* what is in the table's place is none: nothing is sent any more */
    bool in_transaction;
    bool mariadb;
    bool read_only; /* the server was, when it was asked last: it grants nothing to any user */
    char condition[SB_MYSQL_CONDITION_MAX]; /* that it is not; behind every UPDATE */
    char server_id[SB_MYSQL_ANSWER_MAX]; /* where it sends statements to its replicas; else empty */
    char text[SB_MYSQL_TEXT_MAX];        /* of the statement that was prepared last */
    bool exact_names;                    /* names that differ in any byte are different rows */
    struct sb_mysql_parameters parameters; /* of the statement that was sent last */
    bool ends_idling; /* the server was told to end a transaction that nobody goes on with */
};

extern const struct sb_sql_driver sb_mysql_driver;

/* ---- login.c: connecting and logging in ------------------------------------------------------ */

/* To hosts[host], or to the socket or what the option files name when there is none. Sets
 * connection->mysql, also where it fails. */
int sb_mysql_log_in(struct sb_mysql_connection *connection, size_t host,
                    struct sb_sql_failure *failure);

/* ---- failure.c: what the numbers of MySQL and MariaDB mean ----------------------------------- */

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

/* ---- schema.c: the table on the server ------------------------------------------------------- */

/* The statement that creates the table. */
extern const char sb_mysql_schema[];

/* Looks at the table, and creates it where it is missing and the user may. Takes note of the width
 * and the collation of its columns: the JVM library's table serves as it is. */
int sb_mysql_init_schema(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

/* ---- rows.c: what is done to single rows ----------------------------------------------------- */

/* See run_all of struct sb_sql_driver. */
int sb_mysql_run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                     size_t count, struct sb_sql_failure *failure);

#endif
