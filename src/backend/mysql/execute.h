/*
 * execute.h - runs the statements of the MySQL dialect on a connection, and takes in their rows.
 */
#ifndef SB_MYSQL_EXECUTE_H
#define SB_MYSQL_EXECUTE_H

#include "backend/mysql/connection.h"

/* Runs a prepared statement with these values. The statement is the connection's; its rows, if it
 * has any, are stored and can be fetched. */
int sb_mysql_execute(struct sb_mysql_connection *connection, enum sb_sql_statement which,
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
    uint64_t place;    /* sb_mysql_select_many: 1 is the first item */
    unsigned long mutex_length;
    unsigned long owner_id_length;
    unsigned long read_only_length;
};

#define SB_MYSQL_ROW_COLUMNS (SB_SQL_COLUMN_FENCE + 2) /* of SB_MYSQL_COLUMNS */

/* Binds the columns of a result to `row`: SB_MYSQL_ROW_COLUMNS, and one more where there is a
 * place. False when memory is short, or when the server sends another number of them: the library
 * would fill as many as the server says. */
bool sb_mysql_bind_row(MYSQL_STMT *statement, size_t columns, struct sb_mysql_row *row);

/* Fetches the next row into what was bound, NULL as 0 or empty: false when there is none left.
 * Takes note of whether the server is read-only. */
bool sb_mysql_fetch_row(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                        struct sb_mysql_row *row);

/* Asks for what the condition of UPDATEs depends on: how the server tells its replicas of them. */
int sb_mysql_ask_log_format(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

/* Asks whether the server is read-only; and the same as a failure where it is. */
int sb_mysql_ask_read_only(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);
int sb_mysql_check_writable(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

/* ---- Statements that concern many rows at once, each a transaction of its own ---------------- */

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

#endif
